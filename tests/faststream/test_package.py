"""What is installed."""

from __future__ import annotations

from importlib.metadata import requires
from importlib.resources import files

import faststream_nsq


def test_the_types_are_known() -> None:
    assert (files(faststream_nsq) / "py.typed").is_file()


def test_all_names_are_there() -> None:
    assert all(hasattr(faststream_nsq, name) for name in faststream_nsq.__all__)


def test_it_works_with_one_minor_release_of_faststream() -> None:
    (requirement,) = [each for each in requires("faststream-nsq") or [] if each.startswith("faststream<")]
    assert requirement == "faststream<0.8,>=0.7.6"
