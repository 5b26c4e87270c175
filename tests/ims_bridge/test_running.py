"""The bridge at work: passes, its thread, how it stops, and what it does not do again and again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.ims_bridge import ImsBridge
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.facts import wait_until_blocked
from tests.ims_bridge.scene import (
    DEAD,
    IMS,
    PASS_EXPIRATION,
    PATIENCE_SECONDS,
    REPLIES,
    Calls,
    HeldBridges,
    answering,
    ask,
    dead_header,
    got,
)
from tests.spec.scene import refused


def test_pass_answers_what_is_there_in_order_and_says_how_many(
    manager: QueueManager, session: Session
) -> None:
    bridge = ImsBridge(manager, queue=IMS, transaction=lambda request, _iih: request.upper())
    assert bridge.run_once() == 0
    for data in (b"one", b"two", b"three"):
        ask(session, data=data)
    assert bridge.run_once() == 3
    assert [got(session).body[84:] for _ in range(3)] == [b"ONE", b"TWO", b"THREE"]
    assert not bridge.is_running


def test_pass_ends_though_replies_are_requests_again(
    manager: QueueManager, session: Session
) -> None:
    ask(session, reply_to_q=IMS)
    assert answering(manager).run_once() == 1
    assert manager.curdepth(IMS) == 1


def test_uncommitted_requests_are_not_seen(manager: QueueManager) -> None:
    bridge = answering(manager)
    with manager.session(transacted=True) as putter:
        putter.put(IMS, b"question", format_name="MQIMSVS", reply_to_q=REPLIES)
        assert bridge.run_once() == 0
    assert bridge.run_once() == 1


def test_pass_and_start_refuse_what_cannot_be_got_from(manager: QueueManager) -> None:
    bridge = ImsBridge(manager, queue="NOWHERE", transaction=lambda _request, _iih: None)
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        bridge.run_once()
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        bridge.start()
    assert not bridge.is_running
    assert manager.mqsc(f"ALTER QLOCAL({IMS}) GET(DISABLED)").ok
    ask_session = manager.session()
    ask(ask_session)
    with refused(rc.MQRC_GET_INHIBITED):
        answering(manager).run_once()
    with pytest.raises(TypeError, match="transaction 5 cannot be called"):
        ImsBridge(manager, queue=IMS, transaction=5)  # type: ignore[arg-type]  # wrong on purpose


def test_running_bridge_answers_as_requests_come(manager: QueueManager, session: Session) -> None:
    bridge = answering(manager)
    ask(session)
    bridge.start()
    bridge.start()
    for _ in range(3):
        message = session.get(REPLIES, wait_ms=1)
        assert message is not None
        ask(session)
    bridge.stop()
    assert not bridge.is_running
    assert manager.curdepth(IMS) + manager.curdepth(REPLIES) == 1


def test_E30_running_bridge_passes_what_was_left_when_it_got_the_request(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    bridge = answering(manager)
    ask(session, PASS_EXPIRATION, life_ms=20_000)
    clock.advance(12_345)
    bridge.start()
    message = session.get(REPLIES, wait_ms=1)
    bridge.stop()
    assert message is not None
    assert message.remaining_ms == 7_655


def test_stop_waits_for_the_request_in_work_and_takes_no_more(
    manager: QueueManager, session: Session
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)

    bridge = answering(manager, work)
    bridge.start()
    ask(session)
    ask(session)
    assert begun.wait(PATIENCE_SECONDS)
    stopper = threading.Thread(target=bridge.stop, daemon=True)
    stopper.start()
    wait_until_blocked(stopper)
    may_end.set()
    stopper.join(PATIENCE_SECONDS)
    assert not stopper.is_alive()
    assert (manager.curdepth(IMS), manager.curdepth(REPLIES)) == (1, 1)
    bridge.stop()
    bridge.start()
    assert got(session).body.endswith(b"answer")
    assert session.get(REPLIES, wait_ms=1) is not None
    bridge.stop()


def test_transaction_may_stop_its_bridge(manager: QueueManager, session: Session) -> None:
    bridge: ImsBridge

    def work() -> None:
        bridge.stop()

    bridge = answering(manager, work)
    bridge.start()
    ask(session)
    ask(session)
    assert session.get(REPLIES, wait_ms=1) is not None
    bridge.stop()
    assert not bridge.is_running
    assert (manager.curdepth(IMS), manager.curdepth(REPLIES)) == (1, 0)


def test_failing_request_is_tried_BOTHRESH_times_and_the_next_is_answered(
    manager: QueueManager, session: Session
) -> None:
    assert manager.mqsc(f"ALTER QLOCAL({IMS}) BOTHRESH(3)").ok
    calls = Calls(fail_count=3)
    bridge = answering(manager, calls)
    ask(session, data=b"bad")
    ask(session, data=b"good")
    bridge.start()
    assert session.get(REPLIES, wait_ms=1) is not None
    bridge.stop()
    assert calls.count == 4
    assert dead_header(got(session, DEAD)) == (300, IMS)


def test_failing_request_without_BOTHRESH_holds_the_bridge_until_a_definition_changes(
    manager: QueueManager, session: Session, held: HeldBridges
) -> None:
    calls = Calls(fail_count=2)
    bridge = answering(manager, calls)
    bridge.start()
    ask(session)
    held.wait()
    ask(session)
    assert (bridge.is_running, calls.count, manager.counts(IMS).live) == (True, 1, 2)
    bridge.stop()
    assert calls.count == 1
    bridge.start()
    held.wait()
    assert calls.count == 2
    assert manager.mqsc(f"ALTER QLOCAL({IMS}) DESCR('again')").ok
    assert [session.get(REPLIES, wait_ms=1) is not None for _ in range(2)] == [True, True]
    bridge.stop()
    assert calls.count == 4


def test_running_bridge_waits_while_get_is_disabled(
    manager: QueueManager, session: Session
) -> None:
    assert manager.mqsc(f"ALTER QLOCAL({IMS}) GET(DISABLED)").ok
    bridge = answering(manager)
    bridge.start()
    ask(session)
    assert bridge.is_running
    assert manager.curdepth(IMS) == 1
    assert manager.mqsc(f"ALTER QLOCAL({IMS}) GET(ENABLED)").ok
    assert session.get(REPLIES, wait_ms=1) is not None
    bridge.stop()


def test_reply_that_can_go_nowhere_holds_the_bridge_until_the_queues_are_repaired(
    manager: QueueManager, session: Session, held: HeldBridges
) -> None:
    assert manager.mqsc("ALTER QLOCAL(REPLIES) PUT(DISABLED)\nALTER QMGR DEADQ('')").ok
    calls = Calls()
    bridge = answering(manager, calls)
    bridge.start()
    ask(session)
    held.wait()
    assert next(session.browse(IMS)).backout_count == 1
    assert manager.mqsc("ALTER QLOCAL(REPLIES) PUT(ENABLED)").ok
    assert session.get(REPLIES, wait_ms=1) is not None
    bridge.stop()
    assert calls.count == 2


def test_definition_that_changes_while_a_request_fails_lets_it_be_tried_again(
    manager: QueueManager, session: Session
) -> None:
    calls = Calls(fail_count=1)

    def repair_and_fail() -> None:
        if not calls.count:
            assert manager.mqsc(f"ALTER QLOCAL({IMS}) DESCR('repaired')").ok
        calls()

    bridge = answering(manager, repair_and_fail)
    bridge.start()
    ask(session)
    assert session.get(REPLIES, wait_ms=1) is not None
    bridge.stop()
    assert calls.count == 2


@pytest.mark.slow
def test_bridge_ends_with_its_queue_manager_and_loses_nothing(
    clock: VirtualClock, tmp_path: Path
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)

    with QueueManager("QM2", tmp_path, clock) as manager:
        assert manager.mqsc(f"DEFINE QLOCAL({IMS})\nDEFINE QLOCAL({REPLIES})").ok
        bridge = answering(manager, work)
        bridge.start()
        with manager.session() as session:
            ask(session, persistence=1)
        assert begun.wait(PATIENCE_SECONDS)
    may_end.set()
    bridge.stop()
    with QueueManager("QM2", tmp_path, clock) as manager:
        assert (manager.curdepth(IMS), manager.curdepth(REPLIES)) == (1, 0)
        assert manager.verify().ok


def test_waiting_bridge_ends_with_its_queue_manager(clock: VirtualClock) -> None:
    with QueueManager("QM2", clock=clock) as manager:
        assert manager.mqsc(f"DEFINE QLOCAL({IMS})").ok
        bridge = answering(manager)
        bridge.start()
    bridge.stop()
    assert not bridge.is_running
