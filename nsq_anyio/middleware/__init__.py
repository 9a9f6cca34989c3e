"""Middleware: the user's context managers around each handler call and each publish."""

from .around import Around, Subject
from .check import check_middleware
from .own_context import in_own_context

__all__ = ["Around", "Subject", "check_middleware", "in_own_context"]
