"""Exactly-once writing in bulk: the fence of stages, and puts that keep every rule of a put."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.bulk import TRANSACTION_ROWS, StageMissing
from mayfly.engine.bulk.stages import ORPHAN_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.mqi.structures import DLH
from mayfly.store.stage_table import StagePlace
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.stages import JOB_PREFIX
from tests.over import NewSession
from tests.spec.scene import (
    DEAD,
    REPLIES,
    START_MS,
    End,
    alter,
    alter_manager,
    bodies,
    ends,
    lives,
    local,
    waiting,
)
from tests.spec.stage_scene import (
    commit,
    decode,
    plain,
    row,
    stage,
    staged_rows_left,
    stages_left,
    write,
)

DLH_BYTES = DLH.length(1)


def numbers(session: Session, queue: str = "Q1") -> list[int]:
    """Get all there is on a queue and return what rows of ``plain`` they were."""
    return [int(found) for found in bodies(session, queue)]


def place(batch: int = 0, partition: int = 0, attempt: str = "a") -> StagePlace:
    return StagePlace("q", batch, partition, attempt)


# The fence


def test_rows_on_a_stage_are_seen_by_nobody(manager: QueueManager, session: Session) -> None:
    stage(manager, place(), plain(5))
    assert manager.curdepth("Q1") == 0
    assert session.get("Q1") is None
    assert staged_rows_left(manager) == 5


def test_a_batch_is_put_once_however_often_it_is_committed(
    any_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    local(any_manager)
    named = [stage(any_manager, place(), plain(250), rows_per_blob=40)]
    first = commit(any_manager, "q", 0, named)
    assert (first.batch, first.is_done, first.put_count) == (0, True, 250)
    assert commit(any_manager, "q", 0, named) == first
    assert commit(any_manager, "q", 0, []) == first
    with new_session(any_manager) as own:
        assert numbers(own) == list(range(250))
    assert staged_rows_left(any_manager) == stages_left(any_manager) == 0


def test_an_older_batch_changes_nothing(manager: QueueManager, session: Session) -> None:
    for batch in range(3):
        named = [stage(manager, place(batch), plain(2, 2 * batch))]
        assert commit(manager, "q", batch, named).is_done
    assert manager.stages.begin(place(1, attempt="again")) is None
    state = manager.stages.commit("q", 1, [(0, "again")], decode)
    assert (state.batch, state.is_done) == (2, True)
    assert numbers(session) == list(range(6))


def test_of_two_attempts_of_a_partition_the_named_one_is_put(
    manager: QueueManager, session: Session
) -> None:
    stage(manager, place(attempt="slow"), plain(3))
    named = [stage(manager, place(attempt="quick"), plain(3))]
    assert commit(manager, "q", 0, named).put_count == 3
    assert numbers(session) == [0, 1, 2]
    assert stages_left(manager) == 0


def test_the_first_commit_names_the_set_and_a_repeat_with_another_finishes_it(
    manager: QueueManager, session: Session
) -> None:
    alter(manager, "Q1", MAXDEPTH=100_000)
    rows = plain(3 * TRANSACTION_ROWS)
    first = [stage(manager, place(attempt="first"), rows, TRANSACTION_ROWS)]
    second = [stage(manager, place(attempt="second"), rows, TRANSACTION_ROWS)]
    begun = manager.stages.commit("q", 0, first, decode, step_count=1)
    assert (begun.is_done, begun.put_count) == (False, TRANSACTION_ROWS)
    # What is put is visible while the rest still waits.
    assert manager.curdepth("Q1") == TRANSACTION_ROWS
    assert commit(manager, "q", 0, second).put_count == len(rows)
    assert numbers(session) == list(range(len(rows)))
    assert staged_rows_left(manager) == 0


def test_partitions_are_put_in_the_order_named(manager: QueueManager, session: Session) -> None:
    named = [stage(manager, place(partition=n), plain(20, 20 * n), 7) for n in (2, 0, 1)]
    commit(manager, "q", 0, sorted(named))
    assert numbers(session) == list(range(60))


def test_queries_do_not_touch_each_other(manager: QueueManager, session: Session) -> None:
    write(manager, plain(3), "one")
    write(manager, plain(3, 3), "two")
    assert numbers(session) == list(range(6))


def test_a_later_batch_finishes_the_one_before_first(
    manager: QueueManager, session: Session
) -> None:
    alter(manager, "Q1", MAXDEPTH=100_000)
    first = [stage(manager, place(0), plain(2 * TRANSACTION_ROWS), TRANSACTION_ROWS)]
    assert not manager.stages.commit("q", 0, first, decode, step_count=1).is_done
    later = [stage(manager, place(1), plain(10, 2 * TRANSACTION_ROWS))]
    assert not manager.stages.commit("q", 1, later, decode).is_done
    state = manager.stages.commit("q", 1, later, decode)
    assert (state.batch, state.is_done, state.put_count) == (1, True, 10)
    assert numbers(session) == list(range(2 * TRANSACTION_ROWS + 10))


def test_an_empty_batch_counts_as_done(manager: QueueManager) -> None:
    assert commit(manager, "q", 0, []).is_done
    assert commit(manager, "q", 1, [stage(manager, place(1), [])]).is_done
    writer = manager.stages.begin(place(2))
    assert writer is not None
    writer.append(b"[]", 0)
    writer.finish()
    assert commit(manager, "q", 2, [(0, "a")]).is_done
    assert manager.stages.begin(place(2, attempt="b")) is None
    assert stages_left(manager) == 0


def test_a_stage_that_is_not_there_or_not_complete_names_nothing(
    manager: QueueManager, session: Session
) -> None:
    whole = stage(manager, place(partition=0), plain(3))
    with pytest.raises(StageMissing, match=r"1, 'gone'\) is not there"):
        manager.stages.commit("q", 0, [whole, (1, "gone")], decode)
    writer = manager.stages.begin(place(partition=1))
    assert writer is not None
    for _ in range(2):
        writer.append(b"[]", 0)
    with pytest.raises(StageMissing, match="is not complete"):
        manager.stages.commit("q", 0, [whole, (1, "a")], decode)
    assert manager.stages.state("q") is None
    assert session.get("Q1") is None
    writer.discard()
    assert stages_left(manager) == 1


def test_an_attempt_has_a_name_of_its_own(manager: QueueManager) -> None:
    stage(manager, place(), plain(1))
    with pytest.raises(ValueError, match="is written already"):
        manager.stages.begin(place())


# What is swept


def test_the_next_batch_sweeps_what_the_last_one_left(manager: QueueManager) -> None:
    stage(manager, place(0, attempt="killed"), plain(300), 10)
    assert staged_rows_left(manager) == 300
    stage(manager, place(1), plain(1))
    assert staged_rows_left(manager) == 1


def test_a_swept_stage_takes_nothing_more(manager: QueueManager) -> None:
    writer = manager.stages.begin(place(0, attempt="zombie"))
    assert writer is not None
    for _ in range(2):
        writer.append(b"[]", 0)
    write(manager, plain(1))
    writer.append(b"[]", 0)
    writer.finish()
    assert stages_left(manager) == staged_rows_left(manager) == 0


def test_orphans_are_swept_by_age_but_never_named_stages(
    manager: QueueManager, clock: VirtualClock, session: Session
) -> None:
    alter(manager, "Q1", MAXDEPTH=100_000)
    rows = plain(2 * TRANSACTION_ROWS)
    named = [stage(manager, place(), rows, TRANSACTION_ROWS)]
    manager.stages.commit("q", 0, named, decode, step_count=1)
    stage(manager, StagePlace("other", 0, 0, "orphan"), plain(5))
    clock.advance(ORPHAN_MS)
    assert manager.stages.sweep(manager.now_ms() - ORPHAN_MS) == 0
    clock.advance(1)
    # A new stage of any query looks for them.
    stage(manager, StagePlace("third", 0, 0, "a"), plain(1))
    assert stages_left(manager) == 2
    assert commit(manager, "q", 0, named).put_count == len(rows)
    assert numbers(session) == list(range(len(rows)))


def test_finished_jobs_are_forgotten_with_time_and_queries_never(
    manager: QueueManager, clock: VirtualClock
) -> None:
    write(manager, plain(1), JOB_PREFIX + "1")
    write(manager, plain(1), "q")
    clock.advance(ORPHAN_MS + 1)
    manager.stages.sweep(manager.now_ms() - ORPHAN_MS)
    assert manager.stages.state(JOB_PREFIX + "1") is None
    assert manager.stages.state("q") is not None


# A row is put as any message is


def test_bulk_and_single_puts_keep_the_order_of_the_rows(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    """Every fifth row needs a look of its own; all stand in one order."""
    local(any_manager, "REPLIES", MAXDEPTH=1_000)
    local(any_manager)
    rows = plain(400, persistence=int(persistent))
    for n in range(0, 400, 5):
        rows[n] |= {"report": c.MQRO_COA, "reply_to_q": REPLIES}
    assert write(any_manager, rows).put_count == 400
    with new_session(any_manager) as own:
        assert numbers(own) == list(range(400))
        assert len(bodies(own, "REPLIES")) == 80


def test_P7_kinds_of_rows_that_alternate_stand_by_priority_then_in_their_order(
    manager: QueueManager, session: Session
) -> None:
    """Two queues, one priority seldom enough to be put alone."""
    alter(manager, "Q1", MSGDLVSQ=c.MQMDS_PRIORITY)
    local(manager, "Q2", MSGDLVSQ=c.MQMDS_PRIORITY)
    asked = [(f"Q{1 + n % 2}", 9 if n % 50 == 0 else n % 3) for n in range(300)]
    rows = [row(b"%d" % n, q, priority=p, persistence=1) for n, (q, p) in enumerate(asked)]
    assert write(manager, rows).put_count == 300
    for queue in ("Q1", "Q2"):
        own = [n for n, (name, _) in enumerate(asked) if name == queue]
        assert numbers(session, queue) == sorted(own, key=lambda n: (-asked[n][1], n))


def test_every_column_arrives(manager: QueueManager, session: Session) -> None:
    """The same for a row on its own and for rows in bulk."""
    asked: dict[str, Any] = {
        "priority": 7,
        "persistence": 1,
        "report": c.MQRO_EXPIRATION,
        "reply_to_q": "R",
        "reply_to_q_mgr": "QM9",
        "msg_type": c.MQMT_REQUEST,
        "format": "MQSTR",
        "encoding": 546,
        "coded_char_set_id": 1208,
        "user_identifier": "bill",
        "correl_id": b"c" * 24,
    }
    write(manager, [row(b"alone", **asked, msg_id=b"m")])
    write(manager, [row(b"bulk", **asked, msg_id=bytes([n, 1])) for n in range(20)])
    for number in range(21):
        message = session.get("Q1")
        assert message is not None
        found = message.descriptor
        assert {name: getattr(found, name) for name in asked if name != "correl_id"} == {
            name: value for name, value in asked.items() if name != "correl_id"
        }
        assert message.correl_id == b"c" * 24
        given = b"m" if number == 0 else bytes([number - 1, 1])
        assert message.msg_id == given.ljust(24, b"\0")


def test_ids_are_found_by_index_after_a_put_in_bulk(
    manager: QueueManager, session: Session
) -> None:
    write(manager, [row(b"%d" % n, persistence=1, correl_id=b"c%d" % n) for n in range(50)])
    found = session.get("Q1", correl_id=b"c17")
    assert found is not None
    assert found.body == b"17"
    other = next(iter(session.browse("Q1")))
    again = session.get("Q1", msg_id=other.msg_id)
    assert again is not None
    assert again.body == other.body == b"0"


@pytest.mark.parametrize("count", [1, 40], ids=["alone", "bulk"])
def test_E4_a_life_ends_at_its_very_millisecond(
    manager: QueueManager, session: Session, clock: VirtualClock, count: int
) -> None:
    by_life = plain(count, persistence=1, time_to_live_ms=1_000)
    by_deadline = plain(count, count, persistence=1, expire_at_ms=START_MS + 1_000)
    write(manager, by_life + by_deadline)
    clock.advance(999)
    assert len(list(session.browse("Q1"))) == 2 * count
    clock.advance(1)
    assert list(session.browse("Q1")) == []


@pytest.mark.parametrize("count", [1, 40], ids=["alone", "bulk"])
def test_X3_a_cap_shortens_lives_in_bulk_as_well(
    manager: QueueManager, session: Session, clock: VirtualClock, count: int
) -> None:
    alter(manager, "Q1", CAPEXPRY=5)
    write(manager, plain(count, persistence=1))
    write(manager, plain(count, persistence=1, time_to_live_ms=400))
    clock.advance(400)
    assert len(list(session.browse("Q1"))) == count
    clock.advance(100)
    assert list(session.browse("Q1")) == []


@pytest.mark.parametrize("asked", [{"delay_ms": 50}, {"deliver_at_ms": START_MS + 50}])
def test_D1_a_delayed_row_goes_to_staging(
    manager: QueueManager, session: Session, clock: VirtualClock, asked: dict[str, Any]
) -> None:
    write(manager, plain(30, persistence=1, **asked))
    assert manager.counts("Q1").staged == 30
    clock.advance(49)
    assert session.get("Q1") is None
    clock.advance(1)
    assert numbers(session) == list(range(30))


def test_a_delivery_time_that_has_come_is_no_delay(manager: QueueManager, session: Session) -> None:
    write(manager, plain(30, persistence=1, deliver_at_ms=START_MS - 1))
    assert manager.counts("Q1").staged == 0
    assert numbers(session) == list(range(30))


@pytest.mark.parametrize("count", [1, 30], ids=["alone", "bulk"])
def test_E14_a_row_past_its_deadline_is_discarded_and_reported_once(
    manager: QueueManager, session: Session, count: int
) -> None:
    asked: dict[str, Any] = {"report": c.MQRO_EXPIRATION, "reply_to_q": REPLIES}
    asked["msg_id"] = b"m" * 24
    rows = plain(count, persistence=1, expire_at_ms=START_MS, **asked)
    named = [stage(manager, place(), rows)]
    state = commit(manager, "q", 0, named)
    assert (state.put_count, state.expired_count, state.refused_count) == (0, count, 0)
    commit(manager, "q", 0, named)
    assert manager.curdepth("Q1") == 0
    assert ends(manager, "Q1") == [End("expired", 0)] * count
    report = session.get(REPLIES)
    assert report is not None
    assert report.descriptor.feedback == c.MQFB_EXPIRATION
    assert report.correl_id == b"m" * 24
    assert len(bodies(session, REPLIES)) == count - 1


@pytest.mark.parametrize("count", [1, 30], ids=["alone", "bulk"])
def test_EXPQ_moves_a_row_past_its_deadline_once(
    manager: QueueManager, session: Session, count: int
) -> None:
    local(manager, "LATE")
    alter(manager, "Q1", EXPQ="LATE")
    named = [stage(manager, place(), plain(count, persistence=1, expire_at_ms=START_MS))]
    for _ in range(2):
        commit(manager, "q", 0, named)
    assert ends(manager, "Q1") == [End("expired", 0)] * count
    assert (manager.curdepth("Q1"), manager.curdepth("LATE")) == (0, count)


def test_D17_a_named_deadline_does_not_move_with_ttlfrom_release(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(manager, "R1", TTLFROM=1)
    write(manager, [row(b"x", "R1", delay_ms=100, expire_at_ms=START_MS + 150)])
    write(manager, [row(b"y", "R1", delay_ms=100, time_to_live_ms=150)])
    clock.advance(149)
    assert [m.body for m in session.browse("R1")] == [b"x", b"y"]
    clock.advance(1)
    assert [m.body for m in session.browse("R1")] == [b"y"]


def test_a_waiting_get_is_served(manager: QueueManager, new_session: NewSession) -> None:
    with new_session(manager) as one, new_session(manager) as other:
        running = waiting(manager, "Q1", lambda: one.get("Q1", wait_ms=-1))
        write(manager, plain(30, persistence=1))
        served: Any = running.finish()
        assert served.body == b"0"
        assert len(bodies(other, "Q1")) == 29


# A refused row


REFUSED = [
    ({"queue": "NOWHERE"}, rc.MQRC_UNKNOWN_OBJECT_NAME),
    ({"queue": None}, rc.MQRC_UNKNOWN_OBJECT_NAME),
    ({"queue": "CLOSED"}, rc.MQRC_PUT_INHIBITED),
    ({"queue": "SHORT"}, rc.MQRC_MSG_TOO_BIG_FOR_Q),
    ({"manager": "QM2"}, rc.MQRC_UNKNOWN_REMOTE_Q_MGR),
    ({"payload": None}, rc.MQRC_BUFFER_ERROR),
    ({"priority": -2}, rc.MQRC_PRIORITY_ERROR),
    ({"priority": 2**40}, rc.MQRC_MD_ERROR),
    ({"persistence": 3}, rc.MQRC_PERSISTENCE_ERROR),
    ({"report": c.MQRO_COA}, rc.MQRC_MISSING_REPLY_TO_Q),
    ({"reply_to_q": "R" * 49}, rc.MQRC_MD_ERROR),
    ({"format": "A\0B"}, rc.MQRC_MD_ERROR),
    ({"msg_id": b"m" * 25}, rc.MQRC_MD_ERROR),
    ({"correl_id": b"c" * 25}, rc.MQRC_MD_ERROR),
    ({"time_to_live_ms": 0}, rc.MQRC_EXPIRY_ERROR),
    ({"time_to_live_ms": -5}, rc.MQRC_EXPIRY_ERROR),
    ({"time_to_live_ms": 2**50}, rc.MQRC_EXPIRY_ERROR),
    ({"time_to_live_ms": 5, "expire_at_ms": START_MS + 5}, rc.MQRC_EXPIRY_ERROR),
    ({"delay_ms": -1}, rc.MQRC_OPTIONS_ERROR),
    ({"delay_ms": 2**50}, rc.MQRC_OPTIONS_ERROR),
    ({"delay_ms": 5, "deliver_at_ms": START_MS + 5}, rc.MQRC_OPTIONS_ERROR),
    ({"delay_ms": 11, "time_to_live_ms": 10}, rc.MQRC_EXPIRY_ERROR),
    ({"delay_ms": 11, "expire_at_ms": START_MS + 10}, rc.MQRC_EXPIRY_ERROR),
    ({"deliver_at_ms": START_MS + 11, "expire_at_ms": START_MS + 10}, rc.MQRC_EXPIRY_ERROR),
]


@pytest.mark.parametrize(("asked", "reason"), REFUSED, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("count", [1, 20], ids=["alone", "bulk"])
def test_Q1_a_refused_row_is_a_dead_letter_with_its_reason(
    manager: QueueManager, session: Session, asked: dict[str, Any], reason: int, count: int
) -> None:
    local(manager, "CLOSED", PUT=c.MQQA_PUT_INHIBITED)
    local(manager, "SHORT", MAXMSGL=3)
    refused_rows = [{**row(b"data", persistence=1), **asked} for _ in range(count)]
    state = write(manager, [*plain(30, persistence=1), *refused_rows, *plain(30, 30)])
    assert (state.put_count, state.refused_count) == (60, count)
    assert numbers(session) == list(range(60))
    queue = asked.get("queue", "Q1")
    for _ in range(count):
        letter = session.get(DEAD)
        assert letter is not None
        header = DLH.unpack(letter.body)
        assert (header["Reason"], header["DestQName"]) == (reason, queue or "")
        assert letter.descriptor.format == "MQDEAD"
        assert letter.body[DLH_BYTES:] == (b"" if "payload" in asked else b"data")
    assert session.get(DEAD) is None


@pytest.mark.parametrize("count", [1, 20], ids=["alone", "bulk"])
@pytest.mark.parametrize("column", ["time_to_live_ms", "expire_at_ms"])
def test_E3_a_life_above_the_maximum_is_a_dead_letter_without_end(
    clock: VirtualClock, count: int, column: str, new_session: NewSession
) -> None:
    max_ms = 99_999_999_900
    begin_ms = START_MS if column == "expire_at_ms" else 0
    strict = {"expiry.max_check": "always"}
    with QueueManager("QM1", clock=clock, settings=strict) as qm, new_session(qm) as session:
        local(qm)
        alter_manager(qm, DEADQ=DEAD)
        most, above = (
            [{**row(b"x", persistence=1), column: begin_ms + ms} for _ in range(count)]
            for ms in (max_ms, max_ms + 1)
        )
        state = write(qm, [*most, *above])
        assert (state.put_count, state.refused_count) == (count, count)
        assert {m.remaining_ms for m in session.browse("Q1")} == {max_ms}
        letters = list(session.browse(DEAD))
        assert len(letters) == count
        assert {m.remaining_ms for m in letters} == {None}
        assert {DLH.unpack(m.body)["Reason"] for m in letters} == {rc.MQRC_EXPIRY_ERROR}


def test_P7_a_full_queue_takes_what_it_can_and_the_rest_are_dead_letters(
    manager: QueueManager, session: Session
) -> None:
    alter(manager, "Q1", MAXDEPTH=25)
    state = write(manager, plain(40, persistence=1))
    assert (state.put_count, state.refused_count) == (25, 15)
    assert numbers(session) == list(range(25))
    assert [int(b[DLH_BYTES:]) for b in bodies(session, DEAD)] == list(range(25, 40))


def test_an_option_names_another_dead_letter_queue(manager: QueueManager, session: Session) -> None:
    local(manager, "MINE")
    write(manager, [row(b"x", "NOWHERE")], dead_letter_queue="MINE")
    assert session.get(DEAD) is None
    assert len(bodies(session, "MINE")) == 1


def test_without_a_dead_letter_queue_the_commit_says_which_option_and_can_be_repeated(
    manager: QueueManager, session: Session
) -> None:
    alter_manager(manager, DEADQ="")
    named = [stage(manager, place(), [*plain(20, persistence=1), row(b"x", "NOWHERE")])]
    with pytest.raises(MQError, match=r"\(2085\): option deadLetterQueue: ''"):
        commit(manager, "q", 0, named)
    assert manager.curdepth("Q1") == 0
    alter_manager(manager, DEADQ=DEAD)
    state = commit(manager, "q", 0, named)
    assert (state.put_count, state.refused_count) == (20, 1)
    assert numbers(session) == list(range(20))


def test_rows_that_nobody_takes_are_left_to_their_source_and_kept_until_the_next_batch(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    """They are told to each repeat of the commit, however late, and never put."""
    alter_manager(manager, DEADQ="")
    rows = plain(20, persistence=1)
    rows[3] = row(b"x", "NOWHERE", source_row=3)
    rows[7] = row(b"y" * 2_000, source_row=7)
    alter(manager, "Q1", MAXMSGL=1_000)
    named = [stage(manager, place(), rows)]
    state = commit(manager, "q", 0, named, surrenders=True)
    assert (state.put_count, state.refused_count) == (18, 0)
    alter_manager(manager, DEADQ=DEAD)
    clock.advance(2 * ORPHAN_MS)
    manager.stages.sweep(clock.now_ms() - ORPHAN_MS)
    for _ in range(2):
        commit(manager, "q", 0, named, surrenders=True)
        left = [(s.source_row, s.reason) for s in manager.stages.surrendered("q", 0)]
        assert left == [(3, rc.MQRC_UNKNOWN_OBJECT_NAME), (7, rc.MQRC_MSG_TOO_BIG_FOR_Q)]
    assert numbers(session) == [n for n in range(20) if n not in (3, 7)]
    assert session.get(DEAD) is None
    write(manager, plain(1))
    assert manager.stages.surrendered("q", 0) == []
    assert manager.verify().problems == ()


@pytest.mark.parametrize("left", ["a row of no source", "a full queue", "nobody asks"])
def test_what_can_be_taken_later_or_has_no_source_holds_its_batch(
    manager: QueueManager, session: Session, left: str
) -> None:
    alter_manager(manager, DEADQ="")
    bad = row(b"x", "NOWHERE", source_row=None if left == "a row of no source" else 3)
    if left == "a full queue":
        local(manager, "FULL", MAXDEPTH=0)
        bad = row(b"x", "FULL", source_row=3)
    named = [stage(manager, place(), [*plain(3), bad])]
    with pytest.raises(MQError):
        commit(manager, "q", 0, named, surrenders=left != "nobody asks")
    assert manager.curdepth("Q1") == 0
    assert manager.stages.surrendered("q", 0) == []


def test_R3_a_refused_row_that_asked_for_it_gets_its_exception_report(
    manager: QueueManager, session: Session
) -> None:
    asked = {"report": c.MQRO_EXCEPTION, "reply_to_q": REPLIES, "msg_id": b"m" * 24}
    write(manager, [row(b"x", "NOWHERE", **asked)])
    report = session.get(REPLIES)
    assert report is not None
    assert report.descriptor.feedback == rc.MQRC_UNKNOWN_OBJECT_NAME
    assert report.correl_id == b"m" * 24


# Books


def test_totals_and_ledger_stay_right(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    """Puts = ended + present at every moment; any_manager verifies at the end."""
    local(any_manager)
    alter_manager(any_manager, DEADQ=DEAD)
    random = Random(7)
    for batch in range(6):
        rows = []
        for n in range(random.randrange(200)):
            choices: list[dict[str, Any]] = [
                {},
                {},
                {"persistence": 0},
                {"time_to_live_ms": random.randrange(1, 50)},
                {"expire_at_ms": clock.now_ms() + random.randrange(-20, 50)},
                {"delay_ms": random.randrange(40)},
                {"queue": "NOWHERE"},
            ]
            rows.append({**row(b"%d" % n, persistence=1), **random.choice(choices)})
        state = write(any_manager, rows)
        counted = (state.put_count, state.expired_count, state.refused_count)
        assert sum(counted) == len(rows), (batch, counted)
        assert any_manager.verify().ok
        clock.advance(20)
    with new_session(any_manager) as own:
        bodies(own, "Q1")


def test_messages_put_in_bulk_survive_a_restart(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path, clock=clock) as manager:
        local(manager)
        named = [stage(manager, place(), plain(60, persistence=1), 20)]
        commit(manager, "q", 0, named)
        stage(manager, place(1), plain(10, 60, persistence=1))
    with QueueManager("QM1", tmp_path, clock=clock) as manager:
        assert manager.verify().ok
        assert commit(manager, "q", 0, named).put_count == 60
        commit(manager, "q", 1, [(0, "a")])
        with new_session(manager) as own:
            assert numbers(own) == list(range(70))
        assert {life.persistent for life in lives(manager, "Q1")} == {1}
