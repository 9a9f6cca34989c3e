"""The secret for AUTH: given, or asked of a function, and never shown."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nsq_anyio.connection.auth_secret import reveal
from nsq_anyio.errors import HandshakeFailed, InvalidOption

pytestmark = pytest.mark.anyio


async def slowly() -> str:
    await checkpoint()
    return "s3cret \u00e4"


@pytest.mark.parametrize(
    "secret", ["s3cret \u00e4", "s3cret \u00e4".encode(), lambda: "s3cret \u00e4", slowly]
)
async def test_it_is_given_or_asked_for(secret: Any) -> None:
    assert await reveal(secret, "h:1") == b"s3cret \xc3\xa4"


async def test_a_function_is_asked_each_time() -> None:
    secrets = iter(["one", "two"])
    assert [await reveal(lambda: next(secrets), "h:1") for _ in range(2)] == [b"one", b"two"]


async def test_a_function_that_raises_does_not_show_what_it_said() -> None:
    def leak() -> str:
        raise LookupError("no entry for s3cret")

    with pytest.raises(HandshakeFailed) as caught:
        await reveal(leak, "h:1")
    assert str(caught.value) == "nsqd h:1: the function auth_secret raised LookupError"
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("returned", [None, "", b"", 7, ["s3cret"]])
async def test_what_is_no_secret_is_refused(returned: Any) -> None:
    with pytest.raises(
        InvalidOption, match=f"auth_secret returned {type(returned).__name__}: use a non-empty"
    ):
        await reveal(lambda: returned, "h:1")


async def test_a_cancelled_wait_is_a_cancellation() -> None:
    async def never() -> str:
        await anyio.sleep_forever()
        return "s3cret"

    with anyio.move_on_after(0.01) as scope:
        await reveal(never, "h:1")
    assert scope.cancelled_caught
