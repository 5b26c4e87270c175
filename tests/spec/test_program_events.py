"""Events of the queue manager: start, stop, failing calls, missing authority (V9, V10, V14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import GetRequest, PutRequest, Session
from mayfly.engine.events.catalog import EVENTS, TEXT_BYTES
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.pymqi.constant_tables import constants_of
from tests.spec.event_scene import MANAGER, reasons, seen, turned_on
from tests.spec.scene import INPUT, OUTPUT

ALL = "INHIBTEV(ENABLED) LOCALEV(ENABLED) REMOTEEV(ENABLED) AUTHOREV(ENABLED)"


@pytest.fixture
def watched(manager: QueueManager) -> QueueManager:
    """The queue manager with events of calls that fail."""
    turned_on(manager, f"ALTER QMGR {ALL}")
    return manager


def refused(call: object) -> int:
    assert callable(call)
    with pytest.raises(MQError) as raised:
        call()
    return raised.value.reason


def test_V9_a_put_that_is_inhibited_makes_its_event(
    watched: QueueManager, session: Session
) -> None:
    handle = session.open("Q1", OUTPUT)
    turned_on(watched, "ALTER QLOCAL(Q1) PUT(DISABLED)")
    calls = (
        lambda: session.put("Q1", b""),
        lambda: handle.put(b"", PutRequest(Descriptor())),
    )
    for call in calls:
        assert refused(call) == rc.MQRC_PUT_INHIBITED
        (event,) = seen(session, MANAGER)
        assert event.reason == rc.MQRC_PUT_INHIBITED
        assert event.parameters == [
            c.MQCA_Q_MGR_NAME,
            c.MQCA_Q_NAME,
            c.MQIA_APPL_TYPE,
            e.MQCACF_APPL_NAME,
        ]
        assert event.value(c.MQCA_Q_NAME) == "Q1"
        assert event.value(e.MQCACF_APPL_NAME) == "mayfly"


def test_V9_a_get_that_is_inhibited_makes_its_event(
    watched: QueueManager, session: Session
) -> None:
    handle = session.open("Q1", INPUT)
    turned_on(watched, "ALTER QLOCAL(Q1) GET(DISABLED)")
    for call in (lambda: session.get("Q1"), lambda: handle.get(GetRequest())):
        assert refused(call) == rc.MQRC_GET_INHIBITED
        assert reasons(session, MANAGER) == [rc.MQRC_GET_INHIBITED]


def test_V9_a_name_that_leads_nowhere_makes_the_event_of_its_reason(
    watched: QueueManager, session: Session
) -> None:
    turned_on(
        watched,
        "DEFINE QALIAS(A1) TARGET(NONE)\n"
        "DEFINE QALIAS(A2) TARGET(A1)\n"
        "DEFINE QREMOTE(R1) RNAME(IN) RQMNAME(QM9) XMITQ(NONE)\n"
        "DEFINE QREMOTE(R2) RNAME(IN) RQMNAME(QM9) XMITQ(Q1)",
    )
    expected = {
        "NONE": rc.MQRC_UNKNOWN_OBJECT_NAME,
        "A1": rc.MQRC_UNKNOWN_ALIAS_BASE_Q,
        "A2": rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR,
        "IN@QM9": rc.MQRC_UNKNOWN_REMOTE_Q_MGR,
        "R1": rc.MQRC_UNKNOWN_XMIT_Q,
        "R2": rc.MQRC_XMIT_Q_USAGE_ERROR,
    }
    for name, reason in expected.items():
        assert refused(lambda name=name: session.open(name, OUTPUT)) == reason
        assert refused(lambda name=name: session.put(name, b"")) == reason
        first, second = seen(session, MANAGER)
        assert (first.reason, second.reason) == (reason, reason)
        assert first.value(c.MQCA_Q_NAME) == name.partition("@")[0]
    assert first.value(c.MQCA_XMIT_Q_NAME) == "Q1"


def test_V9_other_failures_make_no_event(watched: QueueManager, session: Session) -> None:
    assert refused(lambda: session.put("Q1", b"", time_to_live_ms=-5)) == rc.MQRC_EXPIRY_ERROR
    assert session.get("Q1") is None
    assert reasons(session, MANAGER) == []


def test_V10_a_refusal_names_user_program_object_and_options(watched: QueueManager) -> None:
    turned_on(
        watched,
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)\n"
        "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)",
    )
    with watched.session("bob", program="billing") as bob:
        bob.put("Q1", b"")
        assert refused(lambda: bob.open("Q1", INPUT)) == rc.MQRC_NOT_AUTHORIZED
        assert refused(lambda: bob.get("Q1")) == rc.MQRC_NOT_AUTHORIZED
        assert refused(lambda: bob.subscribe("a/b")) == rc.MQRC_NOT_AUTHORIZED
    assert refused(lambda: watched.session("eve", program="probe")) == rc.MQRC_NOT_AUTHORIZED
    with watched.session() as administrator:
        opened, got, subscribed, connected = seen(administrator, MANAGER)
    for event in (opened, got):
        assert event.reason == rc.MQRC_NOT_AUTHORIZED
        assert event.parameters == [
            c.MQCA_Q_MGR_NAME,
            e.MQIACF_REASON_QUALIFIER,
            e.MQIACF_OPEN_OPTIONS,
            k.MQCACF_USER_IDENTIFIER,
            c.MQIA_APPL_TYPE,
            e.MQCACF_APPL_NAME,
            c.MQCA_Q_NAME,
        ]
        assert event.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_OPEN_NOT_AUTHORIZED
        assert event.value(e.MQIACF_OPEN_OPTIONS) == INPUT
        assert event.value(k.MQCACF_USER_IDENTIFIER) == "bob"
        assert event.value(e.MQCACF_APPL_NAME) == "billing"
    assert subscribed.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_SUB_NOT_AUTHORIZED
    assert subscribed.value(c.MQCA_TOPIC_STRING) == "a/b"
    assert connected.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_CONN_NOT_AUTHORIZED
    assert connected.value(k.MQCACF_USER_IDENTIFIER) == "eve"
    assert connected.value(e.MQCACF_APPL_NAME) == "probe"


def test_V10_a_refusal_of_a_close_or_a_destination_names_queue_and_subscription(
    watched: QueueManager,
) -> None:
    turned_on(
        watched,
        "DEFINE TOPIC(PRICES) TOPICSTR('prices')\nDEFINE QMODEL(M1) DEFTYPE(PERMDYN)\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)\n"
        "SET AUTHREC PROFILE(PRICES) OBJTYPE(TOPIC) PRINCIPAL('bob') AUTHADD(SUB)\n"
        "SET AUTHREC PROFILE('DYN') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)",
    )
    with watched.session() as session:
        session.open("M1", OUTPUT, dynamic_name="DYN").close()
    with watched.engine.session(
        "bob", program="billing", address="192.0.2.7", channel="APP"
    ) as bob:
        kept = bob.open("DYN", OUTPUT)
        assert refused(lambda: bob.close_handle(kept, c.MQCO_DELETE)) == rc.MQRC_NOT_AUTHORIZED
        assert refused(lambda: bob.subscribe("prices", queue="Q1")) == rc.MQRC_NOT_AUTHORIZED
        watching = bob.subscribe("prices/eur", name="watch", durable=True)
        turned_on(
            watched,
            "SET AUTHREC PROFILE(PRICES) OBJTYPE(TOPIC) PRINCIPAL('bob') AUTHRMV(SUB)",
        )
        assert refused(lambda: watching.close(remove=True)) == rc.MQRC_NOT_AUTHORIZED
        assert refused(lambda: bob.subscribe("prices", durable=True, name="other"))
    with watched.session() as administrator:
        deleted, destination, removed, subscribed = seen(administrator, MANAGER)
    caller = [k.MQCACF_USER_IDENTIFIER, c.MQIA_APPL_TYPE, e.MQCACF_APPL_NAME]
    client = [k.MQCACH_CONNECTION_NAME, k.MQCACH_CHANNEL_NAME]
    begin = [c.MQCA_Q_MGR_NAME, e.MQIACF_REASON_QUALIFIER]
    assert deleted.parameters == [*begin, *caller, c.MQCA_Q_NAME, *client]
    assert deleted.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_CLOSE_NOT_AUTHORIZED
    assert deleted.value(c.MQCA_Q_NAME) == "DYN"
    assert [deleted.value(each) for each in client] == ["192.0.2.7", "APP"]
    about = [k.MQCACF_SUB_NAME, c.MQCA_TOPIC_STRING, e.MQCACF_ADMIN_TOPIC_NAMES]
    assert removed.parameters == [*begin, *caller, *about, *client]
    assert removed.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_CLOSE_NOT_AUTHORIZED
    assert removed.value(k.MQCACF_SUB_NAME) == "watch"
    assert removed.value(c.MQCA_TOPIC_STRING) == "prices/eur"
    objects = (b"PRICES".ljust(48), b"SYSTEM.BASE.TOPIC".ljust(48))
    assert removed.value(e.MQCACF_ADMIN_TOPIC_NAMES) == objects
    assert destination.parameters == [
        *begin,
        e.MQIACF_SUB_OPTIONS,
        *caller,
        c.MQCA_TOPIC_STRING,
        c.MQCA_Q_NAME,
        e.MQIACF_OPEN_OPTIONS,
        *client,
    ]
    assert destination.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_SUB_DEST_NOT_AUTHORIZED
    assert destination.value(c.MQCA_Q_NAME) == "Q1"
    assert destination.value(e.MQIACF_OPEN_OPTIONS) == OUTPUT
    assert destination.value(e.MQIACF_SUB_OPTIONS) == c.MQSO_CREATE | c.MQSO_ANY_USERID
    assert subscribed.parameters == [*begin, e.MQIACF_SUB_OPTIONS, *caller, *about[1:], *client]
    assert subscribed.value(e.MQIACF_SUB_OPTIONS) == (
        c.MQSO_CREATE | c.MQSO_DURABLE | c.MQSO_MANAGED | c.MQSO_ANY_USERID
    )


def test_V10_an_alternate_user_is_refused_in_the_name_of_the_program(
    watched: QueueManager,
) -> None:
    turned_on(watched, "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT,ALTUSR)")
    options = OUTPUT | c.MQOO_ALTERNATE_USER_AUTHORITY
    with watched.session("bob", program="billing") as bob:
        assert refused(lambda: bob.open("Q1", options, alternate_user="eve"))
    with watched.session() as administrator:
        (event,) = seen(administrator, MANAGER)
    assert event.value(k.MQCACF_USER_IDENTIFIER) == "eve"
    assert event.value(e.MQCACF_APPL_NAME) == "billing"


def test_V14_start_and_stop_are_events_where_the_queue_keeps_them(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        turned_on(manager, f"DEFINE QLOCAL({MANAGER}) DEFPSIST(YES)")
    with QueueManager("QM1", tmp_path / "QM1") as manager, manager.session() as session:
        stopped, started = seen(session, MANAGER)
    assert stopped.reason == e.MQRC_Q_MGR_NOT_ACTIVE
    assert stopped.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_Q_MGR_STOPPING
    assert (started.reason, started.parameters) == (e.MQRC_Q_MGR_ACTIVE, [c.MQCA_Q_MGR_NAME])


def test_turning_events_on_defines_their_queue(queue_manager: QueueManager) -> None:
    turned_on(queue_manager, f"ALTER QMGR {ALL} PERFMEV(ENABLED)")
    rows = queue_manager.mqsc("DISPLAY QLOCAL(SYSTEM.ADMIN.*)").rows
    assert [row["QUEUE"] for row in rows] == ["SYSTEM.ADMIN.PERFM.EVENT", MANAGER]


def test_the_numbers_of_events_are_those_of_the_tables() -> None:
    known = {**constants_of("CMQC"), **constants_of("CMQCFC")}
    ours = {name: value for name, value in vars(e).items() if name.startswith("MQ")}
    assert ours == {name: known[name] for name in ours}


def test_every_event_has_a_row_of_its_own() -> None:
    assert len({event.name for event in EVENTS}) == len(EVENTS)
    numbers = {number for event in EVENTS for number in event.parameters}
    texts = {v for n, v in vars(c).items() if n.startswith("MQCA_")}
    unbounded = {c.MQCA_TOPIC_STRING, k.MQCACH_SSL_PEER_NAME, k.MQCACF_AUX_ERROR_DATA_STR_1}
    assert (numbers & texts) - unbounded <= TEXT_BYTES.keys()
