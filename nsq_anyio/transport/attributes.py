"""What a stream that wraps another one tells of it."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["attributes_of"]


def attributes_of(stream: Any) -> Mapping[Any, Callable[[], Any]]:
    """The ``extra_attributes`` of a stream of AnyIO, which leaves the types of its mapping open."""
    attributes: Mapping[Any, Callable[[], Any]] = stream.extra_attributes
    return attributes
