"""Messages that were backed out too often: they go to BOQNAME, else to the dead-letter queue."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from mayfly.client.connection import Connection
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp.calls import Call
from mayfly.verbs.messages import Delivery

_LOG = logging.getLogger("mayfly.amqp")
_FIRST_PAUSE_MS: Final = SECOND_MS
_LONGEST_PAUSE_MS: Final = 60 * SECOND_MS
#: Failures are told together, once in this time.
_TELL_MS: Final = 60 * SECOND_MS
#: Those noted longest ago are forgotten, and tried again at once.
_MOST_MESSAGES: Final = 10_000


class _Pause(NamedTuple):
    """A message is left alone until a moment; the pause before it had so many ms."""

    until_ms: int
    length_ms: int


class Postponed:
    """Messages that no queue takes, of one link: each is left alone for a pause that grows.

    Moments are those of the queue manager's clock.
    """

    def __init__(
        self, source: str, soon: Callable[[Call], object], now_ms: Callable[[], int]
    ) -> None:
        """Begin with none; ``source`` is the name of their queue, ``soon`` makes a call later."""
        self._source, self._soon, self._now_ms = source, soon, now_ms
        self._pauses: dict[bytes, _Pause] = {}
        self._try_count = 0
        self._told_ms: int | None = None
        self._is_telling = False

    def has(self, msg_id: bytes) -> bool:
        """Return True if a message is to be left alone now."""
        pause = self._pauses.get(msg_id) if self._pauses else None
        return pause is not None and pause.until_ms > self._now_ms()

    def note(self, msg_id: bytes, why: MQError) -> None:
        """Begin the next pause of a message; the log tells of all, once in a minute."""
        pause, now_ms = self._pauses.pop(msg_id, None), self._now_ms()
        length_ms = _FIRST_PAUSE_MS if pause is None else pause.length_ms * 2
        length_ms = min(length_ms, _LONGEST_PAUSE_MS)
        if len(self._pauses) >= _MOST_MESSAGES:
            del self._pauses[next(iter(self._pauses))]
        self._pauses[msg_id] = _Pause(now_ms + length_ms, length_ms)
        self._try_count += 1
        is_told = self._told_ms is not None and now_ms - self._told_ms < _TELL_MS
        if not is_told and not self._is_telling:
            self._is_telling = True
            # The others of this turn are counted first.
            self._soon(lambda: self._tell(why))

    def forget(self, msg_id: bytes) -> None:
        """Forget a message that a queue has taken."""
        self._pauses.pop(msg_id, None)

    def _tell(self, why: MQError) -> None:
        self._is_telling, self._told_ms = False, self._now_ms()
        _LOG.warning(
            "%d messages of %s go nowhere, %d tries since this was told: %s; each is tried again, "
            "after pauses of up to %d s",
            len(self._pauses),
            self._source,
            self._try_count,
            why,
            _LONGEST_PAUSE_MS // SECOND_MS,
        )
        self._try_count = 0


def is_poisonous(connection: Connection, held: Delivery) -> bool:
    """Return True if a message was backed out BOTHRESH times; BOTHRESH(0) sets no limit."""
    backout_count = held.result.message.backout_count
    if not backout_count:
        # Its queue need not be asked.
        return False
    return 0 < connection.objects.backout_rule(held.handle).threshold <= backout_count
