"""A trickle: transmissions and pulls at an interval of the clock (M6, M7, M12, M13)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from mayfly.everyplace import (
    EveryplaceQueueManager,
    Link,
    MessageFields,
    QueueEntry,
    QueueRule,
    SkewedClock,
)
from mayfly.lifetime.everyplace import next_trickle_ms
from mayfly.mqi import reasons as rc
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from tests.everyplace.scene import START_MS, Remembering, refused, seen, take, text, text_of

INTERVAL_MS = 30_000
#: How long a test waits for another thread before it fails.
PATIENCE_SECONDS = 60


def asynchronous(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, rule: QueueRule | None = None
) -> None:
    """Define queue Q at B, and the asynchronous way to it at A."""
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True, rule=rule)


@pytest.mark.parametrize(("late_ms", "is_there"), [(-1, False), (0, True), (1, True)])
def test_M12_a_trickle_sends_both_stages_at_its_interval(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    late_ms: int,
    is_there: bool,
) -> None:
    asynchronous(a, b)
    a.start_trickle(INTERVAL_MS)
    a.put_message("Q", text(clock, "1"))
    clock.advance(INTERVAL_MS + late_ms)
    assert seen(b) == (["1"] if is_there else [])
    assert a.inquire_queue_size("Q") == (0 if is_there else 1)
    a.put_message("Q", text(clock, "2"))
    clock.advance(INTERVAL_MS)
    assert seen(b) == ["1", "2"]


def test_M6_a_trickle_pulls_what_a_home_server_keeps(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    b.create_remote_queue("Q", "A", asynchronous=True)
    a.create_home_server_queue("Q", "B")
    b.put_message("Q", text(clock))
    a.start_trickle(INTERVAL_MS)
    clock.advance(INTERVAL_MS - 1)
    assert seen(a) == []
    clock.advance(1)
    assert (seen(a), b.inquire_queue_size("Q", "A")) == (["x"], 0)


def test_M7_what_has_expired_by_the_next_run_is_not_sent(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    rule: Remembering,
) -> None:
    asynchronous(a, b, rule)
    a.start_trickle(INTERVAL_MS)
    a.put_message("Q", text(clock, "short", relative_ms=INTERVAL_MS))
    a.put_message("Q", text(clock, "long", relative_ms=INTERVAL_MS + 1))
    clock.advance(INTERVAL_MS - 1)
    assert rule.expired == []
    clock.advance(1)
    assert (rule.expired, seen(b)) == (["short"], ["long"])


def test_M13_on_a_cut_link_everything_waits_for_a_later_run(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    a.start_trickle(INTERVAL_MS)
    link.cut()
    a.put_message("Q", text(clock, "1"))
    clock.advance(10 * INTERVAL_MS)
    assert (seen(a), seen(b)) == (["1"], [])
    link.restore()
    clock.advance(INTERVAL_MS)
    assert (seen(a), seen(b)) == ([], ["1"])


def test_M12_a_queue_that_cannot_be_transmitted_holds_no_other_up(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    a.create_remote_queue("FAR", "NOBODY", asynchronous=True)
    a.create_home_server_queue("HERE", "B")
    asynchronous(a, b)
    a.put_message("FAR", text(clock, "waits"))
    a.put_message("Q", text(clock, "goes"))
    a.start_trickle(INTERVAL_MS)
    clock.advance(INTERVAL_MS)
    assert (seen(a, "FAR"), seen(b)) == (["waits"], ["goes"])
    assert "B keeps nothing for 'HERE' of A" in caplog.text


def test_another_interval_replaces_the_first_and_stop_ends_it(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    asynchronous(a, b)
    a.start_trickle(INTERVAL_MS)
    a.start_trickle(2 * INTERVAL_MS)
    a.put_message("Q", text(clock, "1"))
    clock.advance(2 * INTERVAL_MS - 1)
    assert seen(b) == []
    clock.advance(1)
    assert seen(b) == ["1"]
    a.stop_trickle()
    a.stop_trickle()
    a.put_message("Q", text(clock, "2"))
    clock.advance(100 * INTERVAL_MS)
    assert (seen(a), seen(b)) == (["2"], ["1"])


def test_intervals_are_counted_on_the_clock_that_drives_and_missed_runs_are_not_made_up_for(
    clock: VirtualClock,
) -> None:
    runs: list[int] = []

    class Note(QueueRule):
        def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
            runs.append(clock.now_ms() - START_MS)
            return False

    slow = SkewedClock(clock)
    a = EveryplaceQueueManager("A", slow)
    a.create_remote_queue("Q", "B", asynchronous=True, rule=Note())
    a.put_message("Q", text(clock))
    a.start_trickle(10)
    clock.advance(25)
    # The clock of the machine is ahead: intervals are counted on the one that drives.
    slow.skew_ms = 1_000
    clock.advance(25)
    assert runs == [10, 20, 30, 40, 50]
    assert [next_trickle_ms(100, 10, now) for now in (100, 109, 110, 137)] == [110, 110, 120, 140]


def test_a_folder_does_not_remember_it_and_a_closed_queue_manager_has_none(
    clock: VirtualClock, tmp_path: Path
) -> None:
    b = EveryplaceQueueManager("B", clock)
    with EveryplaceQueueManager("A", clock, tmp_path) as a:
        a.connect(b)
        asynchronous(a, b)
        a.start_trickle(INTERVAL_MS)
        a.put_message("Q", text(clock))
    clock.advance(INTERVAL_MS)
    refused(rc.MQRC_CONNECTION_BROKEN, lambda: a.start_trickle(INTERVAL_MS))
    with EveryplaceQueueManager("A", clock, tmp_path) as a:
        a.connect(b)
        clock.advance(INTERVAL_MS)
        assert (seen(a), seen(b)) == (["x"], [])
        a.start_trickle(INTERVAL_MS)
        clock.advance(INTERVAL_MS)
        assert (seen(a), seen(b)) == ([], ["x"])


def test_a_rule_may_stop_the_trickle_that_called_it(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, link: Link, clock: VirtualClock
) -> None:
    class Stop(QueueRule):
        def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
            entry.owner.stop_trickle()
            return True

    asynchronous(a, b, Stop())
    a.start_trickle(INTERVAL_MS)
    for said in ("1", "2"):
        a.put_message("Q", text(clock, said))
        clock.advance(INTERVAL_MS)
    assert (seen(a), seen(b)) == (["2"], ["1"])


@pytest.mark.parametrize("interval_ms", [0, -1, 1.5, True, "1", None, 2**63])
def test_an_interval_that_is_none_is_refused_and_the_old_one_goes_on(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    link: Link,
    clock: VirtualClock,
    interval_ms: Any,
) -> None:
    asynchronous(a, b)
    a.start_trickle(INTERVAL_MS)
    said = refused(rc.MQRC_OPTIONS_ERROR, lambda: a.start_trickle(interval_ms))
    assert f"interval_ms {interval_ms!r}" in said
    a.put_message("Q", text(clock))
    clock.advance(INTERVAL_MS)
    assert seen(b) == ["x"]


def test_a_clock_that_only_tells_the_time_cannot_drive_it() -> None:
    class Watch:
        def now_ms(self) -> int:
            return START_MS

    a = EveryplaceQueueManager("A", Watch())
    said = refused(rc.MQRC_OPTIONS_ERROR, lambda: a.start_trickle(INTERVAL_MS))
    assert "drives nothing" in said


def test_M12_on_the_clock_of_the_machine_threads_put_and_get_while_it_sends(
    home: Path | None,
) -> None:
    """Each message comes once: verbs of both queue managers take turns with the trickle."""
    count = 100
    clock = SystemClock()
    folders = [home and home / name for name in "AB"]
    with (
        EveryplaceQueueManager("A", clock, folders[0]) as a,
        EveryplaceQueueManager("B", clock, folders[1]) as b,
    ):
        a.connect(b)
        asynchronous(a, b)
        b.create_remote_queue("BACK", "A", asynchronous=True)
        a.create_queue("BACK")
        for manager in (a, b):
            manager.start_trickle(1)
        got: list[str] = []
        answers: list[str] = []

        def answer() -> None:
            while len(got) < count:
                message = b.get_message("Q")
                if message is not None:
                    got.append(text_of(message))
                    b.put_message("BACK", text(clock, f"re {got[-1]}"))

        def hear() -> None:
            while len(answers) < count:
                message = a.get_message("BACK")
                if message is not None:
                    answers.append(text_of(message))

        threads = [threading.Thread(target=work, daemon=True) for work in (answer, hear)]
        for thread in threads:
            thread.start()
        for number in range(count):
            a.put_message("Q", text(clock, str(number)))
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), (got, answers)
        assert got == [str(number) for number in range(count)]
        assert answers == [f"re {number}" for number in range(count)]
        assert take(a, "BACK") == take(b) == "-"
