"""Messages that a channel has taken off its transmission queue and not yet got rid of.

They are hidden like those that a unit of work has got. What a batch in doubt holds stays hidden
across a restart, until the channel has asked its partner; neither a get nor their own expiry
touches them meanwhile (E15).
"""

from __future__ import annotations

from collections.abc import Iterable

from mayfly.engine.core import Core
from mayfly.engine.delivery import life_of
from mayfly.engine.disposal import discard_expired, remove
from mayfly.engine.finding.search import ANY, in_order
from mayfly.engine.queues import PERSISTENT, Found, LocalQueue
from mayfly.engine.work import Work
from mayfly.lifetime.life import Event, State, next_state
from mayfly.lifetime.window import is_expired
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.channels import CHANNELS, ChannelRow, forget_channel, save_channel
from mayfly.store.claims import Statement
from mayfly.store.keys import queue_number_of

_TRANSMITTED = next_state(State.AVAILABLE, Event.TRANSMIT)


class Shipment:
    """The messages of one batch, hidden until its end."""

    def __init__(self, core: Core, queue: LocalQueue) -> None:
        """Begin with none."""
        self._core = core
        self.queue = queue
        self.rows: list[Found] = []

    def keys(self) -> list[int]:
        """Return the keys of the persistent messages, which a restart would find again."""
        return [row.k for _queue, row, side in self.rows if side]

    def take(self, limit: int) -> list[Found]:
        """Take the next live messages, up to ``limit``, and return them in get order.

        Expired ones met on the way are discarded (E6). Call it with the latch held, and
        ``core.run_deferred()`` behind it.
        """
        core, queue, now_ms = self._core, self.queue, self._core.now_ms()
        found: list[Found] = []
        expired: list[Found] = []
        for row, side in in_order(core, queue, ANY, queue.low):
            if len(found) == limit:
                break
            is_dead = is_expired(row.expire_at_ms, now_ms)
            (expired if is_dead else found).append((queue, row, side))
        if expired and (found or core.settings.discard_on_empty):
            self._pass(expired)
            core.deferred.append(discard_expired(core, expired, now_ms))
        self._pass(found)
        self._hold(found)
        return found

    def let_volatile_go(self) -> None:
        """End the lives of the non-persistent messages now: they travel outside the batch."""
        core = self._core
        with core.latch:
            going = [taken for taken in self.rows if not taken[2]]
            self.rows = [taken for taken in self.rows if taken[2]]
            for taken in going:
                self._release(taken)
            work = self._transmitted(going, core.now_ms())
        if going:
            core.run(work)

    def hold(self, keys: Iterable[int]) -> None:
        """Take the messages of these keys that are still there; call it with the latch held."""
        rows = (self._core.messages(PERSISTENT).row(key) for key in keys)
        self._hold((self.queue, row, PERSISTENT) for row in rows if row is not None)

    def leave(self, work: Work, key: int, outcome: State, reason: int) -> None:
        """Let a message go otherwise than to the partner; call it with the latch held."""
        found = next(taken for taken in self.rows if taken[1].k == key)
        core, (queue, row, _side) = self._core, found
        self.rows.remove(found)
        self._release(found)
        descriptor = unpack_descriptor(row.descriptor)
        life = life_of(queue, row, descriptor, core.now_ms(), outcome, reason=reason)
        remove(core, work, found, life)

    def end(self, *statements: Statement) -> None:
        """Their lives end here, as transmitted, durably together with some statements.

        When that fails they stay hidden, for the partner has them. Raises MQRC_STORAGE_MEDIUM_FULL,
        MQRC_CONNECTION_BROKEN.
        """
        core, rows = self._core, self.rows
        with core.latch:
            self._let_go()
            work = self._transmitted(rows, core.now_ms())
            work.unit.statements.extend(statements)
        try:
            core.run(work)
        except BaseException:
            with core.latch:
                if not core.is_stopped:
                    self._hold(rows)
            raise

    def give_back(self, *statements: Statement) -> None:
        """Put them back in their places, backout counts raised, durably with some statements.

        On a full disk the statements and the counts stay as they were.
        """
        core = self._core
        work = Work()
        work.unit.statements.extend(statements)
        for _queue, row, side in self.rows:
            unit = work.unit
            (unit.backouts if side else unit.volatile_backouts).append((row.k,))
        try:
            if self.rows or statements:
                core.run(work)
        finally:
            with core.latch:
                rows = self.rows
                self._let_go()
                for queue, row, side in rows:
                    core.reveal(queue, row.k, side)
                    core.triggering.note(queue, [row.k])
                core.triggering.look_at_arrivals()
                core.waits.offer(self.queue.number)
            core.run_deferred()

    def _hold(self, found: Iterable[Found]) -> None:
        for taken in found:
            self._core.hidden[taken[1].k] = self
            self.queue.depth -= 1
            self.queue.locked += 1
            self.rows.append(taken)

    def _let_go(self) -> None:
        """Leave it to the caller what becomes of them."""
        for taken in self.rows:
            self._release(taken)
        self.rows = []

    def _release(self, taken: Found) -> None:
        del self._core.hidden[taken[1].k]
        self.queue.depth += 1
        self.queue.locked -= 1

    def _transmitted(self, found: Iterable[Found], now_ms: int) -> Work:
        work = Work()
        for taken in found:
            queue, row, _side = taken
            descriptor = unpack_descriptor(row.descriptor)
            life = life_of(queue, row, descriptor, now_ms, _TRANSMITTED)
            remove(self._core, work, taken, life)
        return work

    def _pass(self, found: Iterable[Found]) -> None:
        # Everything up to such a row was looked at, and is hidden or is one of these.
        for queue, row, side in found:
            if row.k >= queue.first[side]:
                queue.first[side] = row.k + 1


class Shipments:
    """How far the channels of a queue manager have come, and what they hold in doubt."""

    def __init__(self, core: Core) -> None:
        """Begin without channels; :meth:`load` brings those of the store."""
        self._core = core
        self._states: dict[tuple[str, int, str], ChannelRow] = {}
        self._in_doubt: dict[str, Shipment] = {}

    def load(self) -> None:
        """Take up what the store holds, and hide what is in doubt."""
        for values in self._core.store.persistent.fetch(CHANNELS, ()):
            row = ChannelRow._make(values)
            self._states[row[:3]] = row
            keys = row.keys
            queue = self._core.registry.by_number(queue_number_of(keys[0])) if keys else None
            if queue is not None:
                shipment = self._in_doubt[row.name] = Shipment(self._core, queue)
                shipment.hold(keys)

    def state(self, name: str, partner: str | None = None) -> ChannelRow:
        """Return the state of a sender, or of a receiver with its ``partner``; new: all zeros."""
        row = ChannelRow(name, int(partner is None), partner or "")
        return self._states.get(row[:3], row)

    def states(self) -> list[ChannelRow]:
        """Return all states, by name."""
        return [self._states[key] for key in sorted(self._states)]

    def note(self, row: ChannelRow) -> None:
        """Remember a state that is durable."""
        self._states[row[:3]] = row

    def save(self, row: ChannelRow) -> None:
        """Make a state durable."""
        work = Work()
        work.unit.statements.append(save_channel(row))
        self._core.run(work)
        self.note(row)

    def forget(self, name: str) -> None:
        """Forget a channel that is deleted."""
        work = Work()
        work.unit.statements.append(forget_channel(name))
        self._core.run(work)
        for key in [key for key in self._states if key[0] == name]:
            del self._states[key]

    def claimed(self, name: str, queue: LocalQueue) -> Shipment:
        """Return what a sender holds in doubt since the last start, or a new, empty shipment."""
        return self._in_doubt.pop(name, None) or Shipment(self._core, queue)

    def keep(self, name: str, shipment: Shipment) -> None:
        """Keep what a sender that ends holds in doubt for the one that claims it next."""
        self._in_doubt[name] = shipment
