"""The heartbeats of one client of the embedded nsqd."""

from __future__ import annotations

from collections.abc import Callable

from .scheduler import CallbackTimer, Scheduler


class Heartbeats:
    """Sends heartbeats to a client, and disconnects it when it is silent for two intervals.

    :param send: sends one heartbeat
    :param disconnect: cuts the connection at once
    :ivar last_command: the time of the client's last command; the owner sets it
    """

    def __init__(
        self, scheduler: Scheduler, *, send: Callable[[], None], disconnect: Callable[[], None]
    ) -> None:
        self.last_command: float = 0.0
        self._scheduler = scheduler
        self._send = send
        self._disconnect = disconnect
        self._interval = 0.0
        self._send_timer = CallbackTimer(self._send_due)
        self._read_deadline = CallbackTimer(self._check_read_deadline)

    def start(self, interval: float, now: float) -> None:
        """Use this interval from now on; with 0, send nothing and allow the client to be silent."""
        self.last_command = now
        self._interval = interval
        if interval:
            self._scheduler.set_timer(self._send_timer, now + interval)
            self._scheduler.set_timer(self._read_deadline, now + 2 * interval)
        else:
            self.stop()

    def stop(self) -> None:
        """Send no more heartbeats, and allow the client to be silent."""
        self._scheduler.cancel_timer(self._send_timer)
        self._scheduler.cancel_timer(self._read_deadline)

    def allow_silence(self) -> None:
        """Do not disconnect the client before `expect_commands`: nothing is read from it until then."""
        self._scheduler.cancel_timer(self._read_deadline)

    def expect_commands(self, now: float) -> None:
        """Measure the client's silence from now on."""
        self.last_command = now
        if self._interval:
            self._check_read_deadline(now)

    def _send_due(self, now: float) -> None:
        self._send()
        self._scheduler.set_timer(self._send_timer, now + self._interval)

    def _check_read_deadline(self, now: float) -> None:
        # The timer is moved here, because moving it at each command would cost too much.
        deadline = self.last_command + 2 * self._interval
        if now >= deadline:
            self._disconnect()
        else:
            self._scheduler.set_timer(self._read_deadline, deadline)
