"""A handler does what a slow and obvious model of its rules says, pass by pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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
from mayfly.engine import put_dead_letter as engine_bury
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.dead_letter.scene import PLAIN, handler, named, put_dead_letter
from tests.examples import examples
from tests.spec.scene import DEAD, STAGING, alter, alter_manager, local

INTERVAL_MS, LIFE_MS = 1_000, 1_500
#: By target, what becomes of a put there: Q1 is disabled now and then.
#: BACK is served by a program that refuses what it gets.
TARGETS = ("Q1", "NOWHERE", "BACK", STAGING)
#: By action, as a table has it, the outcome of one that succeeds.
ACTIONS = {
    "ACTION(RETRY)": "redriven",
    "ACTION(FWD) FWDQ(&DESTQ) HEADER(NO)": "forwarded",
    "ACTION(FWD) FWDQ(Q2)": "forwarded",
    "ACTION(DISCARD)": "discarded",
    "ACTION(IGNORE)": "ignored",
}
#: Of these, those that put a letter to the queue it was meant for.
PUTS_BACK = ("ACTION(RETRY)", "ACTION(FWD) FWDQ(&DESTQ) HEADER(NO)")


@dataclass
class Letter:
    """One letter; ``is_refused`` by the delay processor, which never takes it again.

    ``origin`` is its number when it came here for the first time.
    """

    place: tuple[int, int]
    target: str
    expire_at_ms: int | None
    origin: int
    is_refused: bool = False


@dataclass
class Course:
    """How far it has come in the rules, and when it goes on."""

    rule_index: int = 0
    attempts: int = 0
    due_ms: int = 0
    sent_ms: int = 0


@dataclass
class Model:
    """The queue, in no order, and what the handler remembers of it."""

    rules: list[tuple[str, str, int]]
    now_ms: int
    takes_puts: bool = True
    letters: list[Letter] = field(default_factory=list)
    courses: dict[int, Course] = field(default_factory=dict)
    #: What is on BACK, with its course, and by number the courses of what has come back from there.
    on_its_way: list[tuple[Letter, Course]] = field(default_factory=list)
    returned: dict[int, Course] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    arrived: Counter[str] = field(default_factory=Counter)
    put_count: int = 0

    def put_dead_letter(
        self,
        target: str,
        priority: int,
        expire_at_ms: int | None,
        *,
        origin: int | None = None,
        is_refused: bool = False,
    ) -> Letter:
        self.put_count += 1
        number = self.put_count
        first = number if origin is None else origin
        letter = Letter((-priority, number), target, expire_at_ms, first, is_refused)
        self.letters.append(letter)
        return letter

    def refuse(self) -> None:
        """Let the program bring back what is on BACK, highest priority first."""
        letters, self.on_its_way = self.on_its_way, []
        for one, course in sorted(letters, key=lambda sent: sent[0].place[0]):
            if one.expire_at_ms is None or one.expire_at_ms > self.now_ms:
                back = self.put_dead_letter(
                    "BACK", -one.place[0], one.expire_at_ms, origin=one.origin
                )
                self.returned[back.place[1]] = course

    def timeline_of(self, number: int) -> Course:
        """Return that of a letter; one that has come back late is as new."""
        if number not in self.courses:
            course = self.returned.pop(number, None)
            is_new = course is None or course.sent_ms + 2 * INTERVAL_MS <= self.now_ms
            self.courses[number] = Course() if is_new or course is None else course
        return self.courses[number]

    def next_after(self, place: tuple[int, int]) -> Letter | None:
        """Return the next living letter; what has expired before it is gone."""
        for letter in sorted(self.letters, key=lambda one: one.place):
            if letter.place <= place:
                continue
            if letter.expire_at_ms is None or letter.expire_at_ms > self.now_ms:
                return letter
            self.letters.remove(letter)
        return None

    def run_once(self) -> None:
        left = len(self.letters)
        letter = self.next_after((-10, 0))
        while letter is not None:
            self.handle(letter)
            left -= 1
            letter = self.next_after(letter.place) if left > 0 else None

    def handle(self, letter: Letter) -> None:
        number = letter.place[1]
        course = self.timeline_of(number)
        if number in self.settled or course.due_ms > self.now_ms:
            return
        for index, (target, action, attempts) in enumerate(self.rules):
            if index < course.rule_index or target not in ("*", letter.target):
                continue
            outcome = ACTIONS[action] if self.succeeds(letter, action) else "failed"
            self.counts[outcome] += 1
            if course.rule_index != index:
                course.rule_index, course.attempts = index, 0
            course.attempts += 1
            is_last = course.attempts == attempts
            course.due_ms = 0 if is_last else self.now_ms + INTERVAL_MS
            if is_last:
                course.rule_index, course.attempts = index + 1, 0
            if outcome == "ignored":
                self.settled.add(number)
            elif letter.target == "BACK" and letter not in self.letters and action in PUTS_BACK:
                course.sent_ms = self.now_ms
                self.on_its_way.append((letter, course))
            if outcome != "failed" or not is_last:
                return
        self.counts["left"] += 1
        self.settled.add(number)

    def succeeds(self, letter: Letter, action: str) -> bool:
        if action == "ACTION(IGNORE)":
            return True
        if action == "ACTION(DISCARD)":
            self.letters.remove(letter)
            return True
        target = "Q2" if action.endswith("FWDQ(Q2)") else letter.target
        if target == "NOWHERE" or (letter.is_refused and target == STAGING):
            return False
        if target == "Q1" and not self.takes_puts:
            return False
        self.letters.remove(letter)
        if target == "BACK":
            return True
        if target == STAGING:
            self.put_dead_letter(STAGING, -letter.place[0], letter.expire_at_ms, is_refused=True)
        else:
            self.arrived[target] += 1
        return True


class HandlerMachine(RuleBasedStateMachine):
    """Letters come and go while a handler passes over them, at one moment each."""

    @initialize(
        rules=st.lists(
            st.tuples(
                st.sampled_from(("*", *TARGETS)), st.sampled_from([*ACTIONS]), st.integers(1, 3)
            ),
            min_size=1,
            max_size=4,
        )
    )
    def begin(self, rules: list[tuple[str, str, int]]) -> None:
        self.clock = VirtualClock()
        self.manager = QueueManager("QM1", clock=self.clock)
        for name in ("Q1", "Q2", "BACK"):
            local(self.manager, name)
        alter_manager(self.manager, DEADQ=DEAD)
        lines = [f"DESTQ({target}) {action} RETRY({n})" for target, action, n in rules]
        table = "\n".join([f"RETRYINT({INTERVAL_MS // 1_000})", *lines])
        self.handler = handler(self.manager, table)
        self.model = Model(rules, self.clock.now_ms())
        self.ids: dict[int, bytes] = {}

    @rule(
        name=st.sampled_from(TARGETS),
        priority=st.sampled_from((0, 4, 9)),
        dies=st.booleans(),
        count=st.integers(1, 3),
    )
    def put_dead_letter(self, name: str, priority: int, count: int, *, dies: bool) -> None:
        for _ in range(count):
            life_ms = LIFE_MS if dies else None
            descriptor = PLAIN._replace(priority=priority)
            msg_id = put_dead_letter(self.manager, descriptor, target=name, life_ms=life_ms)
            end_ms = self.model.now_ms + LIFE_MS if dies else None
            self.ids[self.model.put_dead_letter(name, priority, end_ms).place[1]] = msg_id

    @rule(ms=st.sampled_from((1, INTERVAL_MS - 1, INTERVAL_MS, LIFE_MS)))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)
        self.model.now_ms += ms

    @rule()
    def run_once(self) -> None:
        before = self.model.counts.copy()
        happened = named(self.handler.run_once())
        self.model.run_once()
        assert happened == dict(self.model.counts - before)

    @rule()
    def switch_puts(self) -> None:
        takes = self.model.takes_puts = not self.model.takes_puts
        alter(self.manager, "Q1", PUT=c.MQQA_PUT_ALLOWED if takes else c.MQQA_PUT_INHIBITED)

    @rule()
    def refuse(self) -> None:
        self.model.refuse()
        with self.manager.session(transacted=True) as program:
            while (message := program.get("BACK")) is not None:
                engine_bury(self.manager.engine, program, message, rc.MQRC_Q_FULL)
            program.commit()

    @precondition(lambda self: any(not one.is_refused for one in self.model.letters))
    @rule(data=st.data())
    def take_away(self, data: st.DataObject) -> None:
        there = [one for one in self.model.letters if not one.is_refused]
        letter = data.draw(st.sampled_from(there))
        is_over = letter.expire_at_ms is not None and letter.expire_at_ms <= self.model.now_ms
        with self.manager.session() as session:
            found = session.get(DEAD, msg_id=self.ids[letter.origin])
        assert (found is None) == is_over
        self.model.letters.remove(letter)

    @invariant()
    def same_depths(self) -> None:
        if not hasattr(self, "model"):
            return
        found = {name: self.manager.curdepth(name) for name in (DEAD, "Q1", "Q2", "BACK")}
        arrived = {name: self.model.arrived[name] for name in ("Q1", "Q2")}
        back = len(self.model.on_its_way)
        assert found == {DEAD: len(self.model.letters), "BACK": back, **arrived}

    def teardown(self) -> None:
        if hasattr(self, "model"):
            self.handler.close()
            verified = self.manager.verify()
            self.manager.close()
            assert verified.ok, verified.problems


@pytest.mark.slow
def test_handler_does_what_the_model_says() -> None:
    run_state_machine_as_test(
        HandlerMachine, settings=settings(max_examples=examples(100), stateful_step_count=30)
    )
