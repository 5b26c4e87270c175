"""Many messages by one get: one transaction with one sync, and the rules of gets for each of them.

That they are those of a loop of gets is what ``test_get_many_machine`` proves.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from mayfly import QueueManager
from mayfly.engine import LONGEST_MESSAGE_BYTES, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import OptionsError
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.sharing.scene import Sharing
from tests.spec.authority_scene import connect, grant
from tests.spec.scene import (
    INPUT,
    REPLIES,
    STAGING,
    Running,
    alter,
    alter_manager,
    bodies,
    ends,
    local,
    refused,
    take,
    waiting,
)
from tests.store.scene import failing_disk

ROOT = Path(__file__).parents[2]
SIDES = pytest.mark.parametrize("persistent", [False, True])
UNITS = pytest.mark.parametrize("transacted", [False, True])
LIFE_MS = 1_000
MAX_MESSAGES, MAX_BYTES = 10_000, 16 * 1024 * 1024


def texts(found: list[Message]) -> list[bytes]:
    return [message.body for message in found]


def fill(session: Session, count: int, **more: Any) -> list[bytes]:
    """Put messages on Q1 whose bodies are their numbers; return the bodies."""
    numbered = [b"%d" % number for number in range(count)]
    for text in numbered:
        session.put("Q1", text, **more)
    return numbered


@UNITS
def test_G1_many_come_by_priority_and_arrival_from_both_sides(
    on_clock: QueueManager, transacted: bool
) -> None:
    with on_clock.session() as putter, on_clock.session(transacted=transacted) as session:
        assert session.get_many("Q1", 3) == []
        for number, priority in enumerate((4, 9, 4, 0, 9, 4)):
            putter.put("Q1", b"%d" % number, priority=priority, persistent=number % 2 == 0)
        found = session.get_many("Q1", 4)
        assert texts(found) == [b"1", b"4", b"0", b"2"]
        assert [message.priority for message in found] == [9, 9, 4, 4]
        assert [message.persistent for message in found] == [False, True, True, True]
        assert on_clock.curdepth("Q1") == 2
        assert texts(session.get_many("Q1", 4)) == [b"5", b"3"]
        assert session.get_many("Q1", 4) == []


@SIDES
def test_G8_a_backout_gives_all_back_with_their_counts(
    on_clock: QueueManager, persistent: bool
) -> None:
    with on_clock.session() as putter, on_clock.session(transacted=True) as unit:
        numbered = fill(putter, 6, persistent=persistent)
        assert texts(unit.get_many("Q1", 4)) == numbered[:4]
        # Nobody else sees what the unit holds.
        assert texts(putter.get_many("Q1", 1)) == [b"4"]
        unit.backout()
        found = putter.get_many("Q1", 10)
        assert [(m.body, m.backout_count) for m in found] == [
            *((text, 1) for text in numbered[:4]),
            (b"5", 0),
        ]


@pytest.mark.parametrize("most", [0, -1, True, False, None, 1.0, "1", MAX_MESSAGES + 1], ids=repr)
def test_most_is_a_number_of_messages(on_clock: QueueManager, most: Any) -> None:
    with on_clock.session() as session:
        session.put("Q1", b"x")
        with pytest.raises(OptionsError) as caught:
            session.get_many("Q1", most)
        assert caught.value.reason == rc.MQRC_OPTIONS_ERROR
        assert caught.value.detail == f"most {most!r} is no number from 1 to 10000"
        assert texts(session.get_many("Q1", MAX_MESSAGES)) == [b"x"]


@UNITS
def test_an_answer_ends_when_its_bodies_are_enough(
    on_clock: QueueManager, transacted: bool
) -> None:
    """The message that reaches the limit is part of it, however long."""
    alter(on_clock, "Q1", MAXMSGL=LONGEST_MESSAGE_BYTES)
    alter_manager(on_clock, MAXMSGL=LONGEST_MESSAGE_BYTES)
    with on_clock.session() as putter, on_clock.session(transacted=transacted) as session:
        for size in (MAX_BYTES - 1, 2, 3, 4):
            putter.put("Q1", bytes(size))
        assert [len(m.body) for m in session.get_many("Q1", 10)] == [MAX_BYTES - 1, 2]
        assert [len(m.body) for m in session.get_many("Q1", 10)] == [3, 4]


def test_a_turn_of_the_lock_takes_a_bounded_number(on_clock: QueueManager) -> None:
    """Each turn tells what leaves once."""
    turns = list[int]()
    with on_clock.session() as putter, on_clock.session(transacted=True) as unit:
        for _ in range(3):
            putter.put("Q1", bytes(700_000))
        fill(putter, 300)
        on_clock.engine.on_departure.append(lambda keys: turns.append(len(keys)))
        assert len(unit.get_many("Q1", 1_000)) == 303
        assert turns == [2, 128, 128, 45]


# What comes while it waits


@UNITS
@SIDES
def test_G3_it_waits_for_the_first_and_takes_what_is_there(
    on_clock: QueueManager, persistent: bool, transacted: bool
) -> None:
    with on_clock.session(transacted=True) as putter:
        session = on_clock.session(transacted=transacted)
        getter = waiting(on_clock, "Q1", lambda: session.get_many("Q1", 10, wait_ms=-1))
        numbered = fill(putter, 4, persistent=persistent)
        putter.commit()
        found = getter.finish()
        assert isinstance(found, list)
        assert texts(found) == numbered
        session.close()
        assert on_clock.counts("Q1").live == 0


def test_G3_a_wait_ends_at_its_moment_without_any(tmp_path: Path) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm, qm.session() as session:
        local(qm)
        getter = waiting(qm, "Q1", lambda: session.get_many("Q1", 10, wait_ms=LIFE_MS))
        clock.advance(LIFE_MS - 1)
        assert getter.is_under_way
        clock.advance(1)
        assert getter.finish() == []
        with refused(rc.MQRC_WAIT_INTERVAL_ERROR):
            session.get_many("Q1", 10, wait_ms=-2)


@UNITS
def test_G3_a_wait_ends_with_its_session(on_clock: QueueManager, transacted: bool) -> None:
    session = on_clock.session(transacted=transacted)
    getter: Running = waiting(on_clock, "Q1", lambda: session.get_many("Q1", 10, wait_ms=-1))
    session.close()
    getter.finish()
    assert getter.error is not None
    assert getter.error.reason == rc.MQRC_HCONN_ERROR
    with on_clock.session() as putter:
        putter.put("Q1", b"x")
        assert on_clock.curdepth("Q1") == 1


# What may not be got


@UNITS
def test_E8_a_deadline_counts_from_its_millisecond_on(tmp_path: Path, transacted: bool) -> None:
    """At T-1 it is got with 1 ms left; at T it is expired, reported and no more."""
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm, qm.session() as putter:
        local(qm)
        local(qm, REPLIES)
        report: dict[str, Any] = {"report": c.MQRO_EXPIRATION, "reply_to_q": REPLIES}
        for text, life_ms in ((b"T", LIFE_MS), (b"T+1", LIFE_MS + 1), (b"on", None)):
            for _ in range(2):
                putter.put("Q1", text, time_to_live_ms=life_ms, persistent=True, **report)
        clock.advance(LIFE_MS - 1)
        with qm.session(transacted=transacted) as session:
            found = session.get_many("Q1", 1)
            assert [(m.body, m.remaining_ms) for m in found] == [(b"T", 1)]
            clock.advance(1)
            found = session.get_many("Q1", 2)
            assert [(m.body, m.remaining_ms) for m in found] == [(b"T+1", 1), (b"T+1", 1)]
            # Reported on before it returns, whatever becomes of the unit (E14).
            assert qm.curdepth(REPLIES) == 1
        assert texts(putter.get_many("Q1", 9)) == [b"on", b"on"]
        assert sorted(end.outcome for end in ends(qm, "Q1")) == ["expired", *["got"] * 5]


@pytest.mark.parametrize("discards", [False, True])
def test_K7_without_the_setting_only_what_is_before_a_live_one_is_discarded(
    tmp_path: Path, discards: bool
) -> None:
    """What stands behind the last one, and an own one that has expired, are left alone (E17)."""
    clock, config = VirtualClock(), {"expiry.discard_on_empty": discards}
    with QueueManager("QM1", tmp_path, clock, settings=config) as qm, qm.session() as putter:
        local(qm)
        unit = qm.session(transacted=True)
        putter.put("Q1", b"ahead", time_to_live_ms=1)
        unit.put("Q1", b"own, expired", time_to_live_ms=1)
        unit.put("Q1", b"own")
        putter.put("Q1", b"live")
        putter.put("Q1", b"behind", time_to_live_ms=1)
        clock.advance(1)
        assert texts(unit.get_many("Q1", 9)) == [b"own", b"live"]
        # The own one that has expired counts until the unit of work ends.
        assert qm.curdepth("Q1") == (1 if discards else 2)
        assert len(ends(qm, "Q1")) == (2 if discards else 1)
        unit.backout()
        assert texts(putter.get_many("Q1", 9)) == [b"live"]
        assert qm.curdepth("Q1") == (0 if discards else 1)


def test_E15_what_another_unit_has_got_is_passed_over_and_not_expired(tmp_path: Path) -> None:
    clock = VirtualClock()
    with QueueManager("QM1", tmp_path, clock) as qm, qm.session() as session:
        local(qm)
        numbered = fill(session, 6, time_to_live_ms=LIFE_MS, persistent=True)
        session.put("Q1", b"on")
        unit = qm.session(transacted=True)
        assert texts(unit.get_many("Q1", 3)) == numbered[:3]
        clock.advance(LIFE_MS)
        assert texts(session.get_many("Q1", 10)) == [b"on"]
        assert [end.outcome for end in ends(qm, "Q1")].count("expired") == 3
        unit.commit()
        assert [end.outcome for end in ends(qm, "Q1")].count("got") == 4


@UNITS
def test_G4_GET_DISABLED_refuses_all(on_clock: QueueManager, transacted: bool) -> None:
    with on_clock.session(transacted=transacted) as session, on_clock.session() as putter:
        fill(putter, 3)
        alter(on_clock, "Q1", GET=c.MQQA_GET_INHIBITED)
        with refused(rc.MQRC_GET_INHIBITED):
            session.get_many("Q1", 2)
        assert on_clock.curdepth("Q1") == 3


def test_C4_exclusive_input_of_another_refuses_all(on_clock: QueueManager) -> None:
    with on_clock.session() as holder, on_clock.session() as session:
        fill(session, 3)
        holder.open("Q1", c.MQOO_INPUT_EXCLUSIVE)
        with refused(rc.MQRC_OBJECT_IN_USE):
            session.get_many("Q1", 2)
        assert texts(holder.get_many("Q1", 2)) == [b"0", b"1"]


def test_C7_a_user_without_authority_gets_none(on_clock: QueueManager) -> None:
    with on_clock.session() as putter, connect(on_clock) as session:
        fill(putter, 3)
        with refused(rc.MQRC_NOT_AUTHORIZED):
            session.get_many("Q1", 2)
        grant(on_clock, "GET", "Q1")
        assert texts(session.get_many("Q1", 2)) == [b"0", b"1"]


def test_MAXUMSGS_what_there_is_room_for_is_taken(on_clock: QueueManager) -> None:
    """It is an error when there is room for not even one."""
    alter_manager(on_clock, MAXUMSGS=3)
    with on_clock.session() as putter, on_clock.session(transacted=True) as unit:
        numbered = fill(putter, 6)
        unit.put("Q1", b"own", priority=9)
        assert texts(unit.get_many("Q1", 10)) == [b"own", b"0"]
        with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
            unit.get_many("Q1", 10)
        unit.commit()
        assert texts(unit.get_many("Q1", 10)) == numbered[1:4]
        unit.commit()
        assert texts(putter.get_many("Q1", 10)) == numbered[4:]


# What belongs to a message that was got


def test_P9_own_uncommitted_puts_come_in_their_place(on_clock: QueueManager) -> None:
    with on_clock.session() as putter, on_clock.session(transacted=True) as unit:
        putter.put("Q1", b"1", persistent=True)
        unit.put("Q1", b"2", persistent=True)
        putter.put("Q1", b"3")
        unit.put("Q1", b"4")
        unit.put("Q1", b"0", priority=9)
        assert texts(putter.get_many("Q1", 1)) == [b"1"]
        assert texts(unit.get_many("Q1", 3)) == [b"0", b"2", b"3"]
        unit.backout()
        assert [(m.body, m.backout_count) for m in putter.get_many("Q1", 9)] == [(b"3", 1)]


@SIDES
def test_COD_reports_are_part_of_what_ends_the_messages(
    on_clock: QueueManager, persistent: bool
) -> None:
    local(on_clock, REPLIES)
    report: dict[str, Any] = {"report": c.MQRO_COD, "reply_to_q": REPLIES}
    with on_clock.session() as session, on_clock.session(transacted=True) as unit:
        fill(session, 6, persistent=persistent, **report)
        assert len(unit.get_many("Q1", 2)) == 2
        assert session.get(REPLIES) is None
        unit.backout()
        assert session.get(REPLIES) is None
        assert len(unit.get_many("Q1", 2)) == 2
        unit.commit()
        assert len(session.get_many(REPLIES, 9)) == 2
        assert len(session.get_many("Q1", 9)) == 4
        assert len(session.get_many(REPLIES, 9)) == 4


def test_P9_a_COD_report_to_the_queue_itself_comes_in_its_place(on_clock: QueueManager) -> None:
    """As by a loop of gets, the unit of work gets its own report before what stands behind it."""
    with on_clock.session() as putter, on_clock.session(transacted=True) as unit:
        putter.put("Q1", b"1", priority=5, report=c.MQRO_COD, reply_to_q="Q1")
        putter.put("Q1", b"2", priority=4)
        found = unit.get_many("Q1", 9)
        assert [(m.body, m.descriptor.feedback) for m in found] == [
            (b"1", 0),
            (b"", c.MQFB_COD),
            (b"2", 0),
        ]


@UNITS
def test_D3_many_got_from_the_staging_queue_are_cancelled(
    on_clock: QueueManager, transacted: bool
) -> None:
    with on_clock.session() as putter:
        fill(putter, 3, delay_ms=LIFE_MS, persistent=True)
        fill(putter, 1, delay_ms=LIFE_MS, persistent=False)
        assert on_clock.counts("Q1").staged == 4
        with on_clock.session(transacted=transacted) as session:
            assert len(session.get_many(STAGING, 9)) == 4
        assert on_clock.counts("Q1").staged == 0
        assert [end.outcome for end in ends(on_clock, STAGING)] == ["cancelled"] * 4


@UNITS
def test_B5_a_lock_of_the_same_program_hides_its_message(
    on_clock: QueueManager, transacted: bool
) -> None:
    with on_clock.session(transacted=transacted) as session, on_clock.session() as putter:
        fill(putter, 3)
        handle = putter.open("Q1", INPUT | c.MQOO_BROWSE)
        take(handle, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
        assert texts(session.get_many("Q1", 9)) == [b"1", b"2"]
        handle.unlock()
        assert texts(session.get_many("Q1", 9)) == [b"0"]


@UNITS
def test_shared_queue_many_are_got_from_the_store_of_the_group(
    tmp_path: Path, transacted: bool
) -> None:
    sharing = Sharing(tmp_path)
    sharing.shared("Q1")
    one, other = sharing.qm1, sharing.qm2
    with one.session() as putter, other.session(transacted=transacted) as session:
        numbered = fill(putter, 5, persistent=True)
        assert texts(session.get_many("Q1", 3)) == numbered[:3]
        if transacted:
            session.backout()
            assert texts(session.get_many("Q1", 3)) == numbered[:3]
    with one.session() as session:
        assert texts(session.get_many("Q1", 9)) == numbered[3:]
    sharing.end()


# One transaction


def test_G9_outside_of_units_of_work_one_sync_ends_them_all(tmp_path: Path) -> None:
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        local(qm)
        with qm.session() as session:
            fill(session, 300, persistent=True)
            disk.calls.clear()
            assert len(session.get_many("Q1", 300)) == 300
            assert disk.calls.count("sync .db-wal") == 1
        assert [end.outcome for end in ends(qm, "Q1")] == ["got"] * 300


@pytest.mark.parametrize("transacted", [False, True])
def test_G9_on_a_full_disk_all_stay_with_their_counts(tmp_path: Path, transacted: bool) -> None:
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        disk.error = apsw.FullError
        local(qm)
        session = qm.session(transacted=transacted)
        with qm.session() as putter:
            numbered = [*fill(putter, 2, persistent=True), *fill(putter, 200, persistent=False)]
        disk.failing = "write"
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            session.get_many("Q1", 999)
            session.commit()
        disk.failing = ""
        assert (qm.curdepth("Q1"), qm.counts("Q1").locked, qm.engine.hidden) == (202, 0, {})
        found = session.get_many("Q1", 999)
        assert [(m.body, m.backout_count) for m in found] == [(text, 0) for text in numbered]
        session.close()


@pytest.mark.slow
def test_G9_a_kill_loses_at_most_what_one_call_had_got(tmp_path: Path) -> None:
    """Whatever was said is gone; of what was not said, at most one call, or nothing."""
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as qm, qm.session(transacted=True) as session:
        local(qm)
        numbered = [text.decode() for text in fill(session, 2_000, persistent=True)]
    command = [sys.executable, "-m", "tests.engine.get_many_load", str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [word for _ in range(40) for word in process.stdout.readline().split()]
    process.kill()
    said += process.communicate()[0].split()
    with QueueManager("QM1", folder) as qm, qm.session() as session:
        assert qm.verify().ok
        left = [text.decode() for text in bodies(session, "Q1")]
        assert len(left) % 5 == 0
    gone = numbered[: len(numbered) - len(left)]
    assert gone + left == numbered
    assert said == gone[: len(said)]
    assert len(gone) - len(said) in (0, 5)
