"""QALIAS TARGTYPE(TOPIC): what is put to the alias is published, and nothing can be got from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import PutRequest, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.pubsub_scene import available_only, drained
from tests.spec.scene import body, refused

SCENE = """
DEFINE TOPIC(NEWS) TOPICSTR('news') DEFPRTY(7) DEFPSIST(YES)
DEFINE QALIAS(NEWS.IN) TARGET(NEWS) TARGTYPE(TOPIC)
"""


@pytest.fixture
def alias(queue_manager: QueueManager) -> str:
    assert queue_manager.mqsc(SCENE).ok
    return "NEWS.IN"


@pytest.mark.in_process
def test_a_put_to_the_alias_is_a_publication_of_its_topic(session: Session, alias: str) -> None:
    first, second = session.subscribe("news"), session.subscribe("#")
    msg_id = session.put(alias, b"x", correl_id=b"C")
    for subscription in (first, second):
        message = subscription.get()
        assert message is not None
        assert (message.topic, message.body, message.msg_id) == ("news", b"x", msg_id)
        assert message.correl_id == b"C".ljust(24, b"\0")


@pytest.mark.in_process
def test_P07_priority_and_persistence_are_those_of_the_alias(
    queue_manager: QueueManager, session: Session, alias: str
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)\nALTER QALIAS(NEWS.IN) DEFPRTY(4)")
    session.subscribe("news", queue="Q1")
    session.put(alias, b"by the alias")
    session.put(alias, b"by itself", priority=2, persistent=True)
    session.publish("news", b"by the topic")
    found = {m.body: m.descriptor for m in session.browse("Q1")}
    kinds = {name: (d.priority, d.persistence) for name, d in found.items()}
    assert kinds == {b"by the alias": (4, 0), b"by itself": (2, 1), b"by the topic": (7, 1)}


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("of_alias", "of_topic", "of_queue"), [(50, 60, 70), (60, 50, 70), (70, 60, 50)]
)
def test_X03_the_lowest_cap_of_alias_topic_and_queue_counts(
    clock: VirtualClock,
    queue_manager: QueueManager,
    session: Session,
    alias: str,
    of_alias: int,
    of_topic: int,
    of_queue: int,
) -> None:
    assert queue_manager.mqsc(
        f"DEFINE QLOCAL(Q1) CAPEXPRY({of_queue})\n"
        f"ALTER QALIAS(NEWS.IN) CAPEXPRY({of_alias})\nALTER TOPIC(NEWS) CAPEXPRY({of_topic})"
    ).ok
    session.subscribe("news", queue="Q1")
    session.put(alias, b"x", time_to_live_ms=60_000)
    clock.advance(4_999)
    assert [m.remaining_tenths for m in session.browse("Q1")] == [1]
    clock.advance(1)
    assert session.get("Q1") is None


@pytest.mark.in_process
def test_a_cap_of_the_alias_alone_shortens_unlimited_copies(
    clock: VirtualClock, queue_manager: QueueManager, session: Session, alias: str
) -> None:
    queue_manager.mqsc("ALTER QALIAS(NEWS.IN) CUSTOM('CAPEXPRY(10)')")
    subscription = session.subscribe("news")
    session.put(alias, b"1")
    session.publish("news", b"2")
    clock.advance(1_000)
    assert drained(session, subscription.queue) == [("news", b"2")]


@pytest.mark.in_process
def test_the_alias_is_put_to_in_a_unit_of_work(
    queue_manager: QueueManager, alias: str, new_session: NewSession
) -> None:
    with (
        new_session(queue_manager) as reader,
        new_session(queue_manager, transacted=True) as writer,
    ):
        subscription = reader.subscribe("news")
        writer.put(alias, b"1")
        assert subscription.get() is None
        writer.backout()
        writer.put(alias, b"2")
        writer.commit()
        assert drained(reader, subscription.queue) == [("news", b"2")]


def test_D25_a_delayed_put_is_staged_for_each_subscriber(
    clock: VirtualClock, queue_manager: QueueManager, session: Session, alias: str
) -> None:
    with refused(rc.MQRC_PUBLICATION_FAILURE):
        session.put(alias, b"x", delay_ms=1_000, persistent=True)
    available_only(queue_manager)
    first, second = session.subscribe("news"), session.subscribe("news")
    session.put(alias, b"x", delay_ms=1_000)
    clock.advance(999)
    assert (first.get(), second.get()) == (None, None)
    clock.advance(1)
    assert (body(first.get()), body(second.get())) == (b"x", b"x")


def test_puts_are_inhibited_by_the_alias_and_by_the_topic(
    queue_manager: QueueManager, session: Session, alias: str
) -> None:
    subscription = session.subscribe("news")
    queue_manager.mqsc("ALTER QALIAS(NEWS.IN) PUT(DISABLED)")
    with refused(rc.MQRC_PUT_INHIBITED):
        session.put(alias, b"x")
    queue_manager.mqsc("ALTER QALIAS(NEWS.IN) PUT(ENABLED)\nALTER TOPIC(NEWS) PUB(DISABLED)")
    with refused(rc.MQRC_PUT_INHIBITED):
        session.put(alias, b"x")
    assert subscription.get() is None


@pytest.mark.in_process
@pytest.mark.parametrize(
    "option", [c.MQOO_INPUT_SHARED, c.MQOO_BROWSE, c.MQOO_INQUIRE, c.MQOO_OUTPUT | c.MQOO_SET]
)
def test_it_is_opened_for_nothing_but_puts(session: Session, alias: str, option: int) -> None:
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.open_topic("", option, alias=alias)
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.open(alias, option)


@pytest.mark.in_process
def test_nothing_is_got_or_browsed_and_nobody_subscribes_with_it(
    queue_manager: QueueManager, session: Session, alias: str
) -> None:
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.get(alias)
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        next(session.browse(alias))
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        session.subscribe("a", queue=alias)
    assert not queue_manager.mqsc(f"DEFINE SUB(S) TOPICSTR('a') DEST({alias})").ok
    assert queue_manager.engine.registry.subscriptions.all() == []


@pytest.mark.in_process
def test_an_alias_of_no_topic_object_is_2082(queue_manager: QueueManager, session: Session) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QALIAS(A) TARGET(Q1) TARGTYPE(TOPIC)")
    with refused(rc.MQRC_UNKNOWN_ALIAS_BASE_Q):
        session.put("A", b"x")
    with refused(rc.MQRC_UNKNOWN_ALIAS_BASE_Q):
        session.open_topic("", c.MQOO_OUTPUT, alias="A")
    assert queue_manager.curdepth("Q1") == 0


@pytest.mark.in_process
def test_alter_turns_an_alias_of_a_queue_into_one_of_a_topic_and_back(
    queue_manager: QueueManager, session: Session
) -> None:
    queue_manager.mqsc(
        "DEFINE QLOCAL(X)\nDEFINE TOPIC(X) TOPICSTR('x')\nDEFINE QALIAS(A) TARGET(X)"
    )
    subscription = session.subscribe("x")
    session.put("A", b"1")
    assert queue_manager.mqsc("ALTER QALIAS(A) TARGTYPE(TOPIC)").ok
    session.put("A", b"2")
    [row] = queue_manager.mqsc("DISPLAY QALIAS(A) TARGTYPE TARGET").rows
    assert (row["TARGTYPE"], row["TARGET"]) == ("TOPIC", "X")
    assert queue_manager.mqsc("ALTER QALIAS(A) TARGTYPE(QUEUE)").ok
    session.put("A", b"3")
    assert [m.body for m in session.browse("X")] == [b"1", b"3"]
    assert drained(session, subscription.queue) == [("x", b"2")]


@pytest.mark.in_process
def test_an_open_handle_follows_the_alias_and_ends_with_it(
    queue_manager: QueueManager, session: Session, alias: str
) -> None:
    queue_manager.mqsc("DEFINE TOPIC(MORE) TOPICSTR('more')")
    everything = session.subscribe("#")
    handle = session.open_topic("", c.MQOO_OUTPUT, alias=alias)
    request = _request()
    handle.put(b"1", request)
    queue_manager.mqsc("ALTER QALIAS(NEWS.IN) TARGET(MORE)")
    handle.put(b"2", request)
    assert drained(session, everything.queue) == [("news", b"1"), ("more", b"2")]
    queue_manager.mqsc("DELETE QALIAS(NEWS.IN)")
    with refused(rc.MQRC_Q_DELETED):
        handle.put(b"3", request)
    handle.close()
    with refused(rc.MQRC_HOBJ_ERROR):
        handle.put(b"4", request)
    with refused(rc.MQRC_HOBJ_ERROR):
        handle.close()


@pytest.mark.in_process
def test_open_topics_count_among_the_handles_and_end_with_the_session(
    queue_manager: QueueManager,
    new_session: NewSession,
) -> None:
    queue_manager.mqsc("ALTER QMGR MAXHANDS(2)")
    with new_session(queue_manager) as session:
        first = session.open_topic("a", c.MQOO_OUTPUT)
        second = session.open_topic("b", c.MQOO_OUTPUT)
        with refused(rc.MQRC_HANDLE_NOT_AVAILABLE):
            session.open_topic("c", c.MQOO_OUTPUT)
        first.close()
        session.open_topic("c", c.MQOO_OUTPUT)
    assert not second.is_open
    with refused(rc.MQRC_HOBJ_ERROR):
        second.put(b"x", _request())


def test_the_alias_survives_a_restart(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        assert qm.mqsc(SCENE).ok
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        subscription = session.subscribe("news")
        session.put("NEWS.IN", b"x")
        assert body(subscription.get()) == b"x"


def _request() -> PutRequest:
    return PutRequest(Descriptor())
