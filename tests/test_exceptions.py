"""The exception that matters, inside groups and along causes."""

import pytest

from nsq_anyio.exceptions import first_error, first_text, leaves, only_error, ungrouped

ONE, TWO = ValueError("one"), KeyError("two")
NESTED = ExceptionGroup("outer", [ExceptionGroup("inner", [ONE]), TWO])


def test_leaves_are_in_order() -> None:
    assert list(leaves(NESTED)) == [ONE, TWO]
    assert list(leaves(ONE)) == [ONE]
    assert first_error(NESTED) is ONE


def test_the_only_error_is_found_however_deep() -> None:
    assert only_error(ONE) is ONE
    assert only_error(ExceptionGroup("", [ExceptionGroup("", [ONE])])) is ONE
    assert only_error(NESTED) is NESTED
    both = ExceptionGroup("both", [ONE, TWO])
    assert only_error(ExceptionGroup("around", [both])) is both


def test_ctrl_c_that_ended_several_tasks_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), ungrouped():
        raise BaseExceptionGroup("", [KeyboardInterrupt(), KeyboardInterrupt()])


def test_a_group_of_several_leaves_as_it_is() -> None:
    with pytest.raises(ExceptionGroup) as raised, ungrouped():
        raise NESTED
    assert raised.value is NESTED


def test_the_first_text_is_that_of_the_nearest_cause_with_one() -> None:
    silent = ValueError()
    silent.__cause__ = OSError()
    silent.__cause__.__context__ = OSError("refused")
    assert first_text(silent) == "refused"
    assert first_text(ONE) == "one"
    assert first_text(ValueError()) == "ValueError"
