"""Settlements whose end nobody waits for: they go to the disk with the next message that is put."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from mayfly.servers.amqp.calls import Call

#: So long they wait for a sync that others need anyhow.
_WAIT_SECONDS: Final = 0.01
_LOG = logging.getLogger("mayfly.amqp")


class Unhurried:
    """Settlements of all connections of a server that may come a little later; in its loop alone.

    A client that settles a message itself asks for no answer. Its settlement would take the disk
    for itself while the message of another client waits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with nothing."""
        self._loop = loop
        self._calls: list[Call] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Call) -> None:
        """Make a call with the next sync, or when a short time is over."""
        self._calls.append(call)
        if self._timer is None:
            self._timer = self._loop.call_later(_WAIT_SECONDS, self.make)

    def make(self) -> None:
        """Make all calls now: a sync follows that they can share."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls, self._calls = self._calls, []
        for call in calls:
            try:
                call()
            except Exception:  # noqa: BLE001 - one client's settlement is not the others'
                _LOG.exception("a settlement cannot be made")
