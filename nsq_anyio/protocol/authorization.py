"""What nsqd answers to AUTH."""

from __future__ import annotations

from dataclasses import dataclass

from .json_fields import field, parse_object


@dataclass(frozen=True, slots=True)
class AuthReply:
    """What nsqd learnt from its auth server.

    :ivar identity: who this client is
    :ivar identity_url: where to read about that identity
    :ivar permission_count: how many authorizations that identity has
    """

    identity: str = ""
    identity_url: str = ""
    permission_count: int = 0

    @classmethod
    def parse(cls, data: bytes) -> AuthReply:
        """Parse the data of the answer to an AUTH.

        :raises ProtocolError: if it is not JSON with fields of the right types
        """
        fields = parse_object("AUTH", data)
        return cls(
            identity=field("AUTH", fields, "identity", str, ""),
            identity_url=field("AUTH", fields, "identity_url", str, ""),
            permission_count=field("AUTH", fields, "permission_count", int, 0),
        )
