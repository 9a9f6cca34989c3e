"""The attributes that a stream takes over from the stream that it wraps."""

from collections.abc import Callable, Mapping
from typing import Any


def attributes_of(stream: Any) -> Mapping[Any, Callable[[], Any]]:
    """Return the ``extra_attributes`` of a stream with the types that AnyIO leaves open."""
    attributes: Mapping[Any, Callable[[], Any]] = stream.extra_attributes
    return attributes
