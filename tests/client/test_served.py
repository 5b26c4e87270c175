"""An operator's work on a queue manager that is served: as in its own process, over sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager, SystemClock
from mayfly.admin.security.admission import Admission
from mayfly.client import Client
from mayfly.client.connection.endpoint import Endpoint
from mayfly.client.connection.remote import connect
from mayfly.engine import Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.servers.wire import WireServer
from mayfly.services.dead_letter import DeadLetterHandler, Outcome, parse_rules
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.access import MQ_SOCKET_FILE
from mayfly.verbs.messages import Message, key_of, token_of
from mayfly.verbs.schedule import Receipt, ScheduleFilter
from tests.connection.serving import Served, serving
from tests.dead_letter.scene import put_dead_letter
from tests.spec.scene import DEAD

START_MS = 1_700_000_000_000
DELAY_MS = 60_000
TOKEN = "the operator's token"
LONGEST_WAIT_MS = 200
AnySession = Session | Client


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START_MS)


@pytest.fixture
def manager(clock: VirtualClock) -> Iterator[QueueManager]:
    with QueueManager("QM1", clock=clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
        yield manager


@pytest.fixture
def served(manager: QueueManager) -> Iterator[Served]:
    with serving(manager) as served:
        served.admission.operators = frozenset({"", "anna", "bob"})
        yield served


@pytest.fixture
def session(served: Served) -> Iterator[Client]:
    with Client(served.connect("anna")) as session:
        yield session


def unit(served: Served, user: str = "anna") -> Client:
    """Return a transacted session."""
    return Client(served.connect(user), transacted=True)


def raised(call: Callable[[AnySession], object], session: AnySession) -> tuple[int, str]:
    """Return reason and detail of the MQError of a call."""
    with pytest.raises(MQError) as error:
        call(session)
    return error.value.reason, error.value.detail


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for a fact that is sure to come; a minute is a failure."""
    pause = threading.Event()
    for _ in range(6_000):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("it has not come about within a minute")


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
def test_a_script_answers_what_it_answers_in_process(session: Client, script: str) -> None:
    with QueueManager("QM1", clock=VirtualClock(START_MS)) as other:
        other.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
        expected = other.mqsc(script)
    found = session.mqsc(script)
    assert found == expected
    assert (found.text, found.rows, found.ok) == (expected.text, expected.rows, expected.ok)


def test_channels_are_started_and_stopped(
    manager: QueueManager, session: Client, clock: VirtualClock
) -> None:
    with QueueManager("QM2", clock=clock) as other:
        other.mqsc("DEFINE QLOCAL(IN)\nDEFINE CHANNEL(QM1.TO.QM2) CHLTYPE(RCVR)")
        assert session.mqsc("""
            DEFINE QLOCAL(QM2) USAGE(XMITQ)
            DEFINE CHANNEL(QM1.TO.QM2) CHLTYPE(SDR) CONNAME(QM2) XMITQ(QM2)
            START CHANNEL(QM1.TO.QM2)
        """).ok
        session.put("IN@QM2", b"over there", time_to_live_ms=20_000)
        with other.session() as there:
            message = there.get("IN")
        assert message is not None
        assert (message.body, message.remaining_ms) == (b"over there", 20_000)
        assert session.mqsc("STOP CHANNEL(QM1.TO.QM2)").ok
        [standing] = manager.channels.status("QM1.TO.QM2")
        assert standing.status == "STOPPED"


# Messages


def test_a_message_is_put_and_got_with_all_it_has(
    manager: QueueManager, session: Client, clock: VirtualClock
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
    manager: QueueManager, clock: VirtualClock, session: Client
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
        assert (key_of(one), token_of(one)) == (key_of(other), token_of(other))


def test_E4_a_message_can_be_got_until_its_deadline(session: Client, clock: VirtualClock) -> None:
    for left_ms, is_there in ((1, True), (0, False), (-1, False)):
        session.put("Q1", b"x", time_to_live_ms=1_000)
        clock.advance(1_000 - left_ms)
        got = session.get("Q1")
        assert (got is not None) is is_there
        assert got is None or got.remaining_ms == left_ms


def test_a_body_larger_than_a_channel_takes_by_default_travels(
    manager: QueueManager, served: Served
) -> None:
    manager.mqsc(f"ALTER QMGR MAXMSGL({8 * 2**20})\nALTER QLOCAL(Q1) MAXMSGL({8 * 2**20})")
    with Client(served.connect("anna", max_message_bytes=2**27)) as session:
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
    manager: QueueManager, session: Client, call: Callable[[AnySession], object]
) -> None:
    with manager.session("anna") as local:
        expected = raised(call, local)
    assert raised(call, session) == expected
    assert (manager.curdepth("Q1"), session.schedule.count()) == (0, 0)


def test_the_token_is_the_operator_whatever_name_is_told(
    manager: QueueManager, tmp_path: Path
) -> None:
    manager.mqsc("SET AUTHREC PROFILE(Q2) OBJTYPE(QUEUE) PRINCIPAL('bert') AUTHADD(GET)")
    with manager.session("anna") as local:
        reason, _ = raised(lambda session: session.put("Q1", b"x"), local)
    assert reason == rc.MQRC_NOT_AUTHORIZED
    server = WireServer([manager], Admission([manager.engine], token=TOKEN))
    socket = tmp_path / MQ_SOCKET_FILE
    server.listen_unix(socket)
    try:
        there = Endpoint((socket,), "", "QM1")
        with Client(connect(there, "anna", TOKEN, application="mayfly put")) as session:
            session.put("Q1", b"x")
            [message] = session.browse("Q1")
        for endpoint, token, reason in (
            (there, "guessed", rc.MQRC_NOT_AUTHORIZED),
            (there, "", rc.MQRC_NOT_AUTHORIZED),
            (there._replace(queue_manager="QM9"), TOKEN, rc.MQRC_Q_MGR_NAME_ERROR),
        ):
            with pytest.raises(MQError) as refused:
                connect(endpoint, "anna", token)
            assert refused.value.reason == reason
    finally:
        server.close()
    descriptor = message.descriptor
    assert (descriptor.user_identifier, descriptor.put_appl_name.strip()) == ("anna", "mayfly put")
    with pytest.raises(MQError) as nobody:
        connect(there, "anna", TOKEN)
    assert nobody.value.reason == rc.MQRC_Q_MGR_NOT_AVAILABLE


# Units of work


def test_a_unit_of_work_is_committed_at_the_end_of_its_block_or_backed_out(
    manager: QueueManager, served: Served
) -> None:
    with unit(served) as session:
        session.put("Q1", b"x")
        assert manager.counts("Q1").uncommitted == 1
    assert manager.counts("Q1").live == 1
    with pytest.raises(TypeError), unit(served) as session:
        len(session.get("Q1"))  # type: ignore[arg-type]  # a message has none
    with unit(served) as session:
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
    manager: QueueManager, served: Served
) -> None:
    with manager.session() as local:
        local.put("Q1", b"kept")
    connection = served.connect("anna")
    session = Client(connection, transacted=True)
    assert session.get("Q1") is not None
    session.put("Q2", b"never")
    connection.conversation.link.abort()
    assert raised(lambda session: session.commit(), session)[0] in (
        rc.MQRC_HCONN_ERROR,
        rc.MQRC_CONNECTION_BROKEN,
    )
    wait_until(lambda: manager.counts("Q1").locked == 0)
    assert (manager.counts("Q1").live, manager.curdepth("Q2")) == (1, 0)


# The schedule


def test_the_schedule_is_seen_and_changed_with_the_receipts_of_one_in_process(
    manager: QueueManager, session: Client, clock: VirtualClock
) -> None:
    ids = [session.put("Q1", b"later", delay_ms=DELAY_MS + n) for n in range(5)]
    schedule, admin = session.schedule, session.admin
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
    admin.run_due()
    assert manager.curdepth("Q1") == 1
    assert schedule.release(ids[2]) is Receipt.RELEASED
    admin.run_due()
    assert manager.curdepth("Q1") == 2
    assert list(schedule.reschedule_all(ScheduleFilter("Q1"), by_ms=-DELAY_MS)) == [2]
    admin.run_due()
    assert (manager.curdepth("Q1"), schedule.count()) == (2, 2)
    clock.advance(3)
    assert (manager.curdepth("Q1"), schedule.count()) == (3, 1)
    assert list(schedule.release_all(ScheduleFilter("Q1"))) == [1]
    admin.run_due()
    assert (manager.curdepth("Q1"), schedule.count()) == (4, 0)
    assert list(schedule.cancel_all(ScheduleFilter())) == [0]
    last, *_ = schedule.audit(limit=1)
    assert (last.user, last.action, last.message_count) == ("anna", "release", 1)


def test_only_those_with_the_property_are_cancelled(manager: QueueManager, session: Client) -> None:
    with manager.session() as local:
        for colour in ("red", "blue"):
            local.put("Q1", b"x", delay_ms=DELAY_MS, properties={"colour": colour})
    red = ScheduleFilter(properties=(("colour", "red"),))
    assert list(session.schedule.cancel_all(red)) == [1]
    assert session.schedule.count() == 1


# Dead letters


def handler(served: Served, rules: str, **more: str) -> DeadLetterHandler:
    """Return a handler on a connection of its own."""
    table = parse_rules(rules)
    return DeadLetterHandler(served.connect("anna"), table, longest_wait_ms=LONGEST_WAIT_MS, **more)


def test_a_handler_works_there_and_tells_what_it_did(manager: QueueManager, served: Served) -> None:
    manager.mqsc(f"DEFINE QLOCAL({DEAD})\nALTER QMGR DEADQ({DEAD})")
    put_dead_letter(manager)
    put_dead_letter(manager, target="NOWHERE")
    with handler(served, "ACTION(RETRY)") as working:
        assert working.queue == DEAD
        working.run_once()
    assert working.counts[Outcome.REDRIVEN] == 1
    assert working.counts[Outcome.FAILED] == 1
    assert working.failures == {rc.MQRC_UNKNOWN_OBJECT_NAME: 1}
    assert (manager.curdepth("Q1"), manager.curdepth(DEAD)) == (1, 1)


def test_a_handler_that_waits_ends_when_it_is_stopped(tmp_path: Path) -> None:
    """Nobody has the queue open for input then. A wait there is one of the machine's clock."""
    with QueueManager("QM1") as manager, serving(manager) as served:
        served.admission.operators = frozenset({"anna"})
        manager.mqsc(f"DEFINE QLOCAL(Q1)\nDEFINE QLOCAL({DEAD})\nALTER QMGR DEADQ({DEAD})")
        with handler(served, "WAIT(YES)\nACTION(RETRY)") as working:
            runner = threading.Thread(target=working.run)
            runner.start()
            put_dead_letter(manager)
            wait_until(lambda: manager.curdepth(DEAD) == 0)
            working.stop()
            runner.join(60)
            assert not runner.is_alive()
            assert working.counts[Outcome.REDRIVEN] == 1
        wait_until(lambda: "IPPROCS(0)" in manager.mqsc(f"DISPLAY QLOCAL({DEAD}) IPPROCS").text)


def test_a_handler_that_fails_raises_the_reason(manager: QueueManager, served: Served) -> None:
    with pytest.raises(MQError) as error:
        handler(served, "ACTION(RETRY)")
    assert error.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    with (
        pytest.raises(MQError) as error,
        handler(served, "ACTION(RETRY)", queue="Q1") as working,
    ):
        working.run_once()
    assert error.value.reason == rc.MQRC_GET_INHIBITED


# Administration


def test_why_answers_as_the_queue_manager_does(
    manager: QueueManager, served: Served, session: Client
) -> None:
    """Known and unknown ids, and what is refused: value by value, types included."""
    msg_id = session.put("Q1", b"x", delay_ms=DELAY_MS, correl_id=b"c")
    admin = session.admin
    with unit(served, "bob") as other:
        open_id = other.put("Q1", b"y")
        for identifier in (msg_id, msg_id.hex(), open_id, b"c", b"unknown"):
            assert repr(admin.why(identifier)) == repr(manager.why(identifier))
        assert "the open unit of work of bob (tests)" in admin.why(open_id).sentence
    for answer in (manager.why, admin.why):
        with pytest.raises(MQError) as error:
            answer(bytes(25))
        assert error.value.reason == rc.MQRC_MD_ERROR


def test_each_queue_manager_of_a_server_is_reached_by_its_name(manager: QueueManager) -> None:
    with (
        QueueManager("QM2", clock=VirtualClock(START_MS)) as other,
        serving(manager, other) as served,
    ):
        served.admission.operators = frozenset({"anna"})
        for name in ("QM1", "QM2"):
            with Client(served.connect("anna", queue_manager=name)) as client:
                assert client.mqsc("DISPLAY QMGR QMNAME").rows[0]["QMNAME"] == name
                assert client.admin.delay_processor_status() == "running"
                assert client.admin.verify().ok


def test_clock_step_is_accepted_on_a_served_queue_manager() -> None:
    """Forward at once; back it is refused, as programs would see time go back."""
    wall_ms = [START_MS]
    system = SystemClock(wall_ns=lambda: wall_ms[0] * 1_000_000, elapsed_ns=lambda: 0)
    with QueueManager("QM1", clock=system) as manager, serving(manager) as served:
        served.admission.operators = frozenset({"anna"})
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with Client(served.connect("anna")) as session:
            session.put("Q1", b"dies", time_to_live_ms=60_000)
            wall_ms[0] += 7_200_000
            found = session.admin.own_time()
            assert found == manager.own_time()
            assert (found.difference_ms, found.expiring_count) == (7_200_000, 1)
            assert session.admin.follow_wall() == found
            assert session.get("Q1") is None
            wall_ms[0] -= 7_200_000
            assert session.admin.own_time().difference_ms == -7_200_000
            with pytest.raises(MQError) as caught:
                session.admin.follow_wall()
        assert caught.value.reason == rc.MQRC_ENVIRONMENT_ERROR


def test_ids_are_bytes_or_the_digits_that_are_printed(session: Client) -> None:
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
