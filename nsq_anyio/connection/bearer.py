"""The secret of AUTH as the header ``Authorization``, for nsqlookupds behind a proxy that asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..errors import HandshakeFailed, HTTPUnavailable, InvalidOption
from ..options import AuthSecret
from .auth_secret import reveal


def bearer(secret: AuthSecret, url: str) -> Callable[[], Awaitable[str]]:
    """Return a function that reveals the secret for each request to ``url``.

    A function, so that neither errors nor the repr of the client show the secret.
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
