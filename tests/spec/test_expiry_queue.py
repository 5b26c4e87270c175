"""EXPQ: an expired message goes to the queue that its own queue names, once, without expiry."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import DLH
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.facts import wait_until
from tests.over import NewSession
from tests.spec.scene import (
    REPLIES,
    STAGING,
    START_MS,
    End,
    alter,
    alter_manager,
    body,
    ends,
    lives,
    local,
    put_md,
)

ROOT = Path(__file__).parents[2]
LIFE_MS = 100


@pytest.fixture
def manager(any_manager: QueueManager) -> QueueManager:
    """A queue manager with a queue whose expired messages go to LATE."""
    local(any_manager, "LATE")
    local(any_manager, EXPQ="LATE")
    return any_manager


def told(message: Message | None) -> dict[str, object]:
    """Return what a moved message says of its life."""
    assert message is not None
    return {name: value for name, value in message.properties.items() if name.startswith("Mayfly")}


@pytest.mark.parametrize(("after_ms", "moved"), [(-1, 0), (0, 1), (1, 1)])
def test_EXPQ_moves_a_message_that_is_met_from_its_deadline_on(
    manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    new_session: NewSession,
    after_ms: int,
    moved: int,
) -> None:
    with new_session(manager) as session:
        msg_id = session.put(
            "Q1",
            b"x",
            time_to_live_ms=LIFE_MS,
            persistent=persistent,
            correl_id=b"C" * 24,
            properties={"colour": "red"},
        )
        clock.advance(LIFE_MS + after_ms)
        assert (session.get("Q1") is None) == bool(moved)
        assert manager.curdepth("LATE") == moved
        if not moved:
            return
        clock.advance(10**9)
        late = session.get("LATE")
    assert late is not None
    assert (late.data, late.msg_id, late.correl_id) == (b"x", msg_id, b"C" * 24)
    assert (late.persistent, late.put_ms, late.expire_at_ms) == (persistent, START_MS, None)
    assert late.properties["colour"] == "red"
    assert told(late) == {
        "MayflyReason": "expired",
        "MayflyOriginalQueue": "Q1",
        "MayflyExpiredAt": START_MS + LIFE_MS,
    }
    assert late.descriptor.feedback == c.MQFB_EXPIRATION
    assert ends(manager, "Q1") == [End("expired", LIFE_MS + after_ms)]
    (life,) = lives(manager, "LATE")
    assert (life.outcome, life.origin_id) == ("got", msg_id)
    assert manager.verify().ok


def test_EXPQ_is_off_unless_it_is_named(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        assert session.get("Q1") is None
    assert ends(any_manager, "Q1") == [End("expired", LIFE_MS)]


@pytest.mark.parametrize("detected_by", ["get", "browse", "scan"])
def test_EXPQ_moves_once_whoever_meets_the_deadline(
    manager: QueueManager, clock: VirtualClock, new_session: NewSession, detected_by: str
) -> None:
    if detected_by == "scan":
        alter_manager(manager, EXPRYINT=1)
    with new_session(manager) as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(1_000)
        if detected_by == "get":
            assert session.get("Q1") is None
        elif detected_by == "browse":
            assert list(session.browse("Q1")) == []
        assert manager.curdepth("LATE") == 1
        assert session.get("Q1") is None
        assert [message.body for message in session.browse("Q1")] == []
        clock.advance(10_000)
    assert (manager.curdepth("LATE"), len(ends(manager, "Q1"))) == (1, 1)


def test_EXPQ_of_its_target_moves_a_message_that_expires_while_it_is_delayed(
    manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    # The delay ends with the life (D7): the release meets the deadline.
    with new_session(manager) as session:
        msg_id = session.put(
            "Q1", b"x", time_to_live_ms=LIFE_MS, delay_ms=LIFE_MS, persistent=persistent
        )
        clock.advance(LIFE_MS)
        assert session.get("Q1") is None
        late = session.get("LATE")
    assert late is not None
    assert (late.data, late.msg_id, told(late)["MayflyOriginalQueue"]) == (b"x", msg_id, "Q1")
    assert [end.outcome for end in ends(manager, STAGING)] == ["expired"]


def test_E17_EXPQ_moves_a_put_that_has_expired_before_its_commit(
    manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    with new_session(manager, transacted=True) as unit:
        unit.put("Q1", b"x", time_to_live_ms=LIFE_MS, persistent=persistent)
        clock.advance(LIFE_MS)
        assert manager.curdepth("LATE") == 0
        unit.commit()
        assert (manager.curdepth("Q1"), manager.curdepth("LATE")) == (0, 1)
        unit.put("Q1", b"y", time_to_live_ms=LIFE_MS, persistent=persistent)
        clock.advance(LIFE_MS)
        unit.backout()
    assert (manager.curdepth("LATE"), len(ends(manager, "Q1"))) == (1, 1)


def test_E13_EXPQ_leaves_the_report_and_a_moved_message_sends_no_other(
    manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(manager, REPLIES)
    asked = c.MQRO_EXPIRATION | c.MQRO_COD
    with new_session(manager) as session:
        msg_id = session.put("Q1", b"x", time_to_live_ms=LIFE_MS, report=asked, reply_to_q=REPLIES)
        clock.advance(LIFE_MS)
        assert session.get("Q1") is None
        assert body(session.get("LATE")) is not None
        report = session.get(REPLIES)
        assert report is not None
        assert (report.correl_id, report.descriptor.feedback) == (msg_id, c.MQFB_EXPIRATION)
        assert session.get(REPLIES) is None


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"MAXDEPTH": 0}, rc.MQRC_Q_FULL),
        ({"PUT": c.MQQA_PUT_INHIBITED}, rc.MQRC_PUT_INHIBITED),
        ({"MAXMSGL": 1}, rc.MQRC_MSG_TOO_BIG_FOR_Q),
    ],
)
def test_EXPQ_that_takes_no_message_leaves_it_to_the_dead_letter_queue(
    manager: QueueManager,
    clock: VirtualClock,
    new_session: NewSession,
    trouble: dict[str, int],
    reason: int,
) -> None:
    alter(manager, "LATE", **trouble)
    local(manager, "DEAD")
    alter_manager(manager, DEADQ="DEAD")
    with new_session(manager) as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        assert session.get("Q1") is None
        dead = session.get("DEAD")
    assert dead is not None
    header = DLH.unpack(dead.body)
    assert (header["Reason"], str(header["DestQName"]).strip()) == (reason, "LATE")
    assert (dead.expire_at_ms, ends(manager, "Q1")) == (None, [End("expired", LIFE_MS)])


def test_EXPQ_that_is_missing_without_a_dead_letter_queue_leaves_the_end_as_it_is(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(any_manager, EXPQ="NO.SUCH")
    alter_manager(any_manager, DEADQ="")
    with new_session(any_manager) as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        assert session.get("Q1") is None
    assert ends(any_manager, "Q1") == [End("expired", LIFE_MS)]
    assert any_manager.verify().ok


def test_EXPQ_of_the_expiry_queue_and_its_cap_never_move_a_message_again(
    manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    alter(manager, "LATE", EXPQ="Q1", CAPEXPRY=1)
    alter_manager(manager, EXPRYINT=1)
    with new_session(manager) as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(10**7)
        assert (manager.curdepth("LATE"), manager.curdepth("Q1")) == (1, 0)
        late = session.get("LATE")
    assert late is not None
    assert late.expire_at_ms is None


def test_EXPQ_of_the_dead_letter_queue_ends_where_that_cannot_move(
    manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(manager, "DEAD", EXPQ="LATE", CAPEXPRY=1)
    alter(manager, "LATE", MAXDEPTH=0)
    alter_manager(manager, DEADQ="DEAD", EXPRYINT=1)
    with new_session(manager) as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(10**7)
    assert [end.outcome for end in ends(manager, "DEAD")] == ["expired"]
    assert (manager.curdepth("DEAD"), manager.curdepth("LATE")) == (0, 0)


def test_EXPQ_that_leads_back_goes_to_the_dead_letter_queue(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(any_manager, EXPQ="Q1")
    local(any_manager, "DEAD")
    alter_manager(any_manager, DEADQ="DEAD")
    with new_session(any_manager) as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        assert session.get("Q1") is None
    assert (any_manager.curdepth("Q1"), any_manager.curdepth("DEAD")) == (0, 1)


def test_EXPQ_may_lead_to_another_queue_manager(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(any_manager, "QM2", USAGE=1)
    assert any_manager.mqsc("DEFINE QREMOTE(FAR) RNAME(LATE) RQMNAME(QM2)").ok
    local(any_manager, EXPQ="FAR")
    with new_session(any_manager) as session:
        session.put("Q1", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        assert session.get("Q1") is None
    assert any_manager.curdepth("QM2") == 1


def test_EXPQ_of_a_transmission_queue_moves_the_message_within(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(any_manager, "LATE")
    local(any_manager, "QM2", USAGE=1, EXPQ="LATE")
    with new_session(any_manager) as session:
        msg_id = session.put("FAR@QM2", b"x", time_to_live_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        assert session.get("QM2") is None
        late = session.get("LATE")
    assert late is not None
    assert (late.data, late.msg_id, told(late)["MayflyOriginalQueue"]) == (b"x", msg_id, "QM2")


def test_EXPQ_and_a_damaged_header_leave_the_reason_in_the_descriptor(
    manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    with new_session(manager) as session:
        put_md(session, "Q1", b"no header", Descriptor(format="MQHRF2"), life_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        assert session.get("Q1") is None
        late = session.get("LATE")
    assert late is not None
    assert (late.body, late.descriptor.feedback) == (b"no header", c.MQFB_EXPIRATION)


def test_EXPQ_of_a_model_queue_is_that_of_the_queues_it_makes(
    any_manager: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    local(any_manager, "LATE")
    assert any_manager.mqsc("DEFINE QMODEL(M) DEFTYPE(PERMDYN) EXPQ(LATE)").ok
    with new_session(any_manager) as session:
        made = session.open("M", c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT)
        session.put(made.queue_name, b"x", time_to_live_ms=LIFE_MS)
        clock.advance(LIFE_MS)
        assert session.get(made.queue_name) is None
    assert any_manager.curdepth("LATE") == 1


@pytest.mark.slow
def test_EXPQ_moves_each_message_once_across_kill_9(tmp_path: Path) -> None:
    folder = tmp_path / "QM1"
    load = subprocess.Popen(
        [sys.executable, "-m", "tests.spec.expiry_load", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert load.stdout is not None
    # Killed in the midst of the moves of a later round.
    put = {load.stdout.readline().strip() for _ in range(3)}
    load.kill()
    said, complaint = load.communicate()
    assert complaint == ""
    put.update(line for line in said.splitlines() if line.endswith("."))
    with QueueManager("QM1", folder) as manager, manager.session() as session:
        # A round that was put is whole: its line was written after the commit.
        rounds = [map(int, line.rstrip(".").split()) for line in put]
        whole = {b"%d" % n for first, count in rounds for n in range(first, first + count)}
        left = [message.data for message in session.browse("Q1")]
        assert left == []

        def moved() -> Counter[bytes]:
            return Counter(bytes(message.data) for message in session.browse("LATE"))

        # The scan for expired messages may be at some of them.
        wait_until(lambda: whole <= moved().keys())
        assert set(moved().values()) == {1}
        assert manager.verify().ok
