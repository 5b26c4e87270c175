"""Messages backed out to a queue with BODELAY are there exactly when the model says (D32)."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.examples import examples

DELAY_S, LONGEST_S = 2, 7
#: The delays of the first, second and each further backout, in ms.
DELAYS_MS = (2_000, 4_000, 7_000)


@dataclass
class Held:
    """A message of the model; times are epoch ms, None for none."""

    body: bytes
    persistent: bool
    expire_at_ms: int | None
    backouts: int = 0
    ready_at_ms: int = 0
    is_locked: bool = False


@dataclass
class Model:
    """The queue as D32, E4 and E13 describe it, in put order."""

    messages: list[Held] = field(default_factory=list)

    def discard_expired(self, now_ms: int) -> None:
        """Forget messages that a get, a browse or the end of a delay discards."""
        self.messages = [m for m in self.messages if m.is_locked or not is_over(m, now_ms)]

    def visible(self, now_ms: int) -> list[Held]:
        """Return the messages that can be got now, first in order."""
        return [
            m
            for m in self.messages
            if not m.is_locked and m.ready_at_ms <= now_ms and not is_over(m, now_ms)
        ]


def is_over(message: Held, now_ms: int) -> bool:
    """Return True from the deadline on."""
    return message.expire_at_ms is not None and message.expire_at_ms <= now_ms


class RedeliveryMachine(RuleBasedStateMachine):
    """One queue, one unit of work, and restarts by a close or a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="mayfly-model-"))
        self.clock, self.model, self.number = VirtualClock(), Model(), 0
        self.open()
        assert self.manager.mqsc(
            f"DEFINE QLOCAL(Q1) BODELAY({DELAY_S}) BODELMAX({LONGEST_S}) MSGDLVSQ(FIFO)"
        ).ok

    def open(self) -> None:
        self.manager = QueueManager("QM1", self.folder, self.clock)
        self.session = self.manager.session()
        self.unit = self.manager.session(transacted=True)

    @rule(persistent=st.booleans(), life_ms=st.sampled_from((None, 1_999, 2_000, 2_001, 9_000)))
    def put(self, persistent: bool, life_ms: int | None) -> None:
        self.number += 1
        body = b"%d" % self.number
        self.session.put("Q1", body, persistent=persistent, time_to_live_ms=life_ms)
        expire_at_ms = None if life_ms is None else self.clock.now_ms() + life_ms
        self.model.messages.append(Held(body, persistent, expire_at_ms))

    @rule()
    def get(self) -> None:
        expected = self.model.visible(self.clock.now_ms())
        message = self.unit.get("Q1")
        assert (None if message is None else (message.body, message.backout_count)) == (
            (expected[0].body, expected[0].backouts) if expected else None
        )
        if expected:
            expected[0].is_locked = True

    @rule()
    def commit(self) -> None:
        self.unit.commit()
        self.model.messages = [m for m in self.model.messages if not m.is_locked]

    @rule()
    def back_out(self) -> None:
        self.unit.backout()
        self.put_off([m for m in self.model.messages if m.is_locked])

    @rule(step_ms=st.sampled_from((1, 999, 1_000, 2_000, 4_999)))
    def advance(self, step_ms: int) -> None:
        self.clock.advance(step_ms)

    @rule(crashes=st.booleans())
    def restart(self, crashes: bool) -> None:
        """Held messages count as backed out; all delays begin again."""
        (self.manager.crash if crashes else self.manager.close)()
        now_ms = self.clock.now_ms()
        self.model.messages = [m for m in self.model.messages if m.persistent]
        waiting = [m for m in self.model.messages if not m.is_locked and m.ready_at_ms > now_ms]
        self.open()
        self.put_off([m for m in self.model.messages if m.is_locked])
        for message in waiting:
            message.ready_at_ms = now_ms + DELAYS_MS[min(message.backouts, 3) - 1]

    @invariant()
    def browse_shows_what_can_be_got(self) -> None:
        now_ms = self.clock.now_ms()
        shown = [(m.body, m.backout_count) for m in self.session.browse("Q1")]
        assert shown == [(m.body, m.backouts) for m in self.model.visible(now_ms)]
        self.model.discard_expired(now_ms)
        counts = self.manager.counts("Q1")
        locked = sum(m.is_locked for m in self.model.messages)
        assert (counts.live, counts.staged, counts.locked, counts.expired_present) == (
            len(shown),
            len(self.model.messages) - len(shown) - locked,
            locked,
            0,
        )

    def put_off(self, messages: list[Held]) -> None:
        """Back messages out in the model."""
        for message in messages:
            message.is_locked = False
            message.backouts += 1
            delay_ms = DELAYS_MS[min(message.backouts, 3) - 1]
            message.ready_at_ms = self.clock.now_ms() + delay_ms

    def teardown(self) -> None:
        assert self.manager.verify().ok
        self.manager.close()
        shutil.rmtree(self.folder)


@pytest.mark.slow
def test_D32_redeliveries_are_when_the_model_says_over_restarts() -> None:
    run_state_machine_as_test(
        RedeliveryMachine,
        settings=settings(
            max_examples=examples(200),
            stateful_step_count=30,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
