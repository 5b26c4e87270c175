"""Transactions over the stores of a group and its members: all of one happens, or nothing.

The group's transaction decides. It holds, beside its own changes, what each member is to change
(store/prepare_records.py); then the members' transactions follow. Where only one of the stores is
changed on the disk its transaction decides alone. A kill in between leaves prepare records, which a
member carries out when it is opened again; a member whose disk is full does so a little later.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import cast

from mayfly.engine.core import Core
from mayfly.engine.transaction import Transaction
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.prepare_records import (
    carry_out,
    forget_carried_out,
    forget_prepare_records,
    prepare,
)
from mayfly.store.units import Unit

_LOG = logging.getLogger("mayfly.sharing")


class TwoPhaseCommit:
    """Runs the transactions of one group, under the lock that all its members share."""

    def __init__(self, group: Core) -> None:
        self._group = group
        #: Intents that were carried out, durably, and whose: the group may forget them.
        self._carried_out: dict[int, Participant] = {}

    def run(self, core: Core, transactions: Sequence[Transaction]) -> None:
        """Run transactions one after the other, each whole or not at all; raises the first failure.

        Raises as ``Committer.run``; a failure of one leaves the others alone.
        """
        failure: MQError | None = None
        for place, transaction in enumerate(transactions):
            try:
                if transaction.parts:
                    _GroupTransaction(self._group, core, transaction).run(self)
                else:
                    core.committer.run(transaction)
            except MQError as error:
                failure = failure or error
            except BaseException:
                with core.engine_lock:
                    for rest in transactions[place + 1 :]:
                        core.committer.take_back(rest)
                raise
        self._group.committer.run_deferred()
        if failure is not None:
            raise failure

    def note_carried_out(self, number: int, member: Participant) -> None:
        """Note that a member has durably done what an intent says."""
        with self._group.engine_lock:
            self._carried_out[number] = member

    def forget(self, unit: Unit) -> dict[int, Participant]:
        """Let a unit of the group remove intents that were carried out; return which, whose."""
        with self._group.engine_lock:
            done, self._carried_out = self._carried_out, {}
        if done:
            unit.statements.append(forget_prepare_records(done))
        return done

    def forgot(self, done: dict[int, Participant], *, is_durable: bool) -> None:
        """Note whether these intents are gone; their members need not remember them then."""
        with self._group.engine_lock:
            if is_durable:
                for number, member in done.items():
                    member.remembered.append(number)
            else:
                self._carried_out.update(done)

    def done_counts(self) -> Counter[str]:
        """Return how many intents of members need only be forgotten."""
        assert self._group.engine_lock.is_held()
        return Counter(member.core.name for member in self._carried_out.values())

    def clean_up(self) -> None:
        unit = Unit()
        done = self.forget(unit)
        if done:
            try:
                self._group.store.group.commit(unit)
            finally:
                self.forgot(done, is_durable=unit.is_safe)


class Participant:
    """A member, or the group, as one of those whose stores change together."""

    def __init__(self, all_of_group: TwoPhaseCommit, core: Core) -> None:
        self._all, self.core = all_of_group, core
        #: Decided transactions that a full disk keeps from being carried out, with their intents.
        self.unfinished: list[tuple[Transaction, int]] = []
        #: Intents it need not remember any longer to have carried out.
        self.remembered: list[int] = []

    def run(self, transactions: Sequence[Transaction]) -> None:
        """Run transactions of its queue manager; see :meth:`TwoPhaseCommit.run`."""
        self._all.run(self.core, transactions)

    def take_back(self, queue_owner: object, part: Transaction) -> None:
        """Undo the part of a transaction that was to change another store."""
        assert isinstance(queue_owner, Core)
        queue_owner.committer.take_back(part)

    def follow(self, part: Transaction, number: int) -> None:
        """Do its part of what the group has decided; with a full disk it is tried again later.

        A member whose store fails stops, and carries the intent out when it is opened again.
        """
        core, unit = self.core, part.unit
        statements = list(unit.statements)
        with core.engine_lock:
            remembered, self.remembered = self.remembered, []
        unit.statements.append(carry_out(number))
        if remembered:
            unit.statements.append(forget_carried_out(remembered))
        try:
            core.store.commit([unit])
        except MQError as error:
            _LOG.error("%s is to carry out intent %d later: %s", core.name, number, error)
        finally:
            if unit.is_safe:
                self._all.note_carried_out(number, self)
                _settle(core, part)
            else:
                unit.statements = statements
                with core.engine_lock:
                    self.remembered += remembered
                    self.unfinished.append((part, number))
                core.committer.leave([part])

    def finish(self) -> None:
        """Carry out what waits for room on the disk; raises MQRC_STORAGE_MEDIUM_FULL again."""
        if not self.unfinished:
            return
        core = self.core
        with core.engine_lock:
            unfinished, self.unfinished = self.unfinished, []
        for part, number in unfinished:
            with core.engine_lock:
                core.committer.enter([part])
            part.unit.error = None
            self.follow(part, number)
        if self.unfinished and not core.is_stopped:
            raise mq_error(rc.MQRC_STORAGE_MEDIUM_FULL, f"{len(self.unfinished)} units are waiting")


class _GroupTransaction:
    """One transaction on its way: its parts by whose store they change, the group first."""

    def __init__(self, group: Core, core: Core, transaction: Transaction) -> None:
        """Take a transaction of ``core`` apart; the group takes part in all transactions."""
        self._group = group
        others = cast("dict[Core, Transaction]", transaction.parts)
        ordered = sorted({**others, core: transaction}.items(), key=lambda part: part[0].name)
        self._parts: dict[Core, Transaction] = {group: Transaction(), **dict(ordered)}
        transaction.parts = {}
        #: The intent of each member, when there are any.
        self._numbers: dict[Core, int] = {}

    def run(self, all_of_group: TwoPhaseCommit) -> None:
        """Make all parts effective and return when they are durable."""
        self._enter()
        durable = [engine for engine, part in self._parts.items() if part.unit.is_durable()]
        decider = durable[0] if len(durable) == 1 else self._group
        unit = self._parts[decider].unit
        try:
            if len(durable) > 1:
                self._decide(all_of_group, durable, unit)
            elif durable:
                decider.store.commit([unit])
        except BaseException:
            # Interrupted it may be done all the same.
            if unit.is_safe:
                self._follow()
            else:
                self._fail(is_in_doubt=decider.store.group.is_broken)
            raise
        self._follow()

    def _enter(self) -> None:
        entered: list[Core] = []
        with self._group.engine_lock:
            try:
                for engine, part in self._parts.items():
                    engine.committer.enter([part])
                    entered.append(engine)
            except MQError:
                for engine, part in self._parts.items():
                    engine.committer.take_back(part)
                for engine in entered:
                    engine.committer.leave([self._parts[engine]])
                raise

    def _decide(self, all_of_group: TwoPhaseCommit, durable: list[Core], unit: Unit) -> None:
        """Commit the group's part with the intents of all others that are durable."""
        group = self._group
        with group.engine_lock:
            self._numbers = {s: group.store.sequence.next() for s in durable if s is not group}
        for engine, number in self._numbers.items():
            # The totals that these changes build on are on the disk before them.
            engine.store.flush()
            unit.statements.append(prepare(number, engine.name, self._parts[engine].unit))
        done = all_of_group.forget(unit)
        try:
            group.store.commit([unit])
        finally:
            all_of_group.forgot(done, is_durable=unit.is_safe)

    def _follow(self) -> None:
        interruption: KeyboardInterrupt | None = None
        for engine, part in self._parts.items():
            try:
                if engine in self._numbers:
                    _participant(engine).follow(part, self._numbers[engine])
                else:
                    _settle(engine, part)
            except KeyboardInterrupt as error:
                # The others' parts are decided like this one.
                interruption = error
        if interruption is not None:
            raise interruption

    def _fail(self, *, is_in_doubt: bool) -> None:
        """Undo it; in doubt nobody knows what was decided until the store is opened again."""
        with self._group.engine_lock:
            for engine, part in self._parts.items():
                if not (is_in_doubt and part.unit.is_durable()):
                    engine.committer.take_back(part)
        for engine, part in self._parts.items():
            engine.committer.leave([part])


def _settle(engine: Core, part: Transaction) -> None:
    """Let a transaction that is durable take effect, and run what that leads to."""
    follow_ups = engine.committer.settle([part])
    if follow_ups:
        engine.committer.run_follow_ups(follow_ups)


def _participant(core: Core) -> Participant:
    multi_store = core.committer.multi_store
    assert isinstance(multi_store, Participant)
    return multi_store
