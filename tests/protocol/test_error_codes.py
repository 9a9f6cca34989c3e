import pytest

from nsq_anyio.errors import PermanentRefusal, ServerError
from nsq_anyio.protocol.error_codes import (
    FAILED_RESPONSE_CODES,
    FATAL_CODES,
    PERMANENT_CODES,
    failed_message_id,
    parse_error,
)

# Every code that nsqd 1.3.0 writes: protocol_v2.go and, for E_BAD_PROTOCOL, tcp.go.
NSQD_FATAL = {
    "E_AUTH_DISABLED",
    "E_AUTH_ERROR",
    "E_AUTH_FAILED",
    "E_AUTH_FIRST",
    "E_BAD_BODY",
    "E_BAD_CHANNEL",
    "E_BAD_MESSAGE",
    "E_BAD_PROTOCOL",
    "E_BAD_TOPIC",
    "E_DPUB_FAILED",
    "E_IDENTIFY_FAILED",
    "E_INVALID",
    "E_MPUB_FAILED",
    "E_PUB_FAILED",
    "E_SUB_FAILED",
    "E_UNAUTHORIZED",
}
NSQD_OPEN = {"E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED"}


def test_every_code_of_nsqd_is_known() -> None:
    assert FATAL_CODES == NSQD_FATAL
    assert FAILED_RESPONSE_CODES == NSQD_OPEN
    assert PERMANENT_CODES < FATAL_CODES


@pytest.mark.parametrize("code", sorted(NSQD_FATAL | NSQD_OPEN | {"E_FROM_THE_FUTURE", ""}))
@pytest.mark.parametrize("detail", ["", 'PUB topic name "a b" is not valid'])
@pytest.mark.parametrize("handshake", [False, True])
def test_parse(code: str, detail: str, handshake: bool) -> None:
    error = parse_error(f"{code} {detail}".encode() if detail else code.encode(), handshake=handshake)
    assert (error.code, error.detail) == (code, detail)
    # nsqd keeps the connection after three codes only; one that is not known is taken for the worse.
    assert error.fatal is (code not in NSQD_OPEN)
    assert isinstance(error, PermanentRefusal) is (handshake and code in PERMANENT_CODES)


@pytest.mark.parametrize("code", ["E_SUB_FAILED", "E_PUB_FAILED"])
def test_what_may_succeed_later_is_not_permanent(code: str) -> None:
    assert not isinstance(parse_error(code.encode(), handshake=True), PermanentRefusal)


def test_outside_of_the_handshake_nothing_is_permanent_by_default() -> None:
    assert type(parse_error(b"E_INVALID cannot FIN in current state")) is ServerError


@pytest.mark.parametrize(
    ("data", "code", "detail"),
    [
        (b"E_INVALID  two  spaces ", "E_INVALID", " two  spaces "),
        (b"E_BAD_BODY \xff\xfe", "E_BAD_BODY", "\\xff\\xfe"),
        (b"\xff", "\\xff", ""),
        ("E_INVALID é".encode(), "E_INVALID", "é"),
        (b"E_INVALID a\nb", "E_INVALID", "a\nb"),
    ],
)
def test_any_bytes_have_a_text(data: bytes, code: str, detail: str) -> None:
    error = parse_error(data)
    assert (error.code, error.detail) == (code, detail)


@pytest.mark.parametrize(
    ("data", "message_id"),
    [
        (b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight", b"0123456789abcdef"),
        (b"E_REQ_FAILED REQ 0123456789abcdef failed client does not own message", b"0123456789abcdef"),
        (b"E_TOUCH_FAILED TOUCH 0123456789abcdef failed ID not in flight", b"0123456789abcdef"),
        (b"E_FIN_FAILED FIN !~!~!~!~!~!~!~!~ failed x", b"!~!~!~!~!~!~!~!~"),
        (b"E_FIN_FAILED", None),
        (b"E_FIN_FAILED FIN 0123456789abcde failed x", None),
        (b"E_FIN_FAILED FIN 0123456789abcdefg failed x", None),
        (b"E_FIN_FAILED FIN 0123456789abcd\xff failed x", None),
        ("E_FIN_FAILED FIN 0123456789abcdeé failed x".encode(), None),
        (b"E_FIN_FAILED FIN 01234567 9abcdef failed x", None),
        (b"E_INVALID FIN 0123456789abcdef failed x", None),
    ],
)
def test_the_id_of_the_message_whose_answer_failed(data: bytes, message_id: bytes | None) -> None:
    assert failed_message_id(parse_error(data)) == message_id


def test_a_long_text_is_cut() -> None:
    error = parse_error(b"E_INVALID " + b"x" * 16_000_000)
    assert (error.code, len(str(error))) == ("E_INVALID", 1024)
