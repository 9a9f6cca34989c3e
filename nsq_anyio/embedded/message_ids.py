"""Message ids: 16 hexadecimal digits that grow with time and never repeat."""

from __future__ import annotations

# The layout of nsqd: 42 bits of time in units of 2**20 ns, 10 bits of node, 12 bits of sequence.
_SEQUENCE_BITS = 12
_NODE_BITS = 10
_TIME_SHIFT = _NODE_BITS + _SEQUENCE_BITS
_MAX_SEQUENCE = (1 << _SEQUENCE_BITS) - 1
_EPOCH = 1288834974288


class MessageIds:
    """Generates the message ids of one nsqd.

    :param node: keeps the ids of several nsqds distinct; only its lowest 10 bits count
    """

    __slots__ = ("_node", "_sequence", "_time")

    def __init__(self, node: int) -> None:
        self._node = (node % (1 << _NODE_BITS)) << _SEQUENCE_BITS
        self._time = 0
        self._sequence = 0

    def next(self, timestamp: int) -> bytes:
        """Return an id for a message published at ``timestamp``, in Unix nanoseconds."""
        moment = (timestamp >> 20) - _EPOCH
        if moment > self._time:
            self._time = moment
            self._sequence = 0
        elif self._sequence < _MAX_SEQUENCE:
            self._sequence += 1
        else:
            # nsqd would wait for the next unit of time. Ids that run ahead of the clock are unique as well.
            self._time += 1
            self._sequence = 0
        return b"%016x" % (self._time << _TIME_SHIFT | self._node | self._sequence)
