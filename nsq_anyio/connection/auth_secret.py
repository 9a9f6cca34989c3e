"""The secret for AUTH, which proxies of nsqlookupds may require, too. No error or repr shows it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from ..errors import HandshakeFailed, HTTPUnavailable, InvalidOption
from ..options import AuthSecret
from ..tasks import is_stray


class SecretWithheld(Exception):
    """Raised by a function ``auth_secret`` that withholds the secret. Its text says why, and may be shown."""


async def reveal(secret: AuthSecret, nsqd: str) -> bytes:
    """Return the secret; call ``secret`` for it if it is a function.

    :raises HandshakeFailed: if the function raises; the text of its error is left out, since it may hold the
        secret
    :raises InvalidOption: if the function returns no secret
    """
    if callable(secret):
        try:
            returned = secret()
            secret = await returned if inspect.isawaitable(returned) else returned
        except SecretWithheld as error:
            raise HandshakeFailed(nsqd, str(error)) from error
        except BaseException as error:
            if not (isinstance(error, Exception) or is_stray(error)):
                raise
            reason = f"the function auth_secret raised {type(error).__name__}"
            raise HandshakeFailed(nsqd, reason) from error
    if not isinstance(secret, str | bytes) or not secret:
        raise InvalidOption(
            f"the function auth_secret returned {type(secret).__name__}: use a non-empty string or bytes"
        )
    return secret.encode() if isinstance(secret, str) else secret


def bearer(secret: AuthSecret, url: str) -> Callable[[], Awaitable[str]]:
    """Return a function that reveals the secret as the header ``Authorization`` of a request to ``url``.

    It is a function, so that neither errors nor the repr of the client show the secret.
    """

    async def authorization() -> str:
        try:
            revealed = await reveal(secret, url)
        except (HandshakeFailed, InvalidOption) as error:
            reason = error.reason if isinstance(error, HandshakeFailed) else str(error)
            raise HTTPUnavailable(url, f"not asked: {reason}") from error
        # Latin-1 maps each byte to one character. The client refuses non-ASCII text without showing it.
        return f"Bearer {revealed.decode('latin-1')}"

    return authorization
