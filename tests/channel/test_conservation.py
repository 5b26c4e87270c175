"""Whatever is cut, killed or late, and in whatever order: each persistent message is there once."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mayfly import QueueManager
from mayfly.channel import LinkDown
from mayfly.engine.queues import PERSISTENT
from mayfly.mqi.structures import XQH
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    START_MS,
    XMITQ,
    bodies,
    cut_once,
    put,
    receiving,
    sending,
    standing,
    through,
)
from tests.channel.test_doubt import IN_DOUBT, PLACES
from tests.examples import examples
from tests.snapshots import on_a_snapshot


def after_a_crash(manager: QueueManager, folder: Path) -> None:
    """Copy to a new folder what a queue manager's disk holds now; then do away with the old one."""
    assert manager.engine.store.folder is not None
    # A process of its own: to close a file of SQLite's in this one would drop its locks.
    subprocess.run(["cp", "-r", str(manager.engine.store.folder), str(folder)], check=True)
    manager.close()


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dies", ["one", "two", "both"])
def test_who_dies_in_the_middle_of_a_batch_settles_it_when_it_is_back(
    tmp_path: Path, place: str, dies: str
) -> None:
    clock = VirtualClock(START_MS)
    one, two = sending(clock, tmp_path / "1"), receiving(clock, tmp_path / "2")
    through(one, cut_once(place))
    for body in (b"a", b"b", b"c"):
        put(one, body)
    one.channels.start(CHANNEL)
    if dies in ("two", "both"):
        after_a_crash(two, tmp_path / "22")
        two = QueueManager("QM2", tmp_path / "22", clock, runtime=on_a_snapshot())
    if dies in ("one", "both"):
        after_a_crash(one, tmp_path / "11")
        one = QueueManager("QM1", tmp_path / "11", clock, runtime=on_a_snapshot())
    clock.advance(60_000)
    assert bodies(two) == [b"a", b"b", b"c"]
    assert (one.curdepth(XMITQ), standing(one).is_in_doubt) == (0, False)
    assert standing(one).sequence == 3
    for manager in (one, two):
        assert manager.verify().ok
        manager.close()


@pytest.mark.slow
@pytest.mark.parametrize("place", IN_DOUBT)
def test_what_is_in_doubt_is_hidden_from_the_moment_its_queue_manager_is_open(
    tmp_path: Path, place: str
) -> None:
    clock = VirtualClock(START_MS)
    with receiving(clock, tmp_path / "2"):
        one = sending(clock, tmp_path / "1")
        through(one, cut_once(place))
        put(one, b"x", time_to_live_ms=5_000)
        one.channels.start(CHANNEL)
        after_a_crash(one, tmp_path / "11")
    # Its partner is away, and its life is over.
    clock.advance(10_000)
    with QueueManager("QM1", tmp_path / "11", clock, runtime=on_a_snapshot()) as one:
        status = standing(one)
        assert (status.status, status.is_in_doubt) == ("RETRYING", True)
        assert (bodies(one, XMITQ), one.counts(XMITQ).locked, one.curdepth(XMITQ)) == ([], 1, 0)
        assert one.verify().ok
        one.channels.resolve(CHANNEL, is_committed=False)
        assert (one.counts(XMITQ).locked, one.curdepth(XMITQ)) == (0, 1)
        assert bodies(one, XMITQ) == []
        assert one.verify().ok


class TwoManagers(RuleBasedStateMachine):
    """Puts, gets, time, cuts and crashes in any order; a list of bodies is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="mayfly-channel-"))
        self.clock = VirtualClock(START_MS)
        self.generation = 0
        self.armed = ""
        self.error: Exception = LinkDown("cut")
        self.is_receiver_stopped = False
        #: Body -> its deadline.
        self.put_so_far: dict[bytes, int | None] = {}
        self.got: list[bytes] = []
        self.one = sending(self.clock, self.folder / "1", BATCHSZ=3)
        self.two = receiving(self.clock, self.folder / "2")
        through(self.one, self.at)
        self.one.channels.start(CHANNEL)

    def at(self, where: str) -> None:
        if where == self.armed:
            self.armed = ""
            raise self.error

    @rule(life_ms=st.sampled_from([None, None, 30_000, 90_000]), count=st.integers(1, 5))
    def puts(self, life_ms: int | None, count: int) -> None:
        with self.one.session(transacted=True) as session:
            for _ in range(count):
                body = str(len(self.put_so_far)).encode()
                session.put("IN@QM2", body, persistent=True, time_to_live_ms=life_ms)
                self.put_so_far[body] = None if life_ms is None else self.clock.now_ms() + life_ms

    @rule()
    def gets(self) -> None:
        with self.two.session() as session:
            message = session.get("IN")
        if message is not None:
            self.got.append(message.body)

    @rule(
        place=st.sampled_from([*PLACES, *IN_DOUBT]),
        count=st.integers(1, 5),
        error=st.sampled_from([LinkDown("cut"), OSError(104, "reset"), ValueError("no such verb")]),
    )
    def is_cut_while_it_sends(self, place: str, count: int, error: Exception) -> None:
        self.stops(is_forced=False)
        through(self.one, self.at)
        self.armed, self.error = place, error
        self.starts()
        self.puts(life_ms=None, count=count)
        if self.armed == "" and isinstance(error, ValueError):
            assert standing(self.one).status == "STOPPED"

    @rule(ms=st.sampled_from([1, 20_000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule()
    def the_sender_dies(self) -> None:
        self.generation += 1
        folder = self.folder / f"1.{self.generation}"
        after_a_crash(self.one, folder)
        self.one = QueueManager("QM1", folder, self.clock, runtime=on_a_snapshot())
        through(self.one, self.at)

    @rule()
    def the_receiver_dies(self) -> None:
        self.generation += 1
        folder = self.folder / f"2.{self.generation}"
        after_a_crash(self.two, folder)
        self.two = QueueManager("QM2", folder, self.clock, runtime=on_a_snapshot())

    @rule()
    def starts(self) -> None:
        self.one.channels.start(CHANNEL)

    @rule(is_forced=st.booleans())
    def stops(self, is_forced: bool) -> None:
        self.one.channels.stop(CHANNEL, is_forced=is_forced)

    @rule()
    def the_receiver_is_stopped_or_started(self) -> None:
        self.is_receiver_stopped = not self.is_receiver_stopped
        verb = "STOP" if self.is_receiver_stopped else "START"
        assert self.two.mqsc(f"{verb} CHANNEL({CHANNEL})").ok

    @invariant()
    def a_stopped_receiver_takes_nothing_whoever_dies(self) -> None:
        stopped = [s.status for s in self.two.channels.status(CHANNEL)] == ["STOPPED"]
        assert stopped == self.is_receiver_stopped

    @invariant()
    def nothing_is_doubled_and_nothing_is_lost(self) -> None:
        arrived = Counter([*self.got, *bodies(self.two)])
        assert all(count == 1 for count in arrived.values()), arrived
        there = arrived.keys() | self.waiting()
        now_ms = self.clock.now_ms()
        for body, deadline_ms in self.put_so_far.items():
            assert body in there or (deadline_ms is not None and deadline_ms <= now_ms), body

    def waiting(self) -> set[bytes]:
        """Return what the transmission queue holds, hidden or not."""
        queue = self.one.engine.registry.queue(XMITQ)
        rows = self.one.engine.messages(PERSISTENT).in_order(queue.low, queue.high, 10_000)
        return {row.body[XQH.length(1) :] for row in rows}

    def teardown(self) -> None:
        self.armed = ""
        if self.is_receiver_stopped:
            self.the_receiver_is_stopped_or_started()
        # Anew, or the end of HBINT may find out just now that the receiver has died.
        self.one.channels.stop(CHANNEL)
        self.one.channels.start(CHANNEL)
        self.clock.advance(60_000)
        assert self.one.curdepth(XMITQ) == 0
        assert standing(self.one).status == "RUNNING"
        self.nothing_is_doubled_and_nothing_is_lost()
        for manager in (self.one, self.two):
            found = manager.verify()
            assert found.ok, found.problems
            manager.close()
        shutil.rmtree(self.folder)


TestTwoManagers = pytest.mark.slow(TwoManagers.TestCase)
TestTwoManagers.settings = settings(max_examples=examples(8), stateful_step_count=20)
