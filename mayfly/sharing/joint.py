"""Transactions over the stores of a group and its members: all of one happens, or nothing.

The group's transaction decides. It holds, beside its own changes, what each member is to change
(store/intents.py); then the members' transactions follow. Where only one of the stores is changed
on the disk its transaction decides alone. A kill in between leaves intents, which a member carries
out when it is opened again; a member whose disk is full does so a little later.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import cast

from mayfly.engine.transaction import Transaction
from mayfly.mqi.errors import MQError
from mayfly.sharing.sharer import Sharer
from mayfly.store.intents import carry_out, forget_carried_out, forget_intents, intend
from mayfly.store.units import Unit

_LOG = logging.getLogger("mayfly.sharing")


class Joint:
    """Runs the works of one group; what it keeps is guarded by the lock that all of them share."""

    def __init__(self, group: Sharer) -> None:
        """Begin with nothing under way."""
        self._group = group
        #: Intents that were carried out, durably, and whose: the group may forget them.
        self._carried_out: dict[int, Sharer] = {}

    def run(self, core: Sharer, transactions: Sequence[Transaction]) -> None:
        """Run works one after the other, each whole or not at all; raises the first failure.

        Raises as ``Committer.run``; a failure of one leaves the others alone.
        """
        failure: MQError | None = None
        for place, transaction in enumerate(transactions):
            try:
                if transaction.elsewhere:
                    _JointWork(self._group, core, transaction).run(self)
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

    def through(self, core: Sharer) -> _Through:
        """Return what runs transactions of one of the group over all of their stores."""
        return _Through(self, core)

    def note_carried_out(self, number: int, member: Sharer) -> None:
        """Note that a member has durably done what an intent says."""
        with self._group.engine_lock:
            self._carried_out[number] = member

    def forget(self, unit: Unit) -> dict[int, Sharer]:
        """Let a unit of the group remove intents that were carried out; return which, whose."""
        with self._group.engine_lock:
            done, self._carried_out = self._carried_out, {}
        if done:
            unit.statements.append(forget_intents(done))
        return done

    def forgot(self, done: dict[int, Sharer], *, is_durable: bool) -> None:
        """Note whether these intents are gone; their members need not remember them then."""
        with self._group.engine_lock:
            if is_durable:
                for number, member in done.items():
                    member.remembered.append(number)
            else:
                self._carried_out.update(done)

    def done_counts(self) -> Counter[str]:
        """Return how many intents of members need only be forgotten; lock held."""
        return Counter(member.name for member in self._carried_out.values())

    def clean_up(self) -> None:
        """Remove the intents that were carried out."""
        unit = Unit()
        done = self.forget(unit)
        if done:
            try:
                self._group.store.group.commit(unit)
            finally:
                self.forgot(done, is_durable=unit.is_safe)


class _Through:
    """Runs what the committer of one queue manager, or of the group, leaves to the group."""

    def __init__(self, joint: Joint, core: Sharer) -> None:
        """Run transactions of ``core``."""
        self._joint, self._core = joint, core

    def run(self, transactions: Sequence[Transaction]) -> None:
        """Run transactions; see :meth:`Joint.run`."""
        self._joint.run(self._core, transactions)

    def take_back(self, home: object, part: Transaction) -> None:
        """Undo the part of a transaction that was to change another store."""
        assert isinstance(home, Sharer)
        home.committer.take_back(part)


class _JointWork:
    """One transaction on its way: its parts by whose store they change, the group first."""

    def __init__(self, group: Sharer, core: Sharer, transaction: Transaction) -> None:
        """Take a transaction of ``core`` apart. The group takes part in whatever its members do."""
        self._group = group
        others = cast("dict[Sharer, Transaction]", transaction.elsewhere)
        ordered = sorted({**others, core: transaction}.items(), key=lambda part: part[0].name)
        self._parts: dict[Sharer, Transaction] = {group: Transaction(), **dict(ordered)}
        transaction.elsewhere = {}
        #: The intent of each member, when there are any.
        self._numbers: dict[Sharer, int] = {}

    def run(self, joint: Joint) -> None:
        """Make all parts effective and return when they are durable."""
        self._enter()
        durable = [sharer for sharer, part in self._parts.items() if part.unit.is_durable()]
        decider = durable[0] if len(durable) == 1 else self._group
        unit = self._parts[decider].unit
        try:
            if len(durable) > 1:
                self._decide(joint, durable, unit)
            elif durable:
                decider.store.commit([unit])
        except BaseException:
            # Interrupted it may be done all the same.
            if unit.is_safe:
                self._follow(joint)
            else:
                self._fail(is_in_doubt=decider.store.group.is_broken)
            raise
        self._follow(joint)

    def _enter(self) -> None:
        entered: list[Sharer] = []
        with self._group.engine_lock:
            try:
                for sharer, part in self._parts.items():
                    sharer.committer.enter([part])
                    entered.append(sharer)
            except MQError:
                for sharer, part in self._parts.items():
                    sharer.committer.take_back(part)
                for sharer in entered:
                    sharer.committer.leave([self._parts[sharer]])
                raise

    def _decide(self, joint: Joint, durable: list[Sharer], unit: Unit) -> None:
        """Commit the group's part with the intents of all others that are durable."""
        group = self._group
        with group.engine_lock:
            self._numbers = {s: group.store.sequence.next() for s in durable if s is not group}
        for sharer, number in self._numbers.items():
            # The totals that these changes build on are on the disk before them.
            sharer.store.flush()
            unit.statements.append(intend(number, sharer.name, self._parts[sharer].unit))
        done = joint.forget(unit)
        try:
            group.store.commit([unit])
        finally:
            joint.forgot(done, is_durable=unit.is_safe)

    def _follow(self, joint: Joint) -> None:
        """Let what is decided take effect everywhere."""
        interruption: KeyboardInterrupt | None = None
        for sharer, part in self._parts.items():
            try:
                if sharer in self._numbers:
                    follow(joint, sharer, part, self._numbers[sharer])
                else:
                    _settle(sharer, part)
            except KeyboardInterrupt as error:
                # The others' parts are decided like this one.
                interruption = error
        if interruption is not None:
            raise interruption

    def _fail(self, *, is_in_doubt: bool) -> None:
        """Undo it; in doubt nobody knows what was decided until the store is opened again."""
        with self._group.engine_lock:
            for sharer, part in self._parts.items():
                if not (is_in_doubt and part.unit.is_durable()):
                    sharer.committer.take_back(part)
        for sharer, part in self._parts.items():
            sharer.committer.leave([part])


def follow(joint: Joint, member: Sharer, part: Transaction, number: int) -> None:
    """Do a member's part of what the group has decided; with a full disk it is tried again later.

    A member whose store fails stops, and carries the intent out when it is opened again.
    """
    unit = part.unit
    statements = list(unit.statements)
    with member.engine_lock:
        remembered, member.remembered = member.remembered, []
    unit.statements.append(carry_out(number))
    if remembered:
        unit.statements.append(forget_carried_out(remembered))
    try:
        member.store.commit([unit])
    except MQError as error:
        _LOG.error("%s is to carry out intent %d later: %s", member.name, number, error)
    finally:
        if unit.is_safe:
            joint.note_carried_out(number, member)
            _settle(member, part)
        else:
            unit.statements = statements
            with member.engine_lock:
                member.remembered += remembered
                member.unfinished.append((part, number))
            member.committer.leave([part])


def _settle(sharer: Sharer, part: Transaction) -> None:
    """Let a transaction that is durable take effect, and run what that leads to."""
    led_to = sharer.committer.settle([part])
    if led_to:
        sharer.committer.follow(led_to)
