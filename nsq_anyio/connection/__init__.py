"""One connection to one nsqd: a task group with a reader, a writer and a heartbeat task."""

from .connection import Connection, open_connection
from .prepare import prepared
from .receiver import NoMessages, Receiver
from .request import Request

__all__ = ["Connection", "NoMessages", "Receiver", "Request", "open_connection", "prepared"]
