"""Two members and one shared queue beside an obvious model: delays, units, members that restart."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mayfly import QueueManager
from tests.examples import examples
from tests.sharing.scene import PRIVATE, SHARED, Sharing
from tests.spec.scene import STAGING

members = st.sampled_from(("QM1", "QM2"))
delays_ms = st.sampled_from((0, 0, 1, 7, 1_000, 5_000))
steps_ms = st.sampled_from((1, 6, 999, 1_000, 6_000))


class Put(NamedTuple):
    """A message of the model; ``due_ms`` is when it is to be on the shared queue."""

    due_ms: int
    body: bytes
    persistent: bool


class SharingMachine(RuleBasedStateMachine):
    """Each message is where the model has it, in its order, at every member that is open."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sharing-"))
        self.sharing = Sharing(self.folder)
        self.clock = self.sharing.clock
        self.up = {"QM1": self.sharing.qm1, "QM2": self.sharing.qm2}
        self.shared: list[Put] = []
        self.private: dict[str, list[Put]] = {name: [] for name in self.up}
        self.staged: dict[str, list[Put]] = {name: [] for name in self.up}
        self.number = 0

    def next_put(self, delay_ms: int, persistent: bool) -> Put:
        """Return a message that is due when no other is: which member is faster is left open."""
        self.number += 1
        taken = {put.due_ms for staged in self.staged.values() for put in staged}
        due_ms = self.clock.now_ms() + delay_ms
        while delay_ms and due_ms in taken:
            due_ms += 1
        return Put(due_ms, b"%d" % self.number, persistent)

    @rule(name=members, delay_ms=delays_ms, persistent=st.booleans())
    def put(self, name: str, delay_ms: int, persistent: bool) -> None:
        if name not in self.up:
            return
        put = self.next_put(delay_ms, persistent)
        delay_ms = put.due_ms - self.clock.now_ms()
        with self.up[name].session() as session:
            session.put(SHARED, put.body, delay_ms=delay_ms, persistent=persistent)
        (self.staged[name] if delay_ms else self.shared).append(put)

    @rule(name=members)
    def get(self, name: str) -> None:
        if name in self.up:
            with self.up[name].session() as session:
                message = session.get(SHARED)
            expected = self.shared.pop(0).body if self.shared else None
            assert (None if message is None else message.body) == expected

    @rule(name=members, commits=st.booleans(), delay_ms=delays_ms, persistent=st.booleans())
    def unit(self, name: str, commits: bool, delay_ms: int, persistent: bool) -> None:
        """Move a message from the shared queue to a private one, and put another."""
        if name not in self.up:
            return
        put = self.next_put(delay_ms, persistent)
        with self.up[name].session(transacted=True) as session:
            got = session.get(SHARED)
            assert (got is None) == (not self.shared)
            if got is not None:
                session.put(PRIVATE, got.body, persistent=bool(got.descriptor.persistence))
            delay_ms = put.due_ms - self.clock.now_ms()
            session.put(SHARED, put.body, delay_ms=delay_ms, persistent=persistent)
            if not commits:
                session.backout()
        if commits:
            if got is not None:
                self.private[name].append(self.shared.pop(0))
            (self.staged[name] if delay_ms else self.shared).append(put)

    @rule(step_ms=steps_ms)
    def time_passes(self, step_ms: int) -> None:
        self.clock.advance(step_ms)
        self.release(*self.up)

    def release(self, *names: str) -> None:
        """Move what is due with these members to the shared queue, in due order."""
        now_ms = self.clock.now_ms()
        due = sorted(put for name in names for put in self.staged[name] if put.due_ms <= now_ms)
        self.shared += due
        for name in names:
            self.staged[name] = [put for put in self.staged[name] if put not in due]

    @rule(name=members)
    def stop(self, name: str) -> None:
        if name in self.up:
            self.up.pop(name).close()
            self.lose(name)

    def lose(self, name: str) -> None:
        """Forget what a member that ends does not keep."""
        self.staged[name] = [put for put in self.staged[name] if put.persistent]
        self.private[name] = [put for put in self.private[name] if put.persistent]

    @rule(name=members)
    def start(self, name: str) -> None:
        if name not in self.up:
            self.up[name] = self.open(name)
            self.release(name)

    def open(self, name: str) -> QueueManager:
        """Open a member."""
        opened = self.sharing.member(name)
        setattr(self.sharing, name.lower(), opened)
        return opened

    @precondition(lambda self: len(self.up) == 2)
    @rule()
    def restart_all(self) -> None:
        self.sharing.group.close()
        self.shared = [put for put in self.shared if put.persistent]
        for name in self.up:
            self.lose(name)
        self.sharing.open()
        self.up = {"QM1": self.sharing.qm1, "QM2": self.sharing.qm2}

    @invariant()
    def all_is_where_it_must_be(self) -> None:
        for name, member in self.up.items():
            with member.session() as session:
                assert [m.body for m in session.browse(SHARED)] == [p.body for p in self.shared]
                assert [m.body for m in session.browse(PRIVATE)] == [
                    put.body for put in self.private[name]
                ]
            assert member.curdepth(SHARED) == len(self.shared)
            assert member.curdepth(STAGING) == len(self.staged[name])

    def teardown(self) -> None:
        if hasattr(self, "sharing"):
            self.sharing.end()
            shutil.rmtree(self.folder)


@pytest.mark.slow
def test_D29_any_course_of_events() -> None:
    run_state_machine_as_test(
        SharingMachine,
        settings=settings(
            max_examples=examples(12),
            stateful_step_count=30,
            suppress_health_check=list(HealthCheck),
        ),
    )
