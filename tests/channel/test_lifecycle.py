"""START, STOP, retries, DISCINT, HBINT, BATCHSZ, BATCHINT, restarts; and what MQSC says of it."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.channel import LinkDown
from mayfly.services.trigger_monitor import TriggerMonitor, TriggerOutcome
from mayfly.testing import VirtualClock
from tests.channel.scene import (
    CHANNEL,
    START_MS,
    XMITQ,
    bodies,
    cut_once,
    done,
    put,
    receiving,
    sending,
    standing,
    through,
)


def test_short_retries_come_first_then_long_ones_then_it_stops(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) SHORTRTY(2) SHORTTMR(10) LONGRTY(1) LONGTMR(100)")
    tries: list[int] = []

    def at(where: str) -> None:
        if where == "before connect":
            tries.append(clock.now_ms() - START_MS)
            raise LinkDown("nobody there")

    through(one, at)
    one.channels.start(CHANNEL)
    clock.advance(1_000_000)
    assert tries == [0, 10_000, 20_000, 120_000]
    assert (standing(one).status, standing(one).failure) == ("STOPPED", "nobody there")


def test_START_of_a_channel_that_retries_tries_at_once(
    one: QueueManager, two: QueueManager
) -> None:
    through(one, cut_once("before connect"))
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert standing(one).status == "RETRYING"
    done(one, f"START CHANNEL({CHANNEL})")
    assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])


@pytest.mark.parametrize("mode", ["", "MODE(QUIESCE)", "MODE(FORCE)"])
def test_STOP_lets_nothing_go_until_the_next_START(
    one: QueueManager, two: QueueManager, clock: VirtualClock, mode: str
) -> None:
    one.channels.start(CHANNEL)
    done(one, f"STOP CHANNEL({CHANNEL}) {mode}")
    put(one, b"x")
    clock.advance(10**7)
    assert (standing(one).status, bodies(two), one.curdepth(XMITQ)) == ("STOPPED", [], 1)
    done(one, f"START CHANNEL({CHANNEL})")
    assert bodies(two) == [b"x"]


def test_STOP_of_a_paused_channel_gives_its_batch_back(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(two, "ALTER QLOCAL(IN) PUT(DISABLED)")
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert (standing(one).status, one.counts(XMITQ).locked) == ("PAUSED", 1)
    one.channels.stop(CHANNEL)
    assert (standing(one).status, standing(two).status) == ("STOPPED", "INACTIVE")
    assert (one.counts(XMITQ).locked, bodies(one, XMITQ) != []) == (0, True)


def test_STOP_in_the_midst_of_a_batch_shows_STOPPING_until_the_batch_has_ended(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    seen = []

    def stop(place: str) -> None:
        if place == "behind send":
            done(one, f"STOP CHANNEL({CHANNEL})")
            [shown] = one.mqsc(f"DISPLAY CHSTATUS({CHANNEL}) STATUS").rows
            seen.append((shown["STATUS"], standing(one).status))

    one.channels.start(CHANNEL)
    one.channels.stop(CHANNEL)
    through(one, stop)
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert seen == [("STOPPING", "STOPPING")]
    assert (standing(one).status, bodies(two)) == ("STOPPED", [b"x"])


def test_a_stopped_receiver_refuses_and_its_sender_retries(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    one.channels.start(CHANNEL)
    done(two, f"STOP CHANNEL({CHANNEL})")
    put(one, b"x")
    assert (standing(one).status, standing(two).status) == ("RETRYING", "STOPPED")
    clock.advance(60_000)
    assert "is stopped at QM2" in standing(one).failure
    done(two, f"START CHANNEL({CHANNEL})")
    clock.advance(60_000)
    assert (standing(one).status, bodies(two)) == ("RUNNING", [b"x"])


def test_DISCINT_ends_a_channel_without_work_and_does_not_start_it_again(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) DISCINT(100) HBINT(0)")
    one.channels.start(CHANNEL)
    clock.advance(50_000)
    put(one, b"x")
    clock.advance(99_999)
    assert standing(one).status == "RUNNING"
    clock.advance(1)
    assert standing(one).status == "INACTIVE"
    put(one, b"y")
    assert bodies(two) == [b"x"]


def test_HBINT_finds_out_that_the_partner_is_gone(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    one.channels.start(CHANNEL)
    two.close()
    clock.advance(299_999)
    assert standing(one).status == "RUNNING"
    clock.advance(1)
    assert standing(one).status == "RETRYING"
    with receiving(clock) as again:
        clock.advance(60_000)
        assert standing(one).status == "RUNNING"
        put(one, b"x")
        assert bodies(again) == [b"x"]


@pytest.mark.parametrize(("mine", "theirs", "batches"), [(2, 50, 3), (50, 2, 3), (50, 50, 1)])
def test_the_smaller_BATCHSZ_counts(
    one: QueueManager, two: QueueManager, mine: int, theirs: int, batches: int
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) BATCHSZ({mine})")
    done(two, f"ALTER CHANNEL({CHANNEL}) BATCHSZ({theirs})")
    for body in (b"a", b"b", b"c", b"d", b"e"):
        put(one, body)
    one.channels.start(CHANNEL)
    assert bodies(two) == [b"a", b"b", b"c", b"d", b"e"]
    assert (standing(one).batch_count, standing(two).batch_count) == (batches, batches)


def test_BATCHINT_keeps_a_batch_open_for_more(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) BATCHINT(1000) BATCHSZ(3)")
    one.channels.start(CHANNEL)
    put(one, b"a", time_to_live_ms=20_000)
    clock.advance(999)
    put(one, b"b")
    assert bodies(two) == []
    clock.advance(1)
    assert (bodies(two), standing(one).batch_count) == ([b"a", b"b"], 1)
    for body in (b"c", b"d", b"e"):
        put(one, body)
    # It was full before its time.
    assert (len(bodies(two)), standing(one).batch_count) == (5, 2)
    assert one.counts(XMITQ).locked == 0


def test_GET_DISABLED_on_the_transmission_queue_makes_it_retry(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(one, f"ALTER QLOCAL({XMITQ}) GET(DISABLED)")
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert (standing(one).status, bodies(two)) == ("RETRYING", [])
    done(one, f"ALTER QLOCAL({XMITQ}) GET(ENABLED)")
    clock.advance(60_000)
    assert bodies(two) == [b"x"]


@pytest.mark.parametrize("xmitq", ["MISSING", "BACK"])
def test_without_a_transmission_queue_it_retries(
    one: QueueManager, two: QueueManager, xmitq: str
) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) XMITQ({xmitq})\nSTART CHANNEL({CHANNEL})")
    assert standing(one).status == "RETRYING"


def test_the_queue_belongs_to_the_channel_while_it_runs(
    one: QueueManager, two: QueueManager
) -> None:
    one.channels.start(CHANNEL)
    assert not one.mqsc(f"DELETE QLOCAL({XMITQ})").ok
    assert not one.mqsc(f"DELETE CHANNEL({CHANNEL})").ok
    one.channels.stop(CHANNEL)
    done(one, f"DELETE CHANNEL({CHANNEL})\nDELETE QLOCAL({XMITQ})")
    assert one.engine.channel_states.states() == []


def test_a_channel_that_ran_starts_with_its_queue_manager(
    clock: VirtualClock, two: QueueManager, tmp_path: Path
) -> None:
    with sending(clock, tmp_path) as one:
        one.channels.start(CHANNEL)
        put(one, b"a")
    with QueueManager("QM1", tmp_path, clock) as one:
        put(one, b"b")
        assert (standing(one).status, bodies(two)) == ("RUNNING", [b"a", b"b"])
        one.channels.stop(CHANNEL)
    with QueueManager("QM1", tmp_path, clock) as one:
        put(one, b"c")
        assert (standing(one).status, bodies(two)) == ("STOPPED", [b"a", b"b"])


def test_a_receiver_defined_anew_is_not_stopped_like_the_deleted_one(
    one: QueueManager, two: QueueManager
) -> None:
    done(
        two,
        f"STOP CHANNEL({CHANNEL})\nDELETE CHANNEL({CHANNEL})\n"
        f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(RCVR)",
    )
    one.channels.start(CHANNEL)
    assert standing(one).status == "RUNNING"


def test_the_status_of_a_receiver_is_that_of_the_present_one(
    one: QueueManager, two: QueueManager
) -> None:
    one.channels.start(CHANNEL)
    assert standing(two).status == "RUNNING"
    put(one, b"x")
    assert standing(two).sequence == 1
    done(two, f"RESET CHANNEL({CHANNEL}) SEQNUM(10)")
    assert (standing(two).status, standing(two).sequence) == ("INACTIVE", 9)
    done(two, f"DELETE CHANNEL({CHANNEL})\nDEFINE CHANNEL({CHANNEL}) CHLTYPE(RCVR)")
    assert two.channels.status(CHANNEL) == []


def test_a_MAXUMSGS_that_becomes_smaller_makes_smaller_batches_and_no_dead_letters(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    one.channels.start(CHANNEL)
    done(two, "ALTER QMGR MAXUMSGS(3)")
    with one.session(transacted=True) as session:
        for n in range(7):
            session.put("IN@QM2", b"%d" % n, persistent=True)
        session.commit()
    assert (standing(one).status, bodies(two)) == ("RETRYING", [])
    clock.advance(60_000)
    assert bodies(two) == [b"%d" % n for n in range(7)]
    assert two.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 0
    assert standing(one).batch_count == 3


def test_T2_a_running_channel_has_a_FIRST_queue_open_and_its_end_lets_it_trigger_again(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    done(
        one,
        "DEFINE QLOCAL(INITQ)\n"
        f"ALTER QLOCAL({XMITQ}) TRIGGER TRIGTYPE(FIRST) INITQ(INITQ) TRIGDATA('{CHANNEL}')",
    )
    programs = {"": lambda trigger: one.channels.start_triggered(trigger.trigger_data)}
    with TriggerMonitor(one, "INITQ", programs) as monitor:
        put(one, b"1")
        assert (bodies(two), monitor.run_once()[TriggerOutcome.STARTED]) == ([], 1)
        put(one, b"2")
        assert (bodies(two), one.curdepth("INITQ")) == ([b"1", b"2"], 0)
        clock.advance(6_000_000)
        assert (standing(one).status, one.curdepth("INITQ")) == ("INACTIVE", 0)
        put(one, b"3")
        assert monitor.run_once()[TriggerOutcome.STARTED] == 1
    assert bodies(two) == [b"1", b"2", b"3"]


def test_with_the_clock_of_the_machine_it_runs_on_its_own_thread(tmp_path: Path) -> None:
    with receiving(None, tmp_path / "2") as two, sending(None, tmp_path / "1") as one:
        one.channels.start(CHANNEL)
        with two.session() as session:
            for number in range(20):
                put(one, str(number).encode(), persistent=bool(number % 2))
                got = session.get("IN", wait_ms=60_000)
                assert got is not None
                assert got.body == str(number).encode()
        one.channels.stop(CHANNEL)
        assert one.verify().ok
        assert two.verify().ok


@pytest.mark.slow
def test_two_channels_in_opposite_directions_do_not_hold_each_other_up(tmp_path: Path) -> None:
    """Each has its thread, and neither holds a lock of its own queue manager while it calls."""
    with receiving(None, tmp_path / "2") as two, sending(None, tmp_path / "1") as one:
        done(two, "DEFINE CHANNEL(HOME) CHLTYPE(SDR) CONNAME(QM1) XMITQ(QM1)")
        done(one, "DEFINE CHANNEL(HOME) CHLTYPE(RCVR)")
        one.channels.start(CHANNEL)
        two.channels.start("HOME")
        with one.session() as here, two.session() as there:
            for _ in range(100):
                here.put("IN@QM2", b"there", persistent=True)
                there.put("BACK@QM1", b"here", persistent=True)
            for _ in range(100):
                assert there.get("IN", wait_ms=60_000) is not None
                assert here.get("BACK", wait_ms=60_000) is not None


def test_a_closed_queue_manager_with_channels_is_not_kept_in_memory() -> None:
    clock = VirtualClock(START_MS)
    with receiving(clock), sending(clock) as one:
        one.channels.start(CHANNEL)
        put(one, b"x")
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_MQSC_shows_definitions_and_status(one: QueueManager, two: QueueManager) -> None:
    assert "AMQ8420I: Channel Status not found." in one.mqsc("DISPLAY CHSTATUS(*)").text
    put(one, b"x")
    assert "AMQ8018I: Start IBM MQ channel accepted." in done(one, f"STA CHL({CHANNEL})")
    [row] = one.mqsc(f"DISPLAY CHSTATUS({CHANNEL})").rows
    luw = row["LSTLUWID"]
    assert row == {
        "CHANNEL": CHANNEL,
        "CHLTYPE": "SDR",
        "STATUS": "RUNNING",
        "CONNAME": "QM2",
        "RQMNAME": "QM2",
        "XMITQ": XMITQ,
        "MSGS": 1,
        "BATCHES": 1,
        "BYTSSENT": 0,
        "BYTSRCVD": 0,
        "HBINT": 300,
        "CURSEQNO": 1,
        "LSTSEQNO": 1,
        "CURLUWID": luw,
        "LSTLUWID": luw,
        "INDOUBT": "NO",
        "SHORTRTS": 10,
        "LONGRTS": 999_999_999,
        "FAILURE": "",
    }
    [row] = two.mqsc(f"DIS CHS({CHANNEL}) LSTLUWID WHERE(STATUS EQ RUNNING)").rows
    assert row == {
        "CHANNEL": CHANNEL,
        "CHLTYPE": "RCVR",
        "STATUS": "RUNNING",
        "LSTLUWID": luw,
    }
    [row] = two.mqsc("DISPLAY CHANNEL(*) TYPE(RCVR) MCAUSER MRRTY").rows
    assert row == {"CHANNEL": CHANNEL, "CHLTYPE": "RCVR", "MCAUSER": "", "MRRTY": 10}
    assert "AMQ8019I: Stop IBM MQ channel accepted." in done(one, f"STOP CHANNEL({CHANNEL})")


def test_PING_says_whether_the_partner_would_answer(one: QueueManager, two: QueueManager) -> None:
    ping = f"PING CHANNEL({CHANNEL})"
    assert "AMQ8020I: Ping IBM MQ channel complete." in done(one, ping)
    done(two, f"DELETE CHANNEL({CHANNEL})")
    assert f"AMQ9519E: Channel '{CHANNEL}' not found." in one.mqsc(ping).text
    two.close()
    result = one.mqsc(ping)
    assert not result.ok
    assert "queue manager 'QM2' is not open in this process" in result.text


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("DEFINE CHANNEL(C) CHLTYPE(CLUS)", "it must be SDR or RCVR"),
        ("DEFINE CHANNEL(C) CHLTYPE(SDR) TRPTYPE(LU62)", "it must be LOCAL or TCP"),
        ("DEFINE CHANNEL(C)", "CHLTYPE is missing"),
        ("DEFINE CHANNEL(C) CHLTYPE(SDR) CONNAME(QM2)", "XMITQ is missing"),
        ("DEFINE CHANNEL(C) CHLTYPE(SDR) XMITQ(Q)", "CONNAME is missing"),
        ("DEFINE CHANNEL(C) CHLTYPE(RCVR) XMITQ(Q)", "not a keyword of CHANNEL CHLTYPE(RCVR)"),
        (f"DEFINE CHANNEL({'C' * 21}) CHLTYPE(RCVR)", "21 characters long; it may have 20"),
        (f"ALTER CHANNEL({CHANNEL}) CHLTYPE(RCVR)", "CHLTYPE cannot be changed"),
        (f"ALTER CHANNEL({CHANNEL}) XMITQ('')", "a sender needs it"),
        (f"ALTER CHANNEL({CHANNEL}) MRRTY(1)", "not a keyword of CHANNEL CHLTYPE(SDR)"),
        (f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(RCVR) REPLACE", "is a channel of another CHLTYPE"),
        (f"STOP CHANNEL({CHANNEL}) MODE(SOON)", "it must be QUIESCE or FORCE"),
        (f"RESOLVE CHANNEL({CHANNEL})", "ACTION is missing"),
        (f"RESET CHANNEL({CHANNEL}) SEQNUM(0)", "it must be 1 to 999999999"),
        ("START CHANNEL(NONE)", "IBM MQ object NONE not found"),
        ("STOP CHANNEL(NONE)", "IBM MQ object NONE not found"),
    ],
)
def test_wrong_commands_name_what_is_wrong(one: QueueManager, command: str, text: str) -> None:
    result = one.mqsc(command)
    assert not result.ok
    assert text in result.text


def test_LIKE_and_REPLACE_keep_what_is_not_given(one: QueueManager) -> None:
    done(one, f"ALTER CHANNEL({CHANNEL}) BATCHSZ(7)")
    done(one, f"DEFINE CHANNEL(ALIKE) CHLTYPE(SDR) LIKE({CHANNEL}) CONNAME(QM3)")
    done(one, f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SDR) DESCR('x') REPLACE")
    rows = one.mqsc("DISPLAY CHANNEL(*) TYPE(SDR) BATCHSZ CONNAME DESCR").rows
    assert [(r["CHANNEL"], r["BATCHSZ"], r["CONNAME"], r["DESCR"]) for r in rows] == [
        ("ALIKE", 7, "QM3", ""),
        (CHANNEL, 7, "QM2", "x"),
    ]
