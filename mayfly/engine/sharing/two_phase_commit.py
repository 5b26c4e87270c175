"""Two-phase commit over the stores of a queue-sharing group and its members.

The group's transaction decides. With its changes it stores a prepare record for each member, which
holds the changes for that member (store/prepare_records.py). Then the members' transactions follow.
When only one store changes on disk, its transaction decides alone. After a crash in between, a
member applies its prepare records when it is opened. A member whose disk is full does so a little
later.
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
        """Prepare for the transactions of a group, whose engine is ``group``."""
        self._group = group
        #: Prepare records that are durably done, and whose: the group may delete them.
        self._carried_out: dict[int, Participant] = {}

    def run(self, core: Core, transactions: Sequence[Transaction]) -> None:
        """Run transactions of ``core`` one after the other, each completely or not at all.

        A failure does not stop the later transactions; the first failure is raised at the end, as
        an MQError. After an interruption (KeyboardInterrupt) the rest is undone.
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
        """Record that a member has applied prepare record ``number``, so it can be deleted.

        A prepare record, in the group's store, is a member's part of a committed transaction.
        """
        with self._group.engine_lock:
            self._carried_out[number] = member

    def forget(self, unit: Unit) -> dict[int, Participant]:
        """Add the deletion of applied prepare records to a unit; return those records.

        The result maps record number to member, and is empty without any. The caller passes it to
        :meth:`forgot` after the commit. A prepare record, in the group's store, is a member's part
        of a committed transaction.
        """
        with self._group.engine_lock:
            done, self._carried_out = self._carried_out, {}
        if done:
            unit.statements.append(forget_prepare_records(done))
        return done

    def forgot(self, done: dict[int, Participant], *, is_durable: bool) -> None:
        """Note the outcome of deleting the prepare records ``done``.

        If ``is_durable``, their members may forget the numbers; otherwise the deletion is tried
        again later. A prepare record, in the group's store, is a member's part of a committed
        transaction.
        """
        with self._group.engine_lock:
            if is_durable:
                for number, member in done.items():
                    member.remembered.append(number)
            else:
                self._carried_out.update(done)

    def done_counts(self) -> Counter[str]:
        """Return by member name how many prepare records are applied and not yet deleted.

        The caller holds the lock. A prepare record, in the group's store, is a member's part of a
        committed transaction.
        """
        assert self._group.engine_lock.is_held()
        return Counter(member.core.name for member in self._carried_out.values())

    def clean_up(self) -> None:
        """Delete the applied prepare records from the group's store, if any, and commit that.

        A prepare record, in the group's store, is a member's part of a committed transaction.
        Raises the error of the store, such as MQRC_STORAGE_MEDIUM_FULL.
        """
        unit = Unit()
        done = self.forget(unit)
        if done:
            try:
                self._group.store.group.commit(unit)
            finally:
                self.forgot(done, is_durable=unit.is_safe)


class Participant:
    """A member, or the group, whose store takes part in two-phase commits."""

    def __init__(self, commits: TwoPhaseCommit, core: Core) -> None:
        """Make the store of the engine ``core`` take part in the transactions of a group.

        ``commits`` is the two-phase commit of that group.
        """
        self._commits, self.core = commits, core
        #: Decided transactions that wait for disk space, with the numbers of their prepare records.
        self.unfinished: list[tuple[Transaction, int]] = []
        #: Prepare records deleted by the group, which it need not remember any longer.
        self.remembered: list[int] = []

    def run(self, transactions: Sequence[Transaction]) -> None:
        """Run transactions of its queue manager, each completely or not at all.

        Raises the first failure after all were tried; see :meth:`TwoPhaseCommit.run`.
        """
        self._commits.run(self.core, transactions)

    def take_back(self, queue_owner: object, part: Transaction) -> None:
        """Undo in memory the part of a transaction for the store of ``queue_owner``."""
        assert isinstance(queue_owner, Core)
        queue_owner.committer.take_back(part)

    def follow(self, part: Transaction, number: int) -> None:
        """Commit this store's part of a decided transaction, under prepare record ``number``.

        The prepare record, which holds this part in the group's store, is marked as applied. With a
        full disk the part is kept in ``unfinished`` and tried again later. A member whose store
        fails stops; it applies the prepare record when it is opened again. Store errors are logged
        and not raised.
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
                self._commits.note_carried_out(number, self)
                _settle(core, part)
            else:
                unit.statements = statements
                with core.engine_lock:
                    self.remembered += remembered
                    self.unfinished.append((part, number))
                core.committer.leave([part])

    def finish(self) -> None:
        """Commit the decided transactions that wait for disk space; does nothing without any.

        Raises MQRC_STORAGE_MEDIUM_FULL when the disk is still full.
        """
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
    """One transaction split into a part for each store that it changes, the group's part first."""

    def __init__(self, group: Core, core: Core, transaction: Transaction) -> None:
        """Split a transaction of ``core`` into parts; the group always has one, possibly empty."""
        self._group = group
        others = cast("dict[Core, Transaction]", transaction.parts)
        ordered = sorted({**others, core: transaction}.items(), key=lambda part: part[0].name)
        self._parts: dict[Core, Transaction] = {group: Transaction(), **dict(ordered)}
        transaction.parts = {}
        #: The number of the prepare record of each member, if any.
        self._numbers: dict[Core, int] = {}

    def run(self, commits: TwoPhaseCommit) -> None:
        """Commit all parts on disk, then make their changes visible.

        If the deciding commit fails, all parts are undone and its error is raised. If its outcome
        is unknown, the parts stay hidden until the stores are opened again. After an interruption
        (KeyboardInterrupt) the parts follow if the decision is on disk.
        """
        self._enter()
        durable = [engine for engine, part in self._parts.items() if part.unit.is_durable()]
        decider = durable[0] if len(durable) == 1 else self._group
        unit = self._parts[decider].unit
        try:
            if len(durable) > 1:
                self._decide(commits, durable, unit)
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
        """Register all parts with their committers; undo all and raise the error if one refuses."""
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

    def _decide(self, commits: TwoPhaseCommit, durable: list[Core], unit: Unit) -> None:
        """Commit the group's part, with prepare records for all other parts that change a disk.

        ``durable`` are the engines whose parts change a disk, ``unit`` is the group's part. A
        prepare record, in the group's store, is a member's part of a committed transaction. Raises
        the error of the group's store; then nothing is decided.
        """
        group = self._group
        with group.engine_lock:
            self._numbers = {s: group.store.sequence.next() for s in durable if s is not group}
        for engine, number in self._numbers.items():
            # The totals that these changes build on are on the disk before them.
            engine.store.flush()
            unit.statements.append(prepare(number, engine.name, self._parts[engine].unit))
        done = commits.forget(unit)
        try:
            group.store.commit([unit])
        finally:
            commits.forgot(done, is_durable=unit.is_safe)

    def _follow(self) -> None:
        """Commit the members' parts and make all visible; KeyboardInterrupt is raised last."""
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
        """Undo all parts after a failed decision.

        With ``is_in_doubt``, the parts with changes on disk stay hidden until their stores are
        opened again.
        """
        with self._group.engine_lock:
            for engine, part in self._parts.items():
                if not (is_in_doubt and part.unit.is_durable()):
                    engine.committer.take_back(part)
        for engine, part in self._parts.items():
            engine.committer.leave([part])


def _settle(engine: Core, part: Transaction) -> None:
    """Make a committed transaction visible, and run the transactions that follow from it."""
    follow_ups = engine.committer.settle([part])
    if follow_ups:
        engine.committer.run_follow_ups(follow_ups)


def _participant(core: Core) -> Participant:
    """Return the two-phase-commit participant of an engine; every engine in a group has one."""
    multi_store = core.committer.multi_store
    assert isinstance(multi_store, Participant)
    return multi_store
