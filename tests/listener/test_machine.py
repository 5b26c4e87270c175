"""A port against its model: whatever comes, fails, hangs, stops and starts again, in both modes.

After each step the port must say the same as the model, to the last number; in the end each message
is where the model has it, and has been answered as often as it was committed: once or never.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mayfly import QueueManager, jms
from mayfly.listener import ListenerPort, Statistics, current_transaction
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock
from tests.examples import examples
from tests.listener.port_model import Letter, PortModel, Terms, Unit
from tests.listener.scene import PATIENCE_SECONDS, port_of, until

_DEFINITIONS = """
DEFINE QLOCAL(Q1) BOTHRESH(2) BOQNAME(BACKOUTS)
DEFINE QLOCAL(BACKOUTS)
DEFINE QLOCAL(ANSWERS)
DEFINE QLOCAL(REPORTS)
"""
_TERMS = st.builds(
    Terms,
    sessions=st.integers(1, 3),
    timeout_ms=st.sampled_from([0, 0, 4_000, 10_000, 70_000]),
    lifetime_ms=st.sampled_from([0, 10_000, 10_000, 30_000]),
    max_retries=st.sampled_from([None, None, 0, 1]),
    has_selector=st.booleans(),
)
#: Moments of some seconds, so that receives, lifetimes, delays and lives end in one millisecond.
_TIMES_MS = st.sampled_from([1, 1_000, 3_999, 4_000, 6_000, 9_999, 10_000, 20_000, 60_000])
#: How an on_message ends, as the model knows it, and as it is done.
_ENDS = {
    "good": "good",
    "raise": "bad",
    "exit": "bad",
    "mark": "bad",
    "stop": "stop",
    "close": "close",
}


class PortMachine(RuleBasedStateMachine):
    """A port whose on_message ends when, and as, the test says."""

    def __init__(self) -> None:
        """Begin with empty queues."""
        super().__init__()
        self.clock = VirtualClock()
        self.manager = QueueManager("QM1", clock=self.clock)
        assert self.manager.mqsc(_DEFINITIONS).ok
        #: Of each message that was put, by its text: both threads look here, one enters.
        self.orders: dict[str, queue.Queue[str]] = {}
        self.port: ListenerPort
        self.model: PortModel
        self.stopper: threading.Thread | None = None
        self.count = 0

    @initialize(terms=_TERMS)
    def make(self, terms: Terms) -> None:
        """Make a port, and start it."""
        self.model = PortModel(terms, self.clock.now_ms())
        self.port = port_of(
            self.manager,
            self.on_message,
            receive_timeout_ms=terms.timeout_ms,
            max_sessions=terms.sessions,
            selector="colour = 'red'" if terms.has_selector else None,
            total_tran_lifetime_timeout_s=terms.lifetime_ms // 1_000,
            max_retries=terms.max_retries,
            properties={"MAX.RECOVERY.RETRIES": 1_000},
        )
        self.start()

    def on_message(self, message: jms.TextMessage) -> None:
        """Answer, and end as ordered."""
        label = str(message.text)
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        producer = session.create_producer(session.create_queue("ANSWERS"))
        producer.send(session.create_text_message(label))
        producer.close()
        end = self.orders[label].get(timeout=PATIENCE_SECONDS)
        if end == "raise":
            raise ValueError("bug")
        if end == "exit":
            raise SystemExit
        actions: dict[str, Callable[[], object]] = {
            "mark": current_transaction().set_rollback_only,
            "stop": self.port.stop,
            "close": session.close,
        }
        actions.get(end, bool)()

    @rule(
        priority=st.sampled_from([0, 5]),
        is_red=st.booleans(),
        delay_ms=st.just(0) | _TIMES_MS,
        life_ms=st.none() | _TIMES_MS,
    )
    def put(self, priority: int, is_red: bool, delay_ms: int, life_ms: int | None) -> None:
        """Put a message, whose life goes on behind its delay."""
        label, now_ms = str(self.count), self.clock.now_ms()
        self.count += 1
        self.orders[label] = queue.Queue()
        whole_ms = None if life_ms is None else delay_ms + life_ms
        with self.manager.session() as session:
            session.put(
                "Q1",
                label.encode(),
                format_name="MQSTR",
                priority=priority,
                properties={"colour": "red" if is_red else "blue"},
                delay_ms=delay_ms,
                time_to_live_ms=whole_ms,
                report=c.MQRO_EXPIRATION,
                reply_to_q="REPORTS",
            )
        expire_ms = None if whole_ms is None else now_ms + whole_ms
        self.model.put(Letter(label, priority, is_red, now_ms + delay_ms, expire_ms))
        self.check()

    @rule(span_ms=_TIMES_MS)
    def time_passes(self, span_ms: int) -> None:
        """Let time pass, from one event to the next: threads take part in each."""
        until_ms = self.clock.now_ms() + span_ms
        while (now_ms := self.clock.now_ms()) < until_ms:
            event_ms = self.model.next_event_ms()
            step_ms = until_ms if event_ms is None else min(event_ms, until_ms)
            self.clock.advance(step_ms - now_ms)
            self.model.pass_to(step_ms)
            self.check()

    @precondition(lambda self: self.model.works)
    @rule(data=st.data(), end=st.sampled_from(sorted(_ENDS)))
    def on_message_ends(self, data: Any, end: str) -> None:
        """Let one end."""
        unit = data.draw(st.sampled_from(self.model.works))
        self.orders[unit.letter.label].put(end)
        self.model.finish(unit, _ENDS[end])
        self.check()

    @precondition(lambda self: self.model.is_running)
    @rule()
    def stop(self) -> None:
        """Stop it; whoever does waits for what is in work."""
        self.stopper = threading.Thread(target=self.port.stop)
        self.stopper.start()
        self.model.stop()
        self.check()

    @precondition(lambda self: not self.model.is_running and not self.model.works)
    @rule()
    def start(self) -> None:
        """Start it, again."""
        self.join()
        self.port.start()
        self.model.start()
        self.check()

    def join(self) -> None:
        """Wait for a stop."""
        if self.stopper is not None:
            self.stopper.join(PATIENCE_SECONDS)
            assert not self.stopper.is_alive()
            self.stopper = None

    def check(self) -> None:
        """Wait until the port has come to rest, where the model says."""
        model, counts = self.model, vars(self.model.counts)
        works = len(model.works)
        assert counts["delivered"] == counts["committed"] + counts["rolled_back"] + works

        def is_as_modelled(now: Statistics) -> bool:
            is_counted = all(getattr(now, name) == count for name, count in counts.items())
            return is_counted and self.is_at_rest(now) and self.port.is_running == model.is_running

        until(self.port, is_as_modelled)
        assert self.manager.counts("Q1").locked == works

    def is_at_rest(self, now: Statistics) -> bool:
        """Whether threads work or wait as they should, and nobody is in between."""
        model = self.model
        works, sessions = len(model.works), model.terms.sessions
        has_session = works or (model.is_running and len(model.pauses) < sessions)
        ends: list[int | None] = list(model.receive_ends())
        if model.is_asf:
            # Who has had a message keeps a thread; the dispatcher looks while none of them waits.
            is_right = works <= now.threads == works + now.receiving <= sessions
            is_open = model.is_running and not model.pauses
            ends += [None] * (now.receiving or (is_open and works < sessions))
            has_session = works or now.receiving or is_open
        else:
            threads = sessions if model.is_running else works
            is_right = (now.threads, now.receiving) == (threads, len(model.receives))
        is_right = is_right and now.connections == bool(has_session)
        return is_right and self.is_waiting(Counter(ends), Counter(model.pauses))

    def is_waiting(self, ends: Counter[int | None], pauses: Counter[int | None]) -> bool:
        """Whether gets wait until these ends, pauses until theirs, and else only for lateness."""
        terms, now_ms, engine = self.model.terms, self.clock.now_ms(), self.manager.engine
        with engine.engine_lock:
            number = engine.registry.queue("Q1").number
            waiting = engine.waits.by_queue.items()
            gets = Counter(one.until_ms for key, found in waiting if key == number for one in found)
            rest = Counter(one.until_ms for key, found in waiting if key != number for one in found)
        timers = rest - pauses
        last_ms = now_ms + terms.lifetime_ms
        is_timer = all(end_ms is not None and end_ms <= last_ms for end_ms in timers)
        is_right = gets == ends and not pauses - rest
        return is_right and timers.total() <= terms.sessions and is_timer

    def teardown(self) -> None:
        """Let all that is there be worked on, stop, and look where each message is."""
        if hasattr(self, "model"):
            while self.model.works:
                self.on_message_ends_well(self.model.works[0])
            self.join()
            self.port.stop()
            self.compare()
        self.manager.close()

    def on_message_ends_well(self, unit: Unit) -> None:
        """Let one return."""
        assert unit.letter is not None
        self.orders[unit.letter.label].put("good")
        self.model.finish(unit, "good")
        self.check()

    def compare(self) -> None:
        """Find each message where the model has it, and each answer once."""
        model, now_ms = self.model, self.clock.now_ms()
        arrived = [one for one in model.letters if one.place is not None]
        left = sorted(arrived, key=lambda one: (-one.priority, one.place))
        assert self.texts("Q1") == [
            (one.label, one.backout_count) for one in left if one.is_alive(now_ms)
        ]
        moved = Counter((one.label, 0) for one in model.moved if one.is_alive(now_ms))
        assert Counter(self.texts("BACKOUTS")) == moved
        assert Counter(text for text, _ in self.texts("ANSWERS")) == Counter(model.done)
        expired = [one for one in arrived + model.moved if not one.is_alive(now_ms)]
        assert len(self.texts("REPORTS")) == len(expired)

    def texts(self, name: str) -> list[tuple[str, int]]:
        """Return the messages of a queue with their backout counts."""
        with self.manager.session() as session:
            found = list(session.browse(name))
        return [(one.data.decode(), one.backout_count) for one in found]


@pytest.mark.slow
def test_a_port_does_what_its_model_does() -> None:
    run_state_machine_as_test(
        PortMachine, settings=settings(max_examples=examples(40), stateful_step_count=25)
    )
