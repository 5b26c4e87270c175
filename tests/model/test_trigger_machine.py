"""Queues trigger when the model says, whatever programs, operators and time do (T1-T6)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
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
from mayfly.engine import Handle, Session
from mayfly.engine.api.administration import PROCESS, define_named, delete_named
from mayfly.mqi import constants as c
from mayfly.mqi.structures import TM
from mayfly.testing import VirtualClock
from tests.examples import examples
from tests.model.trigger_model import DEPTH, EVERY, FIRST, UNCOMMITTED, Held, Rules, TriggerModel
from tests.spec.scene import INPUT, alter, alter_manager
from tests.spec.trigger_scene import INITQ, OFF, ON, PROGRAM, control, triggering

SEQUENCES = {"PRIORITY": c.MQMDS_PRIORITY, "FIFO": c.MQMDS_FIFO}
#: What the model calls the attributes that are altered.
FIELDS = {"TRIGTYPE": "trigger_type", "TRIGMPRI": "least_priority", "TRIGDPTH": "depth"}
DELAY_MS, LIFE_MS, INTERVAL_MS = 300, 200, 500

queues = st.sampled_from(sorted(SEQUENCES))
types = st.sampled_from((FIRST, EVERY, DEPTH))
#: 0 is no unit of work.
owners = st.sampled_from((0, 0, 1, 2))
steps_ms = st.sampled_from((0, 1, 100, LIFE_MS, DELAY_MS, INTERVAL_MS, 1_000))


class TriggerMachine(RuleBasedStateMachine):
    """Sessions work on two queues that trigger; after each step both sides must agree."""

    folder: Path | None = None

    @initialize(
        kinds=st.tuples(types, types),
        least_priority=st.sampled_from((0, 0, 5)),
        depth=st.integers(1, 3),
        is_monitored=st.sampled_from((True, True, False)),
        first=st.lists(st.tuples(queues, st.integers(1, 3)), max_size=3),
    )
    def begin(
        self,
        kinds: tuple[int, int],
        least_priority: int,
        depth: int,
        *,
        is_monitored: bool,
        first: list[tuple[str, int]],
    ) -> None:
        self.clock = VirtualClock()
        self.model = TriggerModel(self.clock.now_ms(), INTERVAL_MS)
        self.label = 0
        self.start()
        alter_manager(self.manager, TRIGINT=INTERVAL_MS)
        for (name, sequence), kind in zip(SEQUENCES.items(), kinds, strict=True):
            given = {"TRIGTYPE": kind, "TRIGMPRI": least_priority, "TRIGDPTH": depth}
            triggering(self.manager, name, MSGDLVSQ=sequence, **given)
            self.model.queues[name] = Rules(kind, least_priority, depth)
        if is_monitored:
            self.open_initiation_queue()
        for name, count in first:
            self.put_some(0, name, 5, count)

    def start(self) -> None:
        self.manager = QueueManager("QM1", self.folder, self.clock)
        self.sessions = {n: self.manager.session(transacted=n > 0) for n in range(3)}
        self.reader: Session = self.manager.session()
        #: What programs have open, and by which session; then the monitors.
        self.handles: dict[str, list[tuple[int, Handle]]] = {name: [] for name in SEQUENCES}
        self.monitors: list[Handle] = []

    # What programs do

    @rule(
        owner=owners,
        name=queues,
        priority=st.sampled_from((4, 5)),
        is_delayed=st.sampled_from((False, False, False, True)),
        dies=st.booleans(),
        persistent=st.booleans(),
    )
    def put(
        self,
        owner: int,
        name: str,
        priority: int,
        *,
        is_delayed: bool,
        dies: bool,
        persistent: bool,
    ) -> None:
        self.label += 1
        now_ms, life_ms = self.model.now_ms, LIFE_MS if dies and not is_delayed else None
        self.sessions[owner].put(
            name,
            b"x",
            priority=priority,
            delay_ms=DELAY_MS if is_delayed else 0,
            time_to_live_ms=life_ms,
            persistent=persistent,
            msg_id=b"%d" % self.label,
        )
        end_ms = None if life_ms is None else now_ms + life_ms
        due_ms = now_ms + DELAY_MS if is_delayed else 0
        held = Held(self.label, name, priority, persistent, end_ms, UNCOMMITTED, owner, due_ms)
        self.model.messages[self.label] = held
        if not owner:
            # A unit of work of its own: of nobody else is anything uncommitted.
            self.model.commit(0)

    @rule(owner=owners, name=queues, priority=st.sampled_from((5, 5, 4)), count=st.integers(1, 4))
    def put_some(self, owner: int, name: str, priority: int, count: int) -> None:
        for _ in range(count):
            self.put(
                owner, name, priority, is_delayed=False, dies=False, persistent=bool(count % 2)
            )

    @rule(name=queues, priority=st.sampled_from((5, 4)), count=st.integers(2, 4))
    def put_a_unit(self, name: str, priority: int, count: int) -> None:
        self.put_some(1, name, priority, count)
        self.end_unit(1, is_final=True)

    @rule(name=queues)
    def put_one(self, name: str) -> None:
        self.put(0, name, 5, is_delayed=False, dies=False, persistent=True)

    @precondition(lambda self: self.model.messages)
    @rule(owner=owners, data=st.data())
    def get(self, owner: int, data: st.DataObject) -> None:
        self.get_one(data.draw(st.sampled_from(sorted(self.model.messages))), owner)

    def get_one(self, label: int, owner: int) -> None:
        name = self.model.messages[label].queue
        found = self.sessions[owner].get(name, msg_id=b"%d" % label)
        assert (found is not None) == self.model.get(label, owner)

    @precondition(lambda self: self.model.messages)
    @rule(owner=st.sampled_from((1, 2)), is_final=st.booleans())
    def end(self, owner: int, *, is_final: bool) -> None:
        self.end_unit(owner, is_final=is_final)

    @precondition(lambda self: self.model.messages)
    @rule(name=queues, owner=st.sampled_from((0, 1, 2)))
    def drain(self, name: str, owner: int) -> None:
        for label in [m.label for m in self.model.messages.values() if m.queue == name]:
            self.get_one(label, owner)

    def end_unit(self, owner: int, *, is_final: bool) -> None:
        if is_final:
            self.sessions[owner].commit()
            self.model.commit(owner)
        else:
            self.sessions[owner].backout()
            self.model.backout(owner)

    @rule(owner=owners, name=queues)
    def open_queue(self, owner: int, name: str) -> None:
        self.handles[name].append((owner, self.sessions[owner].open(name, INPUT)))
        self.model.queues[name].inputs += 1

    @precondition(lambda self: any(self.handles[name] for name in SEQUENCES))
    @rule(data=st.data())
    def close_queue(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([n for n in SEQUENCES if self.handles[n]]))
        self.handles[name].pop()[1].close()
        self.closed(name)

    def closed(self, name: str) -> None:
        rules = self.model.queues[name]
        rules.inputs -= 1
        if not rules.inputs and rules.trigger_type != EVERY:
            self.model.look_at(name)

    @rule(owner=st.sampled_from((1, 2)), is_final=st.booleans())
    def end_session(self, owner: int, *, is_final: bool) -> None:
        """First its unit of work ends, then what it has open is closed."""
        self.sessions[owner].close(commit=is_final)
        self.sessions[owner] = self.manager.session(transacted=True)
        (self.model.commit if is_final else self.model.backout)(owner)
        for name, handles in self.handles.items():
            left = [pair for pair in handles if pair[0] != owner]
            for _ in range(len(handles) - len(left)):
                self.closed(name)
            handles[:] = left

    # What monitors and operators do

    @rule(
        what=st.sampled_from(("monitor", "on", "type", "stop", "enable", "disable", "off", "full")),
        name=queues,
        kind=types,
    )
    def operate(self, what: str, name: str, kind: int) -> None:
        if what == "monitor":
            self.open_initiation_queue()
        elif what == "stop":
            self.close_initiation_queue()
        elif what in ("enable", "disable"):
            self.alter_initiation_queue(is_enabled=what == "enable")
        elif what == "type":
            self.alter_condition(name, TRIGTYPE=kind)
        elif what == "full":
            self.model.is_full = not self.model.is_full
            alter(self.manager, INITQ, MAXDEPTH=0 if self.model.is_full else 5_000)
        else:
            self.switch(name, is_on=what == "on")

    def open_initiation_queue(self) -> None:
        self.monitors.append(self.reader.open(INITQ, INPUT))
        self.model.monitors += 1
        if self.model.monitors == 1:
            self.look_at_all()

    def close_initiation_queue(self) -> None:
        if self.monitors:
            self.monitors.pop().close()
            self.model.monitors -= 1

    def alter_initiation_queue(self, *, is_enabled: bool) -> None:
        alter(self.manager, INITQ, PUT=int(not is_enabled))
        was_enabled, self.model.takes_puts = self.model.takes_puts, is_enabled
        if is_enabled and not was_enabled:
            self.look_at_all()

    @rule()
    def alter_gets_of_the_initiation_queue(self) -> None:
        allows = self.model.allows_gets = not self.model.allows_gets
        alter(self.manager, INITQ, GET=int(not allows))
        if allows:
            self.look_at_all()

    def switch(self, name: str, *, is_on: bool) -> None:
        alter(self.manager, name, TRIGGER=ON if is_on else OFF)
        rules = self.model.queues[name]
        was_on, rules.is_on = rules.is_on, is_on
        if not is_on:
            rules.forget()
        elif not was_on:
            self.model.look_at(name)

    @rule(name=queues, least_priority=st.sampled_from((0, 5)))
    def alter_priority(self, name: str, least_priority: int) -> None:
        self.alter_condition(name, TRIGMPRI=least_priority)

    @rule(name=queues, depth=st.integers(1, 3))
    def alter_depth(self, name: str, depth: int) -> None:
        self.alter_condition(name, TRIGDPTH=depth)

    def alter_condition(self, name: str, **change: int) -> None:
        alter(self.manager, name, **change)
        rules, [(keyword, value)] = self.model.queues[name], change.items()
        if getattr(rules, FIELDS[keyword]) != value:
            setattr(rules, FIELDS[keyword], value)
            self.model.look_at(name)

    @rule(name=queues)
    def alter_where_it_triggers(self, name: str) -> None:
        rules = self.model.queues[name]
        has = rules.has_initiation_queue = not rules.has_initiation_queue
        alter(self.manager, name, INITQ=INITQ if has else "")
        if has:
            self.model.look_at(name)
        else:
            rules.forget()

    @rule()
    def alter_process(self) -> None:
        if self.model.has_process:
            delete_named(self.manager.engine, PROCESS, PROGRAM)
        else:
            define_named(self.manager.engine, PROCESS, PROGRAM, {"APPLICID": "serve it"})
        self.model.has_process = not self.model.has_process
        if self.model.has_process:
            self.look_at_all()

    @rule(ms=st.sampled_from((0, INTERVAL_MS, 4 * INTERVAL_MS)))
    def alter_interval(self, ms: int) -> None:
        alter_manager(self.manager, TRIGINT=ms)
        self.model.interval_ms = ms
        self.model.advance(0)

    @rule(ms=steps_ms)
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)
        self.model.advance(ms)

    def look_at_all(self) -> None:
        for name in self.model.queues:
            self.model.look_at(name)

    @invariant()
    def same_trigger_messages(self) -> None:
        if not hasattr(self, "model"):
            return
        made = []
        while self.model.allows_gets and (message := self.reader.get(INITQ)) is not None:
            made.append(str(TM.unpack(message.body)["QName"]))
        assert sorted(made) == sorted(self.model.made)
        self.model.made.clear()
        for name, rules in self.model.queues.items():
            assert control(self.manager, name) == (ON if rules.is_on else OFF)

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            found = self.manager.verify()
            self.manager.close()
            assert found.ok, found.problems


class DurableTriggerMachine(TriggerMachine):
    """The same in a folder, and restarted now and then."""

    def start(self) -> None:
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp())
        super().start()

    @rule()
    def restart(self) -> None:
        self.manager.close()
        self.start()
        self.model.restart()

    def teardown(self) -> None:
        super().teardown()
        if self.folder is not None:
            shutil.rmtree(self.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "example_count"), [(TriggerMachine, 200), (DurableTriggerMachine, 30)]
)
def test_triggers_are_made_when_the_model_says(
    machine: type[TriggerMachine], example_count: int
) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(example_count), stateful_step_count=30)
    )
