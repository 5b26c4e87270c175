"""Simulates a listener with one setting over arrivals: how its transactions end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mayfly.lifetime.columns import Ints
from mayfly.pipeline.advise import kernel
from mayfly.pipeline.advise.arrivals import HOUR_MS, QueueArrivals
from mayfly.pipeline.advise.kernel import ArrivingMessages, ListenKernel, Rules, Sessions
from mayfly.pipeline.advise.settings import ListenSettings
from mayfly.pipeline.replay.kernel import NEVER_MS

#: A BOTHRESH above this is taken for none.
_ATTEMPTS_MAX = 100


class Simulated(NamedTuple):
    """The numbers of transactions from the first arrival until all work was done.

    ``taken`` counts transactions with a message; each ends ``committed`` or rolled back. A rollback
    is ``needless`` if the message came so late in the receive that on_message did not fit into the
    rest of the lifetime. It is ``overlong`` if on_message takes the whole lifetime: no receive
    timeout helps. ``messages_hit`` were rolled back needlessly at least once. ``requeued`` messages
    have reached BOTHRESH, ``expired`` ones were found too late, ``left`` ones were still rolled
    back at the end.
    """

    messages: int
    taken: int
    committed: int
    needless: int
    overlong: int
    messages_hit: int
    redeliveries: int
    backouts_max: int
    requeued: int
    expired: int
    left: int
    idle_rollbacks: int
    idle_rollbacks_per_hour: float

    @property
    def needless_share(self) -> float:
        """The share, 0 to 1, of transactions with a message that were rolled back needlessly."""
        return self.needless / self.taken if self.taken else 0.0


def simulate(
    arrivals: QueueArrivals,
    setting: ListenSettings,
    on_message_ms: Ints,
    *,
    with_kernel: ListenKernel | None = None,
) -> Simulated:
    """Simulate a listener with a setting over arrivals, and return the numbers of transactions.

    ``on_message_ms`` is the duration for each message. ``with_kernel`` is the simulation loop, None
    the faster one. All sessions begin their first receive at the first arrival. A message that is
    there at the exact end of a receive is taken; a transaction that ends exactly at its lifetime is
    rolled back. A message without BOTHRESH that is still rolled back long after the last arrival is
    given up, because it would come back for ever. Raises AdviseError if the setting has no receive
    timeout.
    """
    count = len(arrivals.available_ms)
    chosen = with_kernel or kernel.kernel_for(count, setting.max_sessions)
    messages = _messages(arrivals, on_message_ms, chosen)
    sessions = _sessions(int(arrivals.available_ms[0]), setting.max_sessions, chosen)
    rules = Rules(
        setting.timeout_ms,
        setting.lifetime_ms,
        setting.bothresh,
        give_up_ms(int(arrivals.available_ms[-1]), int(on_message_ms.max()), setting),
    )
    counts = chosen.column(np.zeros(kernel.COUNTS, dtype=np.int64))
    chosen.listen(messages, sessions, rules, counts)
    return _result(arrivals, setting, messages, sessions, counts)


def give_up_ms(last_ms: int, longest_ms: int, setting: ListenSettings) -> int:
    """Return the moment after which a rolled-back message is not tried again.

    NEVER_MS if BOTHRESH ends the attempts. ``last_ms`` is the last arrival and ``longest_ms`` the
    longest on_message.
    """
    if 0 < setting.bothresh <= _ATTEMPTS_MAX:
        return NEVER_MS
    attempts = min(setting.bothresh, _ATTEMPTS_MAX) + 1
    return last_ms + attempts * (setting.lifetime_ms + setting.timeout_ms + longest_ms)


def _messages(
    arrivals: QueueArrivals, on_message_ms: Ints, chosen: ListenKernel
) -> ArrivingMessages:
    """Return the arrivals as columns for the simulation loop; none waits or was rolled back.

    ``on_message_ms`` is the duration for each message. ``chosen`` is the loop, which decides the
    type of the columns.
    """
    column = chosen.column
    nothing = np.zeros(len(on_message_ms), dtype=np.int64)
    return ArrivingMessages(
        column(arrivals.available_ms),
        column(arrivals.expire_at_ms),
        column(on_message_ms),
        column(arrivals.rank),
        column(np.argsort(arrivals.rank)),
        column(nothing.copy()),
        column(nothing.copy()),
        column(nothing.copy()),
    )


def _sessions(begin_ms: int, count: int, chosen: ListenKernel) -> Sessions:
    """Return ``count`` sessions as columns for the simulation loop, waiting since ``begin_ms``.

    ``chosen`` is the loop, which decides the type of the columns.
    """
    column = chosen.column
    return Sessions(*(column(np.full(count, value)) for value in (begin_ms, -1, NEVER_MS)))


def _result(
    arrivals: QueueArrivals,
    setting: ListenSettings,
    messages: ArrivingMessages,
    sessions: Sessions,
    counts: Ints,
) -> Simulated:
    """Return the numbers of a simulation from its columns after the end."""
    last_ms = int(counts[kernel.LAST_MS])
    idle = int(counts[kernel.IDLE])
    for begin_ms in sessions.begin_ms:
        idle += kernel.empty_receives(last_ms - int(begin_ms), setting.timeout_ms)
    hours = (last_ms - int(arrivals.available_ms[0])) / HOUR_MS
    backouts = np.asarray(messages.backouts)
    taken = int(counts[kernel.TAKEN])
    return Simulated(
        messages=len(backouts),
        taken=taken,
        committed=int(counts[kernel.COMMITTED]),
        needless=int(counts[kernel.NEEDLESS]),
        overlong=int(counts[kernel.OVERLONG]),
        messages_hit=int(np.count_nonzero(messages.needless)),
        redeliveries=int(counts[kernel.AGAIN]),
        backouts_max=int(backouts.max()),
        requeued=int(counts[kernel.REQUEUED]),
        expired=int(counts[kernel.EXPIRED]),
        left=int(counts[kernel.LEFT]),
        idle_rollbacks=idle,
        idle_rollbacks_per_hour=idle / hours if hours else 0.0,
    )
