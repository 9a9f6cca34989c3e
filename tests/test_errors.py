import ast
import copy
import inspect
import pickle
import re

import pytest

from nsq_anyio import errors
from nsq_anyio.errors import (
    AlreadyResponded,
    Closed,
    ConnectionFailed,
    ConnectionLost,
    DelayFileUnusable,
    DialFailed,
    Discard,
    FewerCopies,
    FrameTooLarge,
    HandshakeFailed,
    HeartbeatTimeout,
    HTTPError,
    HTTPInvalidReply,
    HTTPStatusError,
    HTTPUnavailable,
    InvalidAddress,
    InvalidBody,
    InvalidEnvelope,
    InvalidName,
    InvalidOption,
    NotEntered,
    NotSent,
    NSQError,
    OutcomeUnknown,
    PermanentRefusal,
    ProtocolError,
    PublishError,
    PublishRejected,
    Requeue,
    ServerError,
    TLSFailed,
    WouldDeadlock,
)

from .package_source import MODULES

# One of each class, with its text and the attributes that a handler may read.
EXAMPLES: list[tuple[NSQError, str, dict[str, object]]] = [
    (NSQError("x"), "x", {}),
    (InvalidOption("x"), "x", {}),
    (InvalidName("x"), "x", {}),
    (InvalidAddress("x"), "x", {}),
    (InvalidBody("x"), "x", {}),
    (InvalidEnvelope("x"), "x", {}),
    (ConnectionFailed("h:1", "why"), "nsqd h:1: why", {"nsqd": "h:1", "reason": "why"}),
    (DialFailed("h:1", "why"), "nsqd h:1: why", {"nsqd": "h:1", "reason": "why"}),
    (HandshakeFailed("h:1", "why"), "nsqd h:1: why", {"nsqd": "h:1", "reason": "why"}),
    (TLSFailed("h:1", "why"), "nsqd h:1: why", {"nsqd": "h:1", "reason": "why"}),
    (ConnectionLost("h:1", "why"), "nsqd h:1: why", {"nsqd": "h:1", "reason": "why"}),
    (HeartbeatTimeout("h:1", "why"), "nsqd h:1: why", {"nsqd": "h:1", "reason": "why"}),
    (ProtocolError("x"), "x", {}),
    (
        FrameTooLarge(70, 64),
        "a frame of 70 bytes exceeds max_frame_size=64: raise it if such messages are expected",
        {"size": 70, "limit": 64},
    ),
    (
        FrameTooLarge(70, 64, "look at the port"),
        "a frame of 70 bytes exceeds max_frame_size=64: look at the port",
        {"size": 70, "limit": 64},
    ),
    (ServerError("E_X"), "E_X", {"code": "E_X", "detail": "", "fatal": True}),
    (
        ServerError("E_FIN_FAILED", "late", fatal=False),
        "E_FIN_FAILED late",
        {"code": "E_FIN_FAILED", "detail": "late", "fatal": False},
    ),
    (
        PermanentRefusal("E_INVALID", "no"),
        "E_INVALID no",
        {"code": "E_INVALID", "detail": "no", "fatal": True},
    ),
    (PublishError("x"), "x", {}),
    (PublishRejected("E_BAD_MESSAGE"), "E_BAD_MESSAGE", {"code": "E_BAD_MESSAGE", "detail": ""}),
    (PublishRejected("E_BAD_TOPIC", "bad"), "E_BAD_TOPIC bad", {"code": "E_BAD_TOPIC", "detail": "bad"}),
    (NotSent("x"), "x", {}),
    (
        DelayFileUnusable("a.db", "full", temporary=True),
        "the file of delayed messages 'a.db' cannot be used: full",
        {"path": "a.db", "reason": "full", "temporary": True},
    ),
    (OutcomeUnknown("x"), "x", {}),
    (
        FewerCopies(("n:1",), 2, "i", "late"),
        "stored by n:1, not by 2 nsqds (nsq-id i): late",
        {"stored_by": ("n:1",), "wanted": 2, "id": "i"},
    ),
    (HTTPError("http://h", "why"), "http://h: why", {"url": "http://h", "reason": "why"}),
    (HTTPUnavailable("http://h", "why"), "http://h: why", {"url": "http://h", "reason": "why"}),
    (
        HTTPStatusError("http://h", 404, "TOPIC_NOT_FOUND"),
        "http://h: 404 TOPIC_NOT_FOUND",
        {"url": "http://h", "status": 404, "code": "TOPIC_NOT_FOUND"},
    ),
    (HTTPStatusError("http://h", 500, ""), "http://h: 500", {"status": 500, "code": ""}),
    (HTTPInvalidReply("http://h", "why"), "http://h: why", {"url": "http://h", "reason": "why"}),
    (AlreadyResponded("x"), "x", {}),
    (
        DelayFileUnusable("f", "full", temporary=True),
        "the file of delayed messages 'f' cannot be used: full",
        {"path": "f", "reason": "full", "temporary": True},
    ),
    (Closed("x"), "x", {}),
    (NotEntered("x"), "x", {}),
    (WouldDeadlock("x"), "x", {}),
    (Requeue(), "requeue", {"delay": None, "backoff": True}),
    (Requeue(0, backoff=False), "requeue in 0 s", {"delay": 0, "backoff": False, "reason": ""}),
    (Requeue(reason="no disk"), "requeue: no disk", {"delay": None, "reason": "no disk"}),
    (Requeue(5, reason="no disk"), "requeue in 5 s: no disk", {"delay": 5, "reason": "no disk"}),
    (Discard(), "", {"reason": ""}),
    (Discard("no such user"), "no such user", {"reason": "no such user"}),
]

# The contract of the tree: what an `except` of each class catches besides itself.
PARENTS: dict[type[NSQError], tuple[type[BaseException], ...]] = {
    InvalidOption: (NSQError, ValueError),
    InvalidName: (InvalidOption,),
    InvalidAddress: (InvalidOption,),
    InvalidBody: (InvalidOption,),
    InvalidEnvelope: (NSQError, ValueError),
    ConnectionFailed: (NSQError,),
    DialFailed: (ConnectionFailed,),
    HandshakeFailed: (ConnectionFailed,),
    TLSFailed: (ConnectionFailed,),
    ConnectionLost: (ConnectionFailed,),
    HeartbeatTimeout: (ConnectionLost,),
    ProtocolError: (NSQError,),
    FrameTooLarge: (ProtocolError,),
    ServerError: (NSQError,),
    PermanentRefusal: (ServerError,),
    PublishError: (NSQError,),
    PublishRejected: (PublishError,),
    NotSent: (PublishError,),
    OutcomeUnknown: (PublishError,),
    FewerCopies: (PublishError,),
    HTTPError: (NSQError,),
    HTTPUnavailable: (HTTPError,),
    HTTPStatusError: (HTTPError,),
    HTTPInvalidReply: (HTTPError,),
    AlreadyResponded: (NSQError, RuntimeError),
    Closed: (NSQError, RuntimeError),
    NotEntered: (Closed, AttributeError),
    WouldDeadlock: (NSQError, RuntimeError),
    DelayFileUnusable: (NSQError,),
    Requeue: (NSQError,),
    Discard: (NSQError,),
}


def test_every_error_is_in_the_examples_and_in_the_tree() -> None:
    public = {getattr(errors, name) for name in errors.__all__}
    assert {type(error) for error, _, _ in EXAMPLES} == public
    assert PARENTS.keys() | {NSQError} == public


@pytest.mark.parametrize("kind", PARENTS, ids=lambda kind: kind.__name__)
def test_bases(kind: type[NSQError]) -> None:
    assert kind.__bases__ == PARENTS[kind]


def test_the_docstring_draws_the_tree() -> None:
    lines = re.findall(r"[├└]── (\w+(?:, \w+)*)(?:.*\[(\w+)\])?", inspect.getdoc(errors) or "")
    drawn = {name: part for names, part in lines for name in names.split(", ")}
    assert drawn == errors_of_the_package()
    assert sorted([*(name for name, part in drawn.items() if not part), "NSQError"]) == sorted(errors.__all__)


def errors_of_the_package() -> dict[str, str]:
    """The exceptions below `NSQError` in the source, each with the part that defines it, if not `errors`."""
    classes: dict[str, tuple[str, list[str]]] = {}
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name] = (
                    module.unit,
                    [base.id for base in node.bases if isinstance(base, ast.Name)],
                )
    found = {"NSQError": ""}
    while more := {
        name: "" if part == "errors" else part
        for name, (part, bases) in classes.items()
        if name not in found and found.keys() & set(bases)
    }:
        found |= more
    del found["NSQError"]
    return found


@pytest.mark.parametrize(("error", "text", "attributes"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_text_and_attributes(error: NSQError, text: str, attributes: dict[str, object]) -> None:
    assert str(error) == text
    assert {name: getattr(error, name) for name in attributes} == attributes


@pytest.mark.parametrize("error", [error for error, _, _ in EXAMPLES], ids=lambda error: type(error).__name__)
def test_copies_keep_type_text_and_attributes(error: NSQError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert twin is not error
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.args == error.args
        assert vars(twin) == vars(error)


def test_a_pickled_error_keeps_its_notes() -> None:
    error = ConnectionLost("h:1", "reset")
    error.add_note("while publishing")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while publishing"]
