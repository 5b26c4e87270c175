"""Sessions over real sockets: an operator's work on a queue manager that is served."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
import pytest

from mayfly import MQError, QueueManager, SystemClock, jms
from mayfly.bulk.errors import (
    BadRequest,
    ServerFailed,
    ServerNotReachable,
    UnknownManager,
    WrongToken,
    from_flight,
)
from mayfly.contracts.sessions import VERSION, packed, unpacked
from mayfly.dead_letter import Outcome
from mayfly.engine import Message, Receipt, ScheduleFilter, Session, position_of
from mayfly.engine.face.programs import token_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.served import ServedQueueManager
from mayfly.served.session import ServedSession
from mayfly.servers import flight as flight_server
from mayfly.servers.flight import FlightServer
from mayfly.testing import VirtualClock
from tests.bulk.books import TOKEN, kept_books
from tests.dead_letter.scene import put_dead_letter
from tests.spec.scene import DEAD

START_MS = 1_700_000_000_000
HUGE = 2**40
DELAY_MS = 60_000
AnySession = Session | ServedSession


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START_MS)


@pytest.fixture
def manager(clock: VirtualClock) -> Iterator[QueueManager]:
    with QueueManager("QM1", clock=clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
        yield manager


@pytest.fixture
def server(manager: QueueManager) -> Iterator[FlightServer]:
    with FlightServer(manager, port=0, token=TOKEN) as server:
        yield server


@pytest.fixture
def served(server: FlightServer) -> Iterator[ServedQueueManager]:
    with ServedQueueManager(server.url, token=TOKEN) as served:
        yield served


@pytest.fixture
def session(served: ServedQueueManager) -> Iterator[ServedSession]:
    with served.session("anna") as session:
        yield session


def raised(call: Callable[[AnySession], object], session: AnySession) -> tuple[int, str]:
    """Return reason and detail of the MQError of a call."""
    with pytest.raises(MQError) as error:
        call(session)
    return error.value.reason, error.value.detail


# MQSC


@pytest.mark.parametrize(
    "script",
    [
        "DEFINE QLOCAL(Q3) CAPEXPRY(600)\nDISPLAY QLOCAL(Q*) CAPEXPRY MAXDEPTH",
        "* note\nDISPLAY QLOCAL(NONE)\nALTER QLOCAL(Q1) +\n  MAXDEPTH(-1)\nEND\nDELETE QLOCAL(Q2)",
        "DELETE QLOCAL(Q1)\nDELETE QLOCAL(Q1)\nDEFINE QLOCAL('\N{EURO SIGN}')\nSTART CHANNEL(X)",
        "",
    ],
)
def test_a_script_answers_what_it_answers_in_process(
    served: ServedQueueManager, script: str
) -> None:
    with QueueManager("QM1", clock=VirtualClock(START_MS)) as other:
        other.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
        expected = other.mqsc(script)
    found = served.mqsc(script)
    assert found == expected
    assert (found.text, found.rows, found.ok) == (expected.text, expected.rows, expected.ok)


def test_channels_are_started_and_stopped(
    manager: QueueManager, served: ServedQueueManager, clock: VirtualClock
) -> None:
    with QueueManager("QM2", clock=clock) as other:
        other.mqsc("DEFINE QLOCAL(IN)\nDEFINE CHANNEL(QM1.TO.QM2) CHLTYPE(RCVR)")
        assert served.mqsc("""
            DEFINE QLOCAL(QM2) USAGE(XMITQ)
            DEFINE CHANNEL(QM1.TO.QM2) CHLTYPE(SDR) CONNAME(QM2) XMITQ(QM2)
            START CHANNEL(QM1.TO.QM2)
        """).ok
        with served.session() as session:
            session.put("IN@QM2", b"over there", time_to_live_ms=20_000)
        with other.session() as there:
            message = there.get("IN")
        assert message is not None
        assert (message.body, message.remaining_ms) == (b"over there", 20_000)
        assert served.mqsc("STOP CHANNEL(QM1.TO.QM2)").ok
        [standing] = manager.channels.status("QM1.TO.QM2")
        assert standing.status == "STOPPED"


# Messages


def test_a_message_is_put_and_got_with_all_it_has(
    manager: QueueManager, session: ServedSession, clock: VirtualClock
) -> None:
    body = b'\x00\n{"hex": "00"}\xff' * 3
    msg_id = session.put(
        "Q1",
        body,
        time_to_live_ms=20_000,
        priority=7,
        persistent=True,
        msg_id=b"m" * 24,
        correl_id=b"c" * 24,
        report=c.MQRO_EXPIRATION,
        reply_to_q="Q2",
    )
    assert msg_id == b"m" * 24
    clock.advance(500)
    with manager.session() as local:
        [expected] = local.browse("Q1")
    [browsed] = session.browse("Q1", msg_id=msg_id)
    got = session.get("Q1", correl_id=b"c" * 24)
    assert got is not None
    for message in (browsed, got):
        assert (message.body, message.queue, message.msg_id) == (body, "Q1", msg_id)
        assert (message.remaining_ms, message.remaining_tenths) == (19_500, 195)
        assert message.descriptor == expected.descriptor
        assert message.descriptor.user_identifier == "anna"
    assert session.get("Q1") is None
    assert list(session.browse("Q1")) == []


def test_a_browsed_message_shows_all_that_it_shows_in_process(
    manager: QueueManager, clock: VirtualClock, session: ServedSession
) -> None:
    with manager.session("bert") as local:
        local.put(
            "Q1", b"x", time_to_live_ms=3 * DELAY_MS, correl_id=b"c", properties={"colour": "red"}
        )
        local.put(
            "Q1", b"y", delay_ms=DELAY_MS, persistent=True, report=c.MQRO_COD, reply_to_q="Q2"
        )
        clock.advance(DELAY_MS)
        names = [n for n in dir(Message) if not n.startswith("_") and n != "cut_to"]
        here, there = list(local.browse("Q1")), list(session.browse("Q1"))
    assert len(here) == len(there) == 2
    for one, other in zip(here, there, strict=True):
        assert {n: getattr(one, n) for n in names} == {n: getattr(other, n) for n in names}
        assert (position_of(one), token_of(one)) == (position_of(other), token_of(other))


def test_E4_a_message_can_be_got_until_its_deadline(
    session: ServedSession, clock: VirtualClock
) -> None:
    for left_ms, is_there in ((1, True), (0, False), (-1, False)):
        session.put("Q1", b"x", time_to_live_ms=1_000)
        clock.advance(1_000 - left_ms)
        got = session.get("Q1")
        assert (got is not None) is is_there
        assert got is None or got.remaining_ms == left_ms


def test_a_body_larger_than_grpc_allows_by_default_travels(
    manager: QueueManager, session: ServedSession
) -> None:
    manager.mqsc(f"ALTER QMGR MAXMSGL({8 * 2**20})\nALTER QLOCAL(Q1) MAXMSGL({8 * 2**20})")
    session.put("Q1", bytes(8 * 2**20))
    got = session.get("Q1")
    assert got is not None
    assert got.body == bytes(8 * 2**20)


CALLS: list[Callable[[AnySession], object]] = [
    lambda s: s.put("NONE", b"x"),
    lambda s: s.put("Q1", b"x", priority=-5),
    lambda s: s.put("Q1", b"x", time_to_live_ms=0),
    lambda s: s.put("Q1", b"x", time_to_live_ms=10, delay_ms=20),
    lambda s: s.put("Q1", b"x", report=c.MQRO_EXPIRATION),
    lambda s: s.put("Q1", b"x", msg_id=b"x" * 25),
    lambda s: s.get("NONE"),
    lambda s: s.get("Q1", wait_ms=-2),
    lambda s: list(s.browse("NONE")),
    lambda s: s.schedule.list(limit=0),
    lambda s: s.schedule.audit(0),
    lambda s: s.schedule.count("NONE"),
    lambda s: s.schedule.reschedule(b"x", delay_ms=1, deliver_at_ms=1),
    lambda s: list(s.schedule.reschedule_all(ScheduleFilter())),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_a_refusal_has_the_reason_and_the_detail_of_one_in_process(
    manager: QueueManager, session: ServedSession, call: Callable[[AnySession], object]
) -> None:
    with manager.session("anna") as local:
        expected = raised(call, local)
    assert raised(call, session) == expected
    assert (manager.curdepth("Q1"), session.schedule.count()) == (0, 0)


def test_the_token_is_the_operator_whatever_name_is_told(
    manager: QueueManager, served: ServedQueueManager
) -> None:
    manager.mqsc("SET AUTHREC PROFILE(Q2) OBJTYPE(QUEUE) PRINCIPAL('bert') AUTHADD(GET)")
    with manager.session("anna") as local:
        reason, _ = raised(lambda session: session.put("Q1", b"x"), local)
    assert reason == rc.MQRC_NOT_AUTHORIZED
    with served.session("anna", program="mayfly put") as session:
        session.put("Q1", b"x")
        [message] = session.browse("Q1")
    descriptor = message.descriptor
    assert (descriptor.user_identifier, descriptor.put_appl_name.strip()) == ("anna", "mayfly put")


# Units of work


def test_a_unit_of_work_is_committed_at_the_end_of_its_block_or_backed_out(
    manager: QueueManager, served: ServedQueueManager
) -> None:
    with served.session(transacted=True) as session:
        session.put("Q1", b"x")
        assert manager.counts("Q1").uncommitted == 1
    assert manager.counts("Q1").live == 1
    with pytest.raises(TypeError), served.session(transacted=True) as session:
        len(session.get("Q1"))  # type: ignore[arg-type]  # a message has none
    with served.session(transacted=True) as session:
        got = session.get("Q1")
        assert got is not None
        assert got.backout_count == 1
        session.backout()
        session.commit()
        got = session.get("Q1")
        assert got is not None
        assert got.backout_count == 2
        session.commit()
    assert manager.curdepth("Q1") == 0


def test_a_connection_that_breaks_backs_out_what_is_not_committed(
    manager: QueueManager, served: ServedQueueManager
) -> None:
    with manager.session() as local:
        local.put("Q1", b"kept")
    session = served.session(transacted=True)
    assert session.get("Q1") is not None
    session.put("Q2", b"never")
    session._calls.cancel()
    with pytest.raises(ServerFailed, match="given up"):
        session.commit()
    wait_until(lambda: manager.counts("Q1").locked == 0)
    assert (manager.counts("Q1").live, manager.curdepth("Q2")) == (1, 0)
    session.close(commit=False)
    session.close()


@pytest.mark.slow
def test_a_session_that_is_silent_does_not_hold_a_server_that_stops(
    manager: QueueManager,
    server: FlightServer,
    served: ServedQueueManager,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flight_server, "_STOP_SECONDS", 0.2)
    session = served.session(transacted=True)
    session.put("Q1", b"never")
    server.stop()
    assert server.is_held
    reason, _ = raised(lambda session: session.commit(), session)
    assert reason == rc.MQRC_Q_MGR_STOPPING
    session._calls.close()
    assert manager.curdepth("Q1") == 0


# The schedule


def test_the_schedule_is_seen_and_changed_with_the_receipts_of_one_in_process(
    manager: QueueManager, session: ServedSession, clock: VirtualClock
) -> None:
    ids = [session.put("Q1", b"later", delay_ms=DELAY_MS + n) for n in range(5)]
    schedule = session.schedule
    with manager.session("bert") as local:
        assert schedule.list(limit=2) == local.schedule.list(limit=2)
        [_, second] = schedule.list(limit=2)
        where = ScheduleFilter("Q1", "anna", (), START_MS, START_MS + DELAY_MS + 4)
        rest = schedule.list(where, after=second.position)
        assert rest == local.schedule.list(where, after=second.position)
        assert [entry.msg_id for entry in rest] == ids[2:4]
        assert schedule.show(ids[0]) == local.schedule.show(ids[0])
    assert schedule.show(b"none") is None
    assert (schedule.count(), schedule.count("Q1"), schedule.count("Q2")) == (5, 5, 0)
    assert schedule.cancel(ids[0]) is Receipt.CANCELLED
    assert schedule.cancel(ids[0]) is Receipt.CANCELLED
    assert schedule.cancel(b"none") is Receipt.UNKNOWN
    assert schedule.reschedule(ids[1], delay_ms=0) is Receipt.RESCHEDULED
    assert manager.curdepth("Q1") == 1
    assert schedule.release(ids[2]) is Receipt.RELEASED
    assert manager.curdepth("Q1") == 2
    assert list(schedule.reschedule_all(ScheduleFilter("Q1"), by_ms=-DELAY_MS)) == [2]
    assert (manager.curdepth("Q1"), schedule.count()) == (2, 2)
    clock.advance(3)
    assert (manager.curdepth("Q1"), schedule.count()) == (3, 1)
    assert list(schedule.release_all(ScheduleFilter("Q1"))) == [1]
    assert (manager.curdepth("Q1"), schedule.count()) == (4, 0)
    assert list(schedule.cancel_all(ScheduleFilter())) == [0]
    last, *_ = schedule.audit(limit=1)
    assert (last.user, last.action, last.message_count) == ("anna", "release", 1)


def test_only_those_with_the_property_are_cancelled(
    manager: QueueManager, session: ServedSession
) -> None:
    with manager.session() as local:
        for colour in ("red", "blue"):
            local.put("Q1", b"x", delay_ms=DELAY_MS, properties={"colour": colour})
    red = ScheduleFilter(properties=(("colour", "red"),))
    assert list(session.schedule.cancel_all(red)) == [1]
    assert session.schedule.count() == 1


# Dead letters


def test_a_handler_works_there_and_tells_what_it_did(
    manager: QueueManager, served: ServedQueueManager
) -> None:
    manager.mqsc(f"DEFINE QLOCAL({DEAD})\nALTER QMGR DEADQ({DEAD})")
    put_dead_letter(manager)
    put_dead_letter(manager, target="NOWHERE")
    with served.letter_handler("ACTION(RETRY)") as handler:
        assert handler.queue == DEAD
        handler.run_once()
    assert handler.counts[Outcome.REDRIVEN] == 1
    assert handler.counts[Outcome.FAILED] == 1
    assert handler.failures == {rc.MQRC_UNKNOWN_OBJECT_NAME: 1}
    assert (manager.curdepth("Q1"), manager.curdepth(DEAD)) == (1, 1)


def test_a_handler_that_waits_ends_when_it_is_stopped(
    manager: QueueManager, served: ServedQueueManager
) -> None:
    """And once more, when its connection ends: nobody has the queue open for input then."""
    manager.mqsc(f"DEFINE QLOCAL({DEAD})\nALTER QMGR DEADQ({DEAD})")
    for is_stopped in (True, False):
        with served.letter_handler("WAIT(YES)\nACTION(RETRY)") as handler:
            put_dead_letter(manager)
            if is_stopped:
                runner = threading.Thread(target=handler.run)
                runner.start()
                wait_until(lambda: manager.curdepth(DEAD) == 0)
                handler.stop()
                runner.join(60)
                assert not runner.is_alive()
                assert handler.counts[Outcome.REDRIVEN] == 1
            else:
                handler._calls.call("letters-start", once=False)
        wait_until(lambda: manager.engine.registry.resolve(DEAD).queue.input_count == 0)


def test_a_handler_that_fails_raises_the_reason(
    manager: QueueManager, served: ServedQueueManager
) -> None:
    with (
        pytest.raises(MQError) as error,
        served.letter_handler("ACTION(RETRY)") as handler,
    ):
        handler.run_once()
    assert error.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    with (
        pytest.raises(MQError) as error,
        served.letter_handler("ACTION(RETRY)", queue="Q1") as handler,
    ):
        handler.run_once()
    assert error.value.reason == rc.MQRC_GET_INHIBITED
    with pytest.raises(BadRequest, match="rules: line 1, column 1: FOO"):
        served.letter_handler("FOO(1)").__enter__()


# What makes no sense


def exchange(server: FlightServer, opening: dict[str, Any], *frames: bytes) -> list[Any]:
    """Return what is answered to frames that no client of ours would send."""
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    descriptor = flight.FlightDescriptor.for_command(json.dumps(opening).encode())
    with flight.connect(server.url) as connection:
        writer, reader = connection.do_exchange(descriptor, options)
        with writer:
            answers = [unpacked(reader.read_chunk().app_metadata.to_pybytes())[0]]
            for frame in frames:
                writer.write_metadata(frame)
                answers.append(unpacked(reader.read_chunk().app_metadata.to_pybytes())[0])
            writer.done_writing()
            return answers


def opening(**fields: object) -> dict[str, Any]:
    return {
        "session": {"protocol": VERSION, "user": "", "program": "p", "transacted": False, **fields}
    }


PUT = {
    "verb": "put",
    "queue": "Q1",
    "time_to_live_ms": None,
    "delay_ms": 0,
    "priority": None,
    "persistent": None,
    "msg_id": None,
    "correl_id": None,
    "report": 0,
    "reply_to_q": "",
}
GET = {"verb": "get", "queue": "Q1", "wait_ms": 0, "msg_id": None, "correl_id": None}
LIST = {"verb": "schedule-list", "limit": 1, "after": None}


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"\n", "begins with a line of JSON"),
        (b"\xff\xfe", "begins with a line of JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "with the text 'verb'"),
        (b'{"verb": 1}', "with the text 'verb'"),
        (b'{"verb": "stop"}', "unknown verb 'stop'"),
        (b'{"verb": "next", "stream": 0}', "there is no stream 0"),
        (b'{"verb": "next", "stream": -1}', "there is no stream -1"),
        (b'{"verb": "mqsc"}', r"asked for [], known: ['script']"),
        (b'{"verb": "mqsc", "script": 5}', "script cannot be 5"),
        (b'{"verb": "commit", "now": 1}', "asked for ['now'], known: []"),
        (b'{"verb": "commit"}\nbody', "commit takes no body"),
        (b'{"verb": "letters-start", "once": true}', "no handler of dead letters was opened"),
        (packed({**PUT, "priority": True}, b"x"), "priority cannot be True"),
        (packed({**PUT, "persistent": 1}, b"x"), "persistent cannot be 1"),
        (packed({**PUT, "delay_ms": 2**64}, b"x"), f"delay_ms cannot be {2**64}"),
        (packed({**PUT, "msg_id": "00"}, b"x"), "msg_id cannot be '00'"),
        (packed({**PUT, "msg_id": {"hex": "zz"}}, b"x"), "non-hexadecimal"),
        (packed({**PUT, "msg_id": {"hex": 5}}, b"x"), "a value of 'hex' is no text"),
        (packed({**GET, "wait_ms": 1_001}), "wait_ms 1001 is more than 1000"),
        (packed({**GET, "wait_ms": -1}), "wait_ms -1 is more than 1000"),
        (packed({**LIST, "where": []}), "where cannot be []: it has five values"),
        (packed({**LIST, "where": [1, None, [], None, None]}), "queue cannot be 1"),
        (packed({**LIST, "where": [None, None, [["a"]], None, None]}), "pairs of texts"),
    ],
    ids=range(24),
)
def test_a_call_that_makes_no_sense_is_answered_and_the_session_goes_on(
    manager: QueueManager, server: FlightServer, frame: bytes, said: str
) -> None:
    first, wrong, last = exchange(server, opening(), frame, packed(PUT, b"fine"))
    assert first == {"answer": "QM1"}
    assert said in wrong["wrong"]
    assert isinstance(last["answer"], bytes)
    assert manager.curdepth("Q1") == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ledger": {}}, "the one verb 'session'"),
        ({"session": []}, "must be a JSON object"),
        ({"session": {}}, "known: ['program', 'protocol', 'transacted', 'user']"),
        (opening(protocol=1), "session: protocol 1 is not spoken here: 2"),
        (opening(user=None), "user cannot be None"),
    ],
)
def test_an_opening_that_makes_no_sense_is_refused(
    server: FlightServer, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(flight.FlightError) as error:
        exchange(server, asked)
    refused = from_flight(error.value, server.url)
    assert isinstance(refused, BadRequest)
    assert said in str(refused)


def test_who_cannot_open_a_session_is_told_why(server: FlightServer, tmp_path: Path) -> None:
    with (
        ServedQueueManager(server.url, token="guessed") as stranger,
        pytest.raises(WrongToken, match=server.url),
    ):
        stranger.mqsc("DISPLAY QMGR")
    with (
        ServedQueueManager(server.url, token=TOKEN, manager="QM9") as elsewhere,
        pytest.raises(UnknownManager, match="'QM9'"),
    ):
        elsewhere.session()
    with (
        kept_books(tmp_path) as books,
        FlightServer(books, port=0, token=TOKEN) as other,
        ServedQueueManager(other.url, token=TOKEN) as bare,
        pytest.raises(BadRequest, match="without its queues"),
    ):
        bare.verify()
    server.stop()
    with (
        ServedQueueManager(server.url, token=TOKEN) as late,
        pytest.raises(ServerNotReachable, match=server.url),
    ):
        late.mqsc("DISPLAY QMGR")


def test_a_server_has_64_sessions_and_refuses_the_next_one(
    manager: QueueManager, served: ServedQueueManager
) -> None:
    """Each has a thread of the server; the end of one makes room, whatever has ended it."""
    with ExitStack() as stack:
        sessions = [stack.enter_context(served.session()) for _ in range(64)]
        reason, detail = raised(lambda _: served.session(), sessions[0])
        assert reason == rc.MQRC_MAX_CONNS_LIMIT_REACHED
        assert detail == "the server has 64 sessions, which is its limit"
        sessions[0].put("Q1", b"they work on")
        sessions[1].close()
        sessions[2]._calls.cancel()
        for _ in range(2):
            wait_until(lambda: has_room(served, stack))
        assert manager.curdepth("Q1") == 1
    assert served.verify().ok


def has_room(served: ServedQueueManager, stack: ExitStack) -> bool:
    """Begin one more session, if there is room for it."""
    try:
        stack.enter_context(served.session())
    except MQError as error:
        if error.reason != rc.MQRC_MAX_CONNS_LIMIT_REACHED:
            raise
        return False
    return True


def test_why_answers_as_the_queue_manager_does(
    manager: QueueManager, served: ServedQueueManager, session: ServedSession
) -> None:
    """Known and unknown ids, and what is refused: value by value, types included."""
    msg_id = session.put("Q1", b"x", delay_ms=DELAY_MS, correl_id=b"c")
    with served.session("bob", transacted=True) as unit:
        open_id = unit.put("Q1", b"y")
        for identifier in (msg_id, msg_id.hex(), open_id, b"c", b"unknown"):
            expected = manager.why(identifier)
            found = served.why(identifier)
            assert repr(found) == repr(expected)
        assert "the open unit of work of bob (mayfly)" in served.why(open_id).sentence
    for answer in (manager.why, served.why):
        with pytest.raises(MQError) as error:
            answer(bytes(25))
        assert error.value.reason == rc.MQRC_MD_ERROR


def test_jms_on_a_queue_manager_that_is_served_says_what_works(served: ServedQueueManager) -> None:
    with pytest.raises(TypeError) as refused:
        jms.ConnectionFactory(served)  # type: ignore[arg-type]  # which is what is tested
    assert str(refused.value) == (
        f"a connection factory takes a queue manager of this process, not {served!r}: "
        "of one that another process serves, use session() (docs/SERVING.md)"
    )


def test_each_queue_manager_of_a_server_is_reached_by_its_name(manager: QueueManager) -> None:
    with (
        QueueManager("QM2", clock=VirtualClock(START_MS)) as other,
        FlightServer([manager, other], port=0, token=TOKEN) as server,
    ):
        for name in ("QM1", "QM2"):
            with ServedQueueManager(server.url, token=TOKEN, manager=name) as served:
                assert served.mqsc("DISPLAY QMGR QMNAME").rows[0]["QMNAME"] == name
                assert served.delay_processor_status() == "running"
                assert served.verify().ok


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for a fact that is sure to come; a minute is a failure."""
    pause = threading.Event()
    for _ in range(6_000):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("it has not come about within a minute")


def test_clock_step_is_accepted_on_a_served_queue_manager() -> None:
    """Forward at once; back it is refused, as programs would see time go back."""
    wall_ms = [START_MS]
    system = SystemClock(wall_ns=lambda: wall_ms[0] * 1_000_000, elapsed_ns=lambda: 0)
    with (
        QueueManager("QM1", clock=system) as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
        ServedQueueManager(server.url, token=TOKEN) as served,
    ):
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with served.session() as session:
            session.put("Q1", b"dies", time_to_live_ms=60_000)
        wall_ms[0] += 7_200_000
        found = served.own_time()
        assert found == manager.own_time()
        assert (found.difference_ms, found.expiring_count) == (7_200_000, 1)
        assert served.follow_wall() == found
        with served.session() as session:
            assert session.get("Q1") is None
        wall_ms[0] -= 7_200_000
        assert served.own_time().difference_ms == -7_200_000
        with pytest.raises(MQError) as caught:
            served.follow_wall()
        assert caught.value.reason == rc.MQRC_ENVIRONMENT_ERROR


def test_ids_are_bytes_or_the_digits_that_are_printed(
    served: ServedQueueManager, session: ServedSession
) -> None:
    msg_id = session.put("Q1", b"x", msg_id="ab01", correl_id="ID:AB02")
    assert msg_id == b"\xab\x01".ljust(24, b"\0")
    assert [m.body for m in session.browse("Q1", correl_id="ab02")] == [b"x"]
    message = session.get("Q1", msg_id=msg_id.hex(), correl_id=b"\xab\x02")
    assert message is not None
    session.put("Q1", b"x", msg_id="ab03", delay_ms=DELAY_MS)
    assert session.schedule.show("ab03") is not None
    assert session.schedule.now_ms() == START_MS
    assert session.schedule.release("ID:ab03") is Receipt.RELEASED
    for call in (session.get, session.put):
        arguments = ("Q1", b"x") if call == session.put else ("Q1",)
        with pytest.raises(MQError, match="correl_id 'o1' is no id") as caught:
            call(*arguments, correl_id="o1")
        assert caught.value.reason == rc.MQRC_MD_ERROR
