"""The membership of a queue manager in a queue-sharing group."""

from __future__ import annotations

from mayfly.engine.arrivals import when_woken
from mayfly.engine.engine import Engine
from mayfly.engine.membership import Membership
from mayfly.engine.sharing.group_transactions import Participant
from mayfly.engine.sharing.shared_queues import SharedQueues
from mayfly.engine.sharing.waits import FIRST_SHARED, MemberWaits
from mayfly.lifetime.times import Clock
from mayfly.runtime import EngineLock, Runtime
from mayfly.store.intents import carry_out, forget_carried_out
from mayfly.store.units import Unit


class GroupMembership(Membership[Engine]):
    """The membership of a queue manager: it has the queues of the group, too.

    Its staging queue stays its own: a delayed message for a shared queue needs the queue manager
    through which it was put (D29).
    """

    def __init__(self, shared: SharedQueues) -> None:
        """Begin with nobody; the engine of the queue manager joins while it opens."""
        self._shared = shared

    @property
    def clock(self) -> Clock:
        """The clock of the group, by which all its members live."""
        return self._shared.engine.clock

    @property
    def has_unfinished(self) -> bool:
        """Whether decided transactions wait until the disk has room."""
        return bool(self._participant.unfinished)

    def lock(self, runtime: Runtime) -> EngineLock:
        """Return the lock that the group and all its members share."""
        return self._shared.engine.engine_lock

    def join(self, engine: Engine) -> None:
        """Give an engine the group's time, directory and waits, before it loads anything.

        Raises StoreError for the folder of another group.
        """
        shared, group = self._shared, self._shared.engine
        shared.take_store(engine)
        shared.agree_on_time(engine)
        self._engine, self._participant = engine, Participant(shared.transactions, engine)
        engine.group, engine.committer.across = group, self._participant
        engine.registry.directory = shared.directory
        engine.registry.numbers = range(1, FIRST_SHARED)
        engine.waits = MemberWaits(group.waits)
        # Any member ends sessions that were dropped: they may hold the message that it looks for.
        engine.left_behind.share(group.left_behind)

    def recover(self) -> None:
        """Do what was decided while it was closed, before anybody looks at a message.

        Raises StoreError for the folder of a member that was removed from the group.
        """
        engine, shared = self._engine, self._shared
        intents, done = shared.intents_of(engine.name), shared.carried_out_by(engine)
        # Asked later, so that a removal cannot come between.
        shared.check_belongs(engine)
        for number, unit in intents:
            # A store in memory is another one now, which these do not concern.
            if number not in done and engine.store.folder is not None:
                unit.statements.append(carry_out(number))
                engine.store.group.commit(unit)
        if intents or done:
            shared.forget([number for number, _unit in intents])
            unit = Unit()
            unit.statements.append(forget_carried_out({*done, *(n for n, _unit in intents)}))
            engine.store.group.commit(unit)

    def admit(self) -> None:
        """Let names of the group lead to the engine, which is open now."""
        # A wait on a shared queue ends with the group.
        when_woken(self._engine, self._shared.engine.wake)
        with self._engine.engine_lock:
            self._shared.directory.admit(self._engine)

    def finish(self) -> None:
        """Do what was decided and a full disk has kept from being done."""
        self._participant.finish()

    def end_waits(self) -> None:
        """Let the group end the waits that have waited for this round of due work."""
        self._shared.engine.wake()

    def end(self) -> None:
        """Leave the directory; delayed messages wait until the queue manager is opened again."""
        self._shared.dismiss(self._engine)
