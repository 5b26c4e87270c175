"""Rule D32: a message backed out to a queue with BODELAY comes again after its delay, and once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.scene import (
    REPLIES,
    START_MS,
    alter,
    lives,
    local,
    put_md,
    waiting,
)

ROOT = Path(__file__).parents[2]


def backed_out(unit: Session, queue: str = "Q1") -> int:
    """Get the next message and back it out; return the backout count that it had."""
    message = unit.get(queue)
    assert message is not None
    unit.backout()
    return message.backout_count


@pytest.mark.parametrize(("late_ms", "is_there"), [(-1, False), (0, True), (1, True)])
def test_D32_a_backed_out_message_comes_again_at_the_end_of_its_delay(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    new_session: NewSession,
    late_ms: int,
    is_there: bool,
) -> None:
    local(any_manager, BODELAY=5)
    with new_session(any_manager, transacted=True) as unit:
        unit.put("Q1", b"x", persistent=persistent)
        unit.commit()
        assert backed_out(unit) == 0
        clock.advance(5_000 + late_ms)
        message = unit.get("Q1")
        assert (message is not None) is is_there
        if message is not None:
            assert message.backout_count == 1


def test_D32_the_delay_doubles_up_to_the_longest_one(
    queue_manager: QueueManager, clock: VirtualClock, unit: Session
) -> None:
    local(queue_manager, BODELAY=5, BODELMAX=30)
    unit.put("Q1", b"x")
    unit.commit()
    for count, delay_ms in enumerate((5_000, 10_000, 20_000, 30_000, 30_000)):
        assert backed_out(unit) == count
        clock.advance(delay_ms - 1)
        assert unit.get("Q1") is None
        clock.advance(1)


def test_D32_a_longest_delay_below_the_first_makes_all_delays_equal(
    queue_manager: QueueManager, clock: VirtualClock, unit: Session
) -> None:
    local(queue_manager, BODELAY=5, BODELMAX=0)
    unit.put("Q1", b"x")
    unit.commit()
    for count in range(3):
        assert backed_out(unit) == count
        clock.advance(4_999)
        assert unit.get("Q1") is None
        clock.advance(1)


def test_D32_without_BODELAY_a_backed_out_message_is_there_at_once(
    queue_manager: QueueManager, unit: Session
) -> None:
    local(queue_manager)
    unit.put("Q1", b"x")
    unit.commit()
    assert [backed_out(unit) for _ in range(3)] == [0, 1, 2]


def test_D32_others_overtake_a_delayed_message_which_returns_to_its_place(
    queue_manager: QueueManager, clock: VirtualClock, unit: Session
) -> None:
    local(queue_manager, BODELAY=5)
    for body in (b"1", b"2", b"3"):
        unit.put("Q1", body)
    unit.commit()
    backed_out(unit)
    assert [m.body for m in unit.browse("Q1")] == [b"2", b"3"]
    clock.advance(5_000)
    assert [m.body for m in unit.browse("Q1")] == [b"1", b"2", b"3"]


def test_D32_a_delayed_message_counts_as_delayed_and_not_in_the_depth(
    queue_manager: QueueManager, clock: VirtualClock, unit: Session
) -> None:
    local(queue_manager, BODELAY=5)
    msg_id = unit.put("Q1", b"x", persistent=True)
    unit.put("Q1", b"y", persistent=True)
    unit.commit()
    backed_out(unit)
    counts = queue_manager.counts("Q1")
    assert (counts.staged, counts.live, counts.locked) == (1, 1, 0)
    (status,) = queue_manager.mqsc("DISPLAY QSTATUS(Q1) CURDEPTH STAGED UNCOM").rows
    assert (status["CURDEPTH"], status["STAGED"], status["UNCOM"]) == (1, 1, "NO")
    assert queue_manager.why(msg_id).sentence == (
        "It is on Q1, and cannot be got: backed out once, it is delayed until "
        "2023-11-14 22:13:25.000 (BODELAY); it never expires."
    )
    assert queue_manager.verify().ok
    clock.advance(5_000)
    counts = queue_manager.counts("Q1")
    assert (counts.staged, counts.live) == (0, 2)
    assert queue_manager.verify().ok


def test_D32_a_get_by_its_id_does_not_find_a_delayed_message(
    queue_manager: QueueManager, unit: Session
) -> None:
    local(queue_manager, BODELAY=5)
    msg_id = unit.put("Q1", b"x")
    unit.commit()
    backed_out(unit)
    assert unit.get("Q1", msg_id=msg_id) is None


def test_D32_a_waiting_get_is_given_the_message_when_its_delay_ends(
    queue_manager: QueueManager, clock: VirtualClock, unit: Session, session: Session
) -> None:
    """Also where its wait ends at the same millisecond."""
    local(queue_manager, BODELAY=5)
    unit.put("Q1", b"x")
    unit.commit()
    backed_out(unit)
    call = waiting(queue_manager, "Q1", lambda: session.get("Q1", wait_ms=5_000))
    clock.advance(5_000)
    assert getattr(call.finish(), "body", None) == b"x"


@pytest.mark.parametrize(("life_ms", "ended_ms"), [(4_999, 4_999), (5_000, 5_000)])
def test_D32_E13_a_delayed_message_expires_where_it_waits_with_its_report(
    manager: QueueManager,
    clock: VirtualClock,
    unit: Session,
    session: Session,
    life_ms: int,
    ended_ms: int,
) -> None:
    alter(manager, "Q1", BODELAY=5)
    asking = Descriptor(report=c.MQRO_EXPIRATION, reply_to_q=REPLIES)
    put_md(session, "Q1", b"x", asking, life_ms=life_ms)
    backed_out(unit)
    clock.advance(ended_ms - 1)
    assert manager.curdepth(REPLIES) == 0
    clock.advance(1)
    assert manager.curdepth(REPLIES) == 1
    (life,) = lives(manager, "Q1")
    assert (life.outcome, life.ended_ms - START_MS, life.backout_count) == (
        "expired",
        ended_ms,
        1,
    )
    assert manager.verify().ok


def test_D32_the_life_of_a_delayed_message_runs_on(
    queue_manager: QueueManager, clock: VirtualClock, unit: Session
) -> None:
    local(queue_manager, BODELAY=5)
    unit.put("Q1", b"x", time_to_live_ms=6_000)
    unit.commit()
    backed_out(unit)
    clock.advance(5_000)
    message = unit.get("Q1")
    assert message is not None
    assert message.remaining_ms == 1_000


def test_D32_CLEAR_removes_delayed_messages_and_DELETE_refuses_them(
    queue_manager: QueueManager,
) -> None:
    local(queue_manager, BODELAY=5)
    with queue_manager.session(transacted=True) as unit:
        unit.put("Q1", b"x", persistent=True)
        unit.commit()
        backed_out(unit)
    refused = queue_manager.mqsc("DELETE QLOCAL(Q1)")
    assert [message.reason for message in refused.messages] == [rc.MQRC_Q_NOT_EMPTY]
    assert queue_manager.mqsc("CLEAR QLOCAL(Q1)").ok
    assert [life.outcome for life in lives(queue_manager, "Q1")] == ["cleared"]
    assert queue_manager.counts("Q1").staged == 0
    assert queue_manager.mqsc("DELETE QLOCAL(Q1)").ok
    assert queue_manager.verify().ok


def test_D32_T3_a_message_triggers_when_its_delay_ends(
    queue_manager: QueueManager, clock: VirtualClock, unit: Session
) -> None:
    done = queue_manager.mqsc(
        "DEFINE QLOCAL(INIT)\nDEFINE PROCESS(P1) APPLICID('p')\n"
        "DEFINE QLOCAL(Q1) BODELAY(5) TRIGGER TRIGTYPE(EVERY) INITQ(INIT) PROCESS(P1)"
    )
    assert done.ok
    monitor = unit.open("INIT", c.MQOO_INPUT_SHARED)
    unit.put("Q1", b"x")
    unit.commit()
    assert queue_manager.curdepth("INIT") == 1
    backed_out(unit)
    assert queue_manager.curdepth("INIT") == 1
    clock.advance(5_000)
    assert queue_manager.curdepth("INIT") == 2
    monitor.close()


def test_D32_a_session_that_ends_delays_what_it_had_got(
    queue_manager: QueueManager, clock: VirtualClock, session: Session
) -> None:
    local(queue_manager, BODELAY=5)
    session.put("Q1", b"x", persistent=True)
    ended = queue_manager.session(transacted=True)
    assert ended.get("Q1") is not None
    ended.close(commit=False)
    assert session.get("Q1") is None
    clock.advance(5_000)
    assert session.get("Q1") is not None


def test_D32_a_close_and_a_start_begin_the_delay_again(tmp_path: Path, clock: VirtualClock) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder, clock=clock) as manager:
        local(manager, BODELAY=5)
        with manager.session(transacted=True) as unit:
            for body in (b"persistent", b"volatile"):
                unit.put("Q1", body, persistent=body == b"persistent")
            unit.commit()
            assert unit.get("Q1") is not None
            assert unit.get("Q1") is not None
            unit.backout()
        clock.advance(4_000)
    with QueueManager("QM1", folder, clock=clock) as manager, manager.session() as session:
        assert manager.verify().ok
        assert manager.counts("Q1").staged == 1
        clock.advance(4_999)
        assert session.get("Q1") is None
        clock.advance(1)
        message = session.get("Q1")
        assert message is not None
        assert (message.body, message.backout_count) == (b"persistent", 1)
        assert session.get("Q1") is None


@pytest.mark.slow
def test_D32_G8_a_kill_begins_the_delays_of_what_was_delayed_and_of_what_was_got(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """The backout count of each is raised once, whether its backout came before the kill or not."""
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder, clock=clock) as manager, manager.session() as session:
        local(manager, BODELAY=5)
        for body in (b"delayed", b"held", b"free"):
            session.put("Q1", body, persistent=True)
    command = [sys.executable, "-m", "tests.spec.redelivery_load", str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    process.kill()
    process.communicate()
    assert said == "ready\n"
    for _ in range(2):
        # The second start finds the notes that the first has written.
        with QueueManager("QM1", folder, clock=clock) as manager, manager.session() as session:
            assert manager.verify().ok
            assert manager.counts("Q1").staged == 2
            assert [message.body for message in session.browse("Q1")] == [b"free"]
    with QueueManager("QM1", folder, clock=clock) as manager, manager.session() as session:
        clock.advance(5_000)
        found = {message.body: message.backout_count for message in session.browse("Q1")}
        assert found == {b"delayed": 1, b"held": 1, b"free": 0}


def test_D32_the_example_of_the_page_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (ROOT / "docs" / "LIFETIME.md").read_text("utf-8")
    ((program, output),) = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    exec(compile(program, "LIFETIME.md", "exec"), {})
    assert capsys.readouterr().out == output
