"""The nsqd of the tests that start Java."""

from __future__ import annotations

import pytest

from ..nsqds import Nsqd


@pytest.fixture
def nsqd(real_nsqd: Nsqd) -> Nsqd:
    """The real nsqd alone: only the data source talks to it, whose own tests run against both kinds."""
    return real_nsqd
