"""The secret for AUTH. No error or repr here shows it."""

from __future__ import annotations

import inspect

from ..errors import HandshakeFailed, InvalidOption
from ..options import AuthSecret
from ..tasks import is_stray


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
