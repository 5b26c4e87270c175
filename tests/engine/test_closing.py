"""The end: close beside threads at work, sessions that end badly, a full disk, a fork."""

from __future__ import annotations

import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw
import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import GetRequest, PutRequest, Session, queue_state
from mayfly.engine.api.administration import QMODEL
from mayfly.engine.due_work import end_non_persistent
from mayfly.engine.expiry import discard_expired
from mayfly.engine.get import Getter
from mayfly.engine.objects import administration
from mayfly.engine.queues import VOLATILE
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import StoreDamaged
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.outcomes import DetectedBy
from tests.spec.scene import INPUT, JOIN_SECONDS, OUTPUT, Running, bodies, local, refused, waiting
from tests.store.scene import failing_disk, raw, statement

FULL, ROOMY = 1, 1_000_000
ENDED = {rc.MQRC_Q_MGR_STOPPING, rc.MQRC_CONNECTION_BROKEN, rc.MQRC_HCONN_ERROR}


def pages(qm: QueueManager, limit: int) -> None:
    """Let the database grow to a number of pages, its present size for any number below."""
    qm.engine.store.commit([statement(f"PRAGMA max_page_count = {limit}")])


def begun_since(before: list[threading.Thread]) -> list[threading.Thread]:
    """Return the threads that have begun since; of those before some may have ended."""
    return [thread for thread in threading.enumerate() if thread not in before]


def until_closed(qm: QueueManager, call: Callable[[], object], codes: list[int]) -> None:
    """Call again and again until the queue manager refuses; keep the reason code."""
    while True:
        try:
            call()
        except MQError as error:
            codes.append(error.reason)
            return


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(6))
def test_close_beside_threads_at_work_leaves_books_that_balance(
    tmp_path: Path, round_: int
) -> None:
    """Whatever a thread was doing, its call ends in one clear reason code and nothing is lost."""
    qm = QueueManager("QM1", tmp_path, SystemClock())
    local(qm)
    codes: list[int] = []
    put_count, got_count = [0], [0]
    session_of = threading.local()

    def session(transacted: bool) -> Session:
        if not hasattr(session_of, "one"):
            session_of.one = qm.session(transacted=transacted)
        own: Session = session_of.one
        return own

    def put() -> None:
        session(False).put("Q1", b"x", persistent=True)
        put_count[0] += 1

    def get() -> None:
        if session(False).get("Q1", wait_ms=5) is not None:
            got_count[0] += 1

    def unit() -> None:
        own = session(True)
        own.put("Q1", b"unit", persistent=False)
        own.get("Q1")
        own.put("Q1", b"unit", persistent=True)
        own.backout()

    def volatile() -> None:
        session(False).put("Q1", b"v", persistent=False, time_to_live_ms=2)
        session(False).get("Q1")

    def browse() -> None:
        for _ in session(False).browse("Q1"):
            pass

    def read() -> None:
        qm.engine.check_running()
        qm.ledger.page(qm.ledger.last_position(), 10)

    calls = [put, get, unit, volatile, browse, read]
    threads = [Running(partial(until_closed, qm, call, codes)) for call in calls]
    while put_count[0] < 10 + 5 * round_:
        threading.Event().wait(0.001)
    qm.close()
    for thread in threads:
        thread.finish()
    assert len(codes) == len(calls)
    assert set(codes) <= ENDED
    with QueueManager("QM1", tmp_path, SystemClock()) as again:
        found = again.verify()
        assert found.ok, found.problems


def test_a_backout_that_the_close_overtakes_finds_its_messages_ended(tmp_path: Path) -> None:
    """The close ends what a restart loses while another thread is in the midst of its backout."""
    qm = QueueManager("QM1", tmp_path, VirtualClock(0))
    local(qm)
    with qm.session() as s:
        s.put("Q1", b"volatile", persistent=False)
        s.put("Q1", b"kept", persistent=True)
    session = qm.session(transacted=True)
    assert [session.get("Q1") is not None for _ in range(2)] == [True, True]
    qm.engine.is_closing = True
    end_non_persistent(qm.engine)
    session.unit_of_work.backout()
    queue = qm.engine.registry.queue("Q1")
    assert (queue.depth, queue.locked, queue.present) == (1, 0, [0, 1])
    qm.engine.is_closing = False
    assert qm.verify().ok
    qm.close()
    with QueueManager("QM1", tmp_path, VirtualClock(0)) as again:
        assert bodies(again.session(), "Q1") == [b"kept"]


def test_a_discard_that_the_close_overtakes_leaves_the_message_to_the_close(tmp_path: Path) -> None:
    """A thread that has found an expired message comes to run the discard when the close has it."""
    clock = VirtualClock(0)
    qm = QueueManager("QM1", tmp_path, clock)
    local(qm)
    with qm.session() as s:
        s.put("Q1", b"volatile", persistent=False, time_to_live_ms=1)
    clock.advance(2)
    queue = qm.engine.registry.queue("Q1")
    with qm.engine.engine_lock:
        [row] = qm.engine.store.volatile.in_order(queue.low, queue.high, 10)
        overtaken = discard_expired(
            qm.engine, [(queue, row, VOLATILE)], clock.now_ms(), DetectedBy.SCAN
        )
        closing = Transaction()
        queue_state.end_at_close(qm.engine, closing, (queue, row, VOLATILE), clock.now_ms())
        qm.engine.committer.take_back(overtaken)
    qm.engine.committer.run(closing)
    assert (queue.depth, queue.locked, queue.present) == (0, 0, [0, 0])
    assert qm.verify().ok
    qm.close()


def test_close_waits_for_nobody_who_waits(tmp_path: Path) -> None:
    qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    getter = waiting(qm, "Q1", lambda: qm.session().get("Q1", wait_ms=-1))
    qm.close()
    getter.finish()
    assert getter.error is not None
    assert getter.error.reason == rc.MQRC_Q_MGR_STOPPING


@pytest.mark.parametrize("persistent", [False, True])
def test_a_get_under_way_when_the_end_comes_is_refused_and_its_message_kept(
    tmp_path: Path, persistent: bool
) -> None:
    """Its message was handed over before the end, its thread comes to the disk after it."""
    qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    session = qm.session()
    session.put("Q1", b"kept", persistent=persistent)
    with qm.engine.engine_lock:
        getter = Getter(
            qm.engine, qm.engine.registry.resolve("Q1"), GetRequest(), None, Requester(qm.engine)
        )
        outcome = getter.take()
    assert outcome is not None
    work = outcome[1]
    assert work is not None
    qm.close()
    with pytest.raises(MQError) as late:
        qm.engine.committer.run(work)
    assert late.value.reason in ENDED
    with QueueManager("QM1", tmp_path, VirtualClock()) as again:
        found = again.verify()
        assert found.ok, found.problems
        assert bodies(again.session(), "Q1") == ([b"kept"] if persistent else [])


def test_after_the_end_every_call_says_so(tmp_path: Path) -> None:
    qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    session = qm.session()
    handle = session.open("Q1", INPUT | OUTPUT)
    stream = session.browse("Q1")
    qm.close()
    qm.close()
    for call in (
        lambda: session.put("Q1", b"x"),
        lambda: session.get("Q1"),
        session.commit,
        lambda: handle.put(b"x", PutRequest(Descriptor())),
        lambda: handle.get(GetRequest()),
        handle.close,
        lambda: next(stream),
        qm.session,
        qm.verify,
        lambda: qm.counts("Q1"),
        lambda: qm.ledger.page(0, 1),
        qm.ledger.last_position,
    ):
        with pytest.raises(MQError) as ended:
            call()
        assert ended.value.reason in ENDED | {rc.MQRC_HOBJ_ERROR}, call
    session.close()


def test_a_session_that_is_closed_ends_its_browse(queue_manager: QueueManager) -> None:
    local(queue_manager)
    session = queue_manager.session()
    session.put("Q1", b"1")
    session.put("Q1", b"2")
    stream = session.browse("Q1")
    assert next(stream).body == b"1"
    session.close()
    with refused(rc.MQRC_HCONN_ERROR):
        next(stream)


def test_a_full_disk_at_the_end_frees_the_folder_all_the_same(tmp_path: Path) -> None:
    qm = QueueManager("QM1", tmp_path, VirtualClock())
    local(qm)
    unit = qm.session(transacted=True)
    plain = qm.session()
    for _ in range(50):
        plain.put("Q1", b"x" * 1000, persistent=True)
    assert unit.get("Q1") is not None
    for _ in range(300):
        plain.put("Q1", b"volatile", persistent=False)
    pages(qm, FULL)
    qm.close()
    with QueueManager("QM1", tmp_path, VirtualClock()) as again:
        found = again.verify()
        assert found.ok, found.problems
        assert len(bodies(again.session(), "Q1")) == 50


def test_a_session_whose_commit_finds_the_disk_full_still_lets_go(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        local(qm)
        session = qm.session(transacted=True)
        session.open("Q1", c.MQOO_INPUT_EXCLUSIVE)
        session.put("Q1", b"x" * 100_000, persistent=True)
        pages(qm, FULL)
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            session.close()
        pages(qm, ROOMY)
        assert qm.counts("Q1") == (0, 0, 0, 0, 0)
        with qm.session() as other:
            other.open("Q1", c.MQOO_INPUT_EXCLUSIVE)
        queue = qm.engine.registry.queue("Q1")
        assert (queue.input_count, queue.output_count, queue.exclusive_holder) == (0, 0, None)


def test_C9_a_temporary_queue_in_use_elsewhere_does_not_keep_its_session_open(
    queue_manager: QueueManager,
) -> None:
    qm = queue_manager
    local(qm)
    administration.define(qm.engine, QMODEL, "MODEL", {"DEFTYPE": c.MQQDT_TEMPORARY_DYNAMIC})
    owner = qm.session()
    temporary = owner.open("MODEL", INPUT, dynamic_name="TEMP")
    owner.open("Q1", c.MQOO_INPUT_EXCLUSIVE)
    other = qm.session(transacted=True)
    other.put(temporary.queue_name, b"uncommitted")
    owner.close()
    with qm.session() as third:
        third.open("Q1", c.MQOO_INPUT_EXCLUSIVE)
    other.backout()
    other.close()


def test_closing_a_handle_twice_counts_once(queue_manager: QueueManager) -> None:
    """The queue manager's end and a session's own end may meet."""
    local(queue_manager)
    session = queue_manager.session()
    handle = session.open("Q1", INPUT | OUTPUT)
    session.close_handle(handle)
    session.close_handle(handle)
    queue = queue_manager.engine.registry.queue("Q1")
    assert (queue.input_count, queue.output_count) == (0, 0)


def test_a_start_that_fails_frees_the_folder(tmp_path: Path) -> None:
    QueueManager("QM1", tmp_path, VirtualClock()).close()
    file = raw(tmp_path)
    file.execute("INSERT INTO object VALUES ('QLOCAL', 'BAD', 77, 'no json')")
    before = threading.enumerate()
    with pytest.raises(StoreDamaged, match="QLOCAL BAD"):
        QueueManager("QM1", tmp_path, VirtualClock())
    assert begun_since(before) == []
    file.execute("DELETE FROM object WHERE name = 'BAD'")
    file.close()
    QueueManager("QM1", tmp_path, VirtualClock()).close()


@pytest.mark.slow
def test_opening_and_closing_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.enumerate()
    for _ in range(40):
        QueueManager("QM1", clock=SystemClock()).close()
    for _ in range(4):
        QueueManager("QM1", tmp_path, SystemClock()).close()
    assert begun_since(before) == []


def in_child(call: Callable[[], None]) -> int:
    """Fork, run a call there, return its exit status; a child that hangs ends by SIGALRM."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(JOIN_SECONDS))
        status = 1
        try:
            call()
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("ends", [Session.backout, partial(Session.close, commit=False)])
def test_G8_a_forked_child_leaves_the_gets_of_its_parent_noted(
    tmp_path: Path, ends: Callable[[Session], None]
) -> None:
    """The child has the memory of the file as well."""
    with QueueManager("QM1", tmp_path, VirtualClock()) as qm, qm.session(transacted=True) as unit:
        local(qm)
        unit.put("Q1", b"x", persistent=True)
        unit.commit()
        assert unit.get("Q1") is not None

        def child() -> None:
            with suppress(MQError):
                ends(unit)

        assert in_child(child) == 0
        [held] = qm.engine.store.held_gets.leftovers()
        assert held.backout_count == 0
        unit.commit()
        assert qm.engine.store.held_gets.leftovers() == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_while_another_thread_holds_the_lock_is_told_at_once(
    tmp_path: Path,
) -> None:
    twin = QueueManager("QM1", tmp_path / "twin", SystemClock())
    qm = QueueManager("QM1", tmp_path / "one", SystemClock())
    local(qm)
    local(twin)
    session, other = qm.session(), twin.session()
    handle = session.open("Q1", INPUT | OUTPUT)
    session.put("Q1", b"x", persistent=False)
    session.get("Q1")
    queue_state, done = threading.Event(), threading.Event()

    def hold() -> None:
        with qm.engine.engine_lock, twin.engine.engine_lock, qm.engine.store.group._lock:
            queue_state.set()
            done.wait(JOIN_SECONDS)

    requester = threading.Thread(target=hold)
    requester.start()
    assert queue_state.wait(JOIN_SECONDS)

    def child() -> None:
        for call in (
            lambda: session.put("Q1", b"child"),
            lambda: other.put("Q1", b"child"),
            lambda: handle.put(b"child", PutRequest(Descriptor())),
            lambda: handle.get(GetRequest()),
            qm.session,
            qm.verify,
            twin.verify,
            lambda: qm.counts("Q1"),
            lambda: qm.ledger.page(0, 1),
        ):
            with refused(rc.MQRC_CONNECTION_BROKEN):
                call()
        handle.close()
        session.close()
        qm.close()
        twin.close()

    status = in_child(child)
    done.set()
    requester.join(JOIN_SECONDS)
    assert status == 0
    for parent in (session, other):
        parent.put("Q1", b"parent", persistent=True)
        assert bodies(parent, "Q1") == [b"parent"]
    for manager in (qm, twin):
        assert manager.verify().ok
        manager.close()


def test_G9_a_session_that_is_dropped_is_backed_out(queue_manager: QueueManager) -> None:
    qm = queue_manager
    local(qm)
    with qm.session() as session:
        session.put("Q1", b"taken")
    dropped = qm.session(transacted=True)
    assert dropped.get("Q1") is not None
    dropped.put("Q1", b"never committed")
    del dropped
    gc.collect()
    with qm.session() as session:
        session.put("Q1", b"later")
        message = session.get("Q1")
        assert message is not None
        assert message.body == b"taken"
        assert message.backout_count == 1
        assert bodies(session, "Q1") == [b"later"]


def test_G8_a_backout_on_a_full_disk_gives_the_message_back_all_the_same(tmp_path: Path) -> None:
    with failing_disk() as disk, QueueManager("QM1", tmp_path, VirtualClock()) as qm:
        local(qm)
        session = qm.session(transacted=True)
        session.put("Q1", b"taken", persistent=True)
        session.commit()
        assert session.get("Q1") is not None
        disk.error, disk.failing = apsw.FullError, "write .db-wal"
        session.backout()
        disk.failing = ""
        assert any(call.startswith("write .db-wal") for call in disk.calls)
        message = session.get("Q1")
        assert message is not None
        assert message.backout_count == 0
        assert qm.verify().ok
