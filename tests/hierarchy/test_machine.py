"""A tree of queue managers beside an obvious model: who gets what, once, and what is retained."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
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
from mayfly.engine import PutRequest
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from mayfly.verbs.topic_strings import levels_of, matches
from tests.examples import examples
from tests.hierarchy.conftest import START_MS
from tests.hierarchy.scene import connect, proxies, run

#: LOW is below LEFT, LEFT and RIGHT are below TOP.
NEIGHBOURS = {
    "TOP": ("LEFT", "RIGHT"),
    "LEFT": ("TOP", "LOW"),
    "RIGHT": ("TOP",),
    "LOW": ("LEFT",),
}
managers = st.sampled_from(sorted(NEIGHBOURS))
topics = st.sampled_from(("a", "a/b"))
filters = st.sampled_from(("a", "a/b", "a/#", "#"))
lives_ms = st.sampled_from((None, None, 1_000, 5_000))
#: PutTime tells no shorter time.
TICK_MS = 10


class Copy(NamedTuple):
    """A publication of the model; ``expire_at_ms`` 0 is never; ``only_here`` it never leaves."""

    put_ms: int
    body: bytes
    expire_at_ms: int
    only_here: bool = False

    def is_alive(self, now_ms: int) -> bool:
        """Tell whether it is not expired."""
        return not self.expire_at_ms or now_ms < self.expire_at_ms


class Sub(NamedTuple):
    """A subscription of the model; its queue has its name."""

    name: str
    topic: str
    takes_retained: bool


def behind(manager: str, sender: str) -> list[str]:
    """Return the neighbours of a queue manager, without the one that something came from."""
    return [name for name in NEIGHBOURS[manager] if name != sender]


class TreeMachine(RuleBasedStateMachine):
    """Every subscriber has what the model says, and every queue manager the proxies it needs."""

    @initialize()
    def begin(self) -> None:
        self.clock = VirtualClock(START_MS)
        self.stack = ExitStack()
        self.managers = {
            name: self.stack.enter_context(QueueManager(name, clock=self.clock))
            for name in NEIGHBOURS
        }
        for parent, child in (("TOP", "LEFT"), ("TOP", "RIGHT"), ("LEFT", "LOW")):
            connect(self.managers[parent], self.managers[child])
            for name in (parent, child):
                run(self.managers[name], "ALTER QMGR PSMODE(ENABLED)")
            run(self.managers[child], f"ALTER QMGR PARENT({parent})")
        self.subs: dict[str, list[Sub]] = {name: [] for name in NEIGHBOURS}
        self.got: defaultdict[str, list[Copy]] = defaultdict(list)
        self.retained: dict[str, dict[str, Copy]] = {name: {} for name in NEIGHBOURS}
        self.number = 0

    def wanted(self, manager: str, sender: str) -> set[str]:
        """Return the topic strings on this side of the link to the sender."""
        here = {sub.topic for sub in self.subs[manager]}
        return here.union(*(self.wanted(name, manager) for name in behind(manager, sender)))

    @rule(name=managers, topic=filters, takes_retained=st.sampled_from((True, True, False)))
    def subscribe(self, name: str, topic: str, takes_retained: bool) -> None:
        self.number += 1
        sub = Sub(f"S{self.number}", topic, takes_retained)
        news = {link: self.wanted(*link) for link in self.links()}
        run(self.managers[name], f"DEFINE QLOCAL({sub.name})")
        with self.managers[name].session() as session:
            session.subscribe(
                topic, name=sub.name, durable=True, queue=sub.name, retained=takes_retained
            )
        self.subs[name].append(sub)
        if takes_retained:
            self.got[sub.name] += self.live(name, topic).values()
        new_links = [link for link in news if self.wanted(*link) != news[link]]
        # An announcement goes from the subscriber outwards.
        for asker, asked in sorted(new_links, key=lambda link: self.distance(name, link[0])):
            for about, copy in self.live(asked, topic).items():
                self.take(asker, asked, about, copy, topic)

    def links(self) -> list[tuple[str, str]]:
        """Return who announces to whom."""
        return [(name, other) for name in NEIGHBOURS for other in NEIGHBOURS[name]]

    def distance(self, start: str, end: str, came_from: str = "") -> int:
        """Return how many links are between two queue managers, many if they are not so joined."""
        if start == end:
            return 0
        ways = [self.distance(name, end, start) for name in behind(start, came_from)]
        return 1 + min(ways, default=len(NEIGHBOURS))

    def live(self, name: str, topic: str) -> dict[str, Copy]:
        """Return what a queue manager has retained; what has expired is met, and gone."""
        found, now_ms = self.retained[name], self.clock.now_ms()
        for about in [t for t in found if matches(levels_of(topic), levels_of(t))]:
            if not found[about].is_alive(now_ms):
                del found[about]
        return {t: c for t, c in found.items() if matches(levels_of(topic), levels_of(t))}

    def take(self, name: str, sender: str, about: str, copy: Copy, topic: str) -> None:
        """Let a queue manager get what was retained for a new topic string."""
        here = self.retained[name].get(about)
        if copy.only_here or (here is not None and here.put_ms >= copy.put_ms):
            return
        self.retained[name][about] = copy
        for sub in self.subs[name]:
            if sub.topic == topic and sub.takes_retained:
                self.got[sub.name].append(copy)
        for other in behind(name, sender):
            if topic in self.wanted(other, name):
                self.take(other, name, about, copy, topic)

    @precondition(lambda self: any(self.subs.values()))
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        everybody = [(name, sub) for name, subs in self.subs.items() for sub in subs]
        name, sub = data.draw(st.sampled_from(everybody))
        run(self.managers[name], f"DELETE SUB('{sub.name}')")
        self.subs[name].remove(sub)

    @rule(
        name=managers,
        topic=topics,
        retains=st.sampled_from((True, True, False)),
        ends=st.sampled_from((False, False, False, True)),
        life_ms=lives_ms,
        persistent=st.booleans(),
        only_here=st.sampled_from((False, False, False, True)),
    )
    def publish(
        self,
        name: str,
        topic: str,
        retains: bool,
        ends: bool,
        life_ms: int | None,
        persistent: bool,
        only_here: bool,
    ) -> None:
        self.clock.advance(TICK_MS)
        self.number += 1
        now_ms = self.clock.now_ms()
        body = b"" if ends else b"%d" % self.number
        with self.managers[name].session() as session:
            session.publish_as(
                topic,
                body,
                PutRequest(Descriptor(persistence=int(persistent)), life_ms=life_ms),
                syncpoint=False,
                retain=retains,
                only_here=only_here,
            )
        copy = Copy(now_ms, body, 0 if life_ms is None else now_ms + life_ms, only_here)
        self.arrive(name, "", topic, copy, retains)

    def arrive(self, name: str, sender: str, topic: str, copy: Copy, retains: bool) -> None:
        """Let a publication come to a queue manager, and go on to where somebody wants it."""
        if retains and copy.body:
            self.retained[name][topic] = copy
        elif retains:
            self.retained[name].pop(topic, None)
        for sub in self.subs[name]:
            if matches(levels_of(sub.topic), levels_of(topic)):
                self.got[sub.name].append(copy)
        for other in () if copy.only_here else behind(name, sender):
            wanted = self.wanted(other, name)
            if any(matches(levels_of(string), levels_of(topic)) for string in wanted):
                self.arrive(other, name, topic, copy, retains)

    @rule(step_ms=st.sampled_from((990, 1_000, 4_000)))
    def time_passes(self, step_ms: int) -> None:
        self.clock.advance(step_ms)

    @rule()
    def everybody_is_restarted_in_the_tree(self) -> None:
        for manager in self.managers.values():
            run(manager, "ALTER QMGR PSMODE(COMPAT)")
        for manager in self.managers.values():
            run(manager, "ALTER QMGR PSMODE(ENABLED)")

    @invariant()
    def each_subscriber_has_its_copies(self) -> None:
        now_ms = self.clock.now_ms()
        for name, subs in self.subs.items():
            with self.managers[name].session() as session:
                for sub in subs:
                    found = sorted((m.body, m.remaining_ms or 0) for m in session.browse(sub.name))
                    expected = sorted(
                        (copy.body, copy.expire_at_ms and copy.expire_at_ms - now_ms)
                        for copy in self.got[sub.name]
                        if copy.is_alive(now_ms)
                    )
                    assert found == expected, (name, sub)

    @invariant()
    def proxies_are_what_is_wanted(self) -> None:
        for name, manager in self.managers.items():
            expected = sorted((o, t) for o in NEIGHBOURS[name] for t in self.wanted(o, name))
            assert proxies(manager) == expected

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            for manager in self.managers.values():
                assert manager.verify().ok
            self.stack.close()


@pytest.mark.slow
def test_D25_any_course_of_events() -> None:
    run_state_machine_as_test(
        TreeMachine,
        settings=settings(
            max_examples=examples(25),
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
        ),
    )
