"""The first page: how the cluster is."""

from __future__ import annotations

from ...monitoring.history import MEASURES, measured
from .visit import Values, Visit

__all__ = ["overview"]


async def overview(visit: Visit) -> Values:
    """Return the totals of the cluster."""
    *_, (_, values) = measured(visit.view)  # the cluster comes last
    return {"totals": dict(zip(MEASURES, values, strict=True))}
