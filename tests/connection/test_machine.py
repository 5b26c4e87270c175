"""A model of gets that stand, are cancelled and deliver, against the queue manager."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mayfly import QueueManager
from mayfly.client.connection import LocalConnection
from mayfly.client.connection.interface import UnderWay
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement
from tests.connection.scene import BOTH_WAYS, put
from tests.examples import examples

ONE_OF_MANY = st.integers(0, 9)


@dataclass
class Message:
    """One message of the model."""

    body: bytes
    end_ms: int | None
    backouts: int = 0


@dataclass
class Get:
    """A standing get: what it was told, and what it should have been told."""

    number: int
    end_ms: int | None
    under_way: UnderWay | None = None
    told: str = ""
    expected: str = ""


class ConsumerState(RuleBasedStateMachine):
    """One connection; callbacks come before the verb or the advance that leads to them returns."""

    @initialize()
    def begin(self) -> None:
        self.clock = VirtualClock()
        self.manager = QueueManager("QM1", clock=self.clock)
        assert self.manager.mqsc("DEFINE QLOCAL(Q1)").ok
        self.connection = LocalConnection(self.manager.session(), self.manager)
        self.queue = self.connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        self.messages: list[Message] = []
        self.gets: list[Get] = []
        self.held: dict[int, tuple[int, Message]] = {}
        self.count = 0

    @rule(life_ms=st.sampled_from((None, 500, 5_000)))
    def put(self, life_ms: int | None) -> None:
        self.count += 1
        body = b"%d" % self.count
        end_ms = None if life_ms is None else self.clock.now_ms() + life_ms
        self.messages.append(Message(body, end_ms))
        self.deliver()
        put(self.connection, self.queue, body, time_to_live_ms=life_ms)

    @rule(wait_ms=st.sampled_from((0, 1_000, 10_000, -1)))
    def get(self, wait_ms: int) -> None:
        end_ms = None if wait_ms < 0 else self.clock.now_ms() + wait_ms
        get = Get(len(self.gets), end_ms)
        self.gets.append(get)
        self.deliver()
        if not get.expected and wait_ms == 0:
            get.expected = "nothing"
        get.under_way = self.connection.begin(
            ask.GetAny([self.queue], c.MQGMO_WAIT, wait_ms=wait_ms),
            lambda told: self.tell(get, told),
        )

    @rule(which=ONE_OF_MANY)
    def cancel(self, which: int) -> None:
        if not self.gets:
            return
        get = self.gets[which % len(self.gets)]
        assert get.under_way is not None
        assert get.under_way.cancel() == (not get.expected)
        get.expected = get.expected or "cancelled"
        get.told = get.told or "cancelled"

    @rule(which=ONE_OF_MANY, settlement=st.sampled_from(list(Settlement)[:3]))
    def settle(self, which: int, settlement: Settlement) -> None:
        if not self.held:
            return
        number = sorted(self.held)[which % len(self.held)]
        delivery, message = self.held.pop(number)
        if settlement is not Settlement.TAKEN:
            message.backouts += settlement is Settlement.BACKED_OUT
            self.messages.append(message)
            self.messages.sort(key=lambda each: int(each.body))
            self.deliver()
        self.connection.call(ask.Settle([delivery], settlement))

    @rule(by_ms=st.sampled_from((100, 600, 6_000)))
    def advance(self, by_ms: int) -> None:
        now_ms = self.clock.now_ms() + by_ms
        for get in self.gets:
            if not get.expected and get.end_ms is not None and get.end_ms <= now_ms:
                get.expected = "nothing"
        self.clock.advance(by_ms)

    def deliver(self) -> None:
        """Give each standing get, oldest first, the first message that is alive."""
        now_ms = self.clock.now_ms()
        self.messages = [m for m in self.messages if m.end_ms is None or m.end_ms > now_ms]
        for get in self.gets:
            if not get.expected and self.messages:
                message = self.messages.pop(0)
                get.expected = f"{message.body!r} {message.backouts}"
                self.held[get.number] = (0, message)

    def tell(self, get: Get, outcome: Delivery | MQError) -> None:
        assert not get.told, "told twice, or after its cancel"
        if isinstance(outcome, MQError):
            get.told = "nothing"
            return
        message = outcome.result.message
        get.told = f"{message.body!r} {message.backout_count}"
        self.held[get.number] = (outcome.number, self.held[get.number][1])

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "gets"):
            return
        assert [get.told for get in self.gets] == [get.expected for get in self.gets]
        counts = self.manager.counts("Q1")
        alive = [m for m in self.messages if m.end_ms is None or m.end_ms > self.clock.now_ms()]
        assert (counts.live, counts.locked) == (len(alive), len(self.held))

    def teardown(self) -> None:
        if hasattr(self, "manager"):
            assert self.manager.verify().ok
            self.connection.close()
            assert self.manager.counts("Q1").locked == 0
            self.manager.close()


TestStanding = ConsumerState.TestCase
TestStanding.settings = settings(max_examples=examples(200), stateful_step_count=40)
