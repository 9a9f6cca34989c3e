"""What is installed."""

from __future__ import annotations

from importlib.resources import files

import faststream_nsq


def test_the_types_are_known() -> None:
    assert (files(faststream_nsq) / "py.typed").is_file()


def test_all_names_are_there() -> None:
    assert all(hasattr(faststream_nsq, name) for name in faststream_nsq.__all__)
