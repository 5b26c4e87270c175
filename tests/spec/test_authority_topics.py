"""Authority on topics: publish, subscribe, resume and clear, asked for upwards in the tree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import PutRequest, Session
from mayfly.engine.api.administration import TOPIC
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from tests.over import NewSession
from tests.spec.authority_scene import connect, grant, revoke
from tests.spec.pubsub_scene import BASE, topic
from tests.spec.scene import V2, body, local, refused

NOT_AUTHORIZED = rc.MQRC_NOT_AUTHORIZED


def test_publish_needs_PUB_at_the_topic_or_above(queue_manager: QueueManager) -> None:
    """One topic object on the way up that gives it is enough; none below does."""
    topic(queue_manager, "NEWS", "news")
    topic(queue_manager, "SPORT", "news/sport")
    with connect(queue_manager) as session:
        grant(queue_manager, "PUB", "SPORT", kind=TOPIC)
        session.publish("news/sport/golf", b"x")
        with pytest.raises(MQError) as caught:
            session.publish("news", b"x")
        assert caught.value.reason == NOT_AUTHORIZED
        assert caught.value.detail == "user 'alice' lacks PUB on TOPIC 'news'"
        revoke(queue_manager, "PUB", "SPORT", kind=TOPIC)
        with refused(NOT_AUTHORIZED):
            session.publish("news/sport/golf", b"x")
        grant(queue_manager, "PUB", "NEWS", kind=TOPIC)
        session.publish("news/sport/golf", b"x")
        with refused(NOT_AUTHORIZED):
            session.publish("weather", b"x")
        grant(queue_manager, "PUB", BASE, kind=TOPIC)
        session.publish("weather", b"x")


def test_an_alias_of_a_topic_needs_PUT_and_the_topic_PUB(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    topic(queue_manager, "NEWS", "news")
    assert queue_manager.mqsc("DEFINE QALIAS(A1) TARGET(NEWS) TARGTYPE(TOPIC)").ok
    with new_session(queue_manager) as opener, connect(queue_manager) as session:
        got = opener.subscribe("news")
        grant(queue_manager, "PUB", "NEWS", kind=TOPIC)
        with refused(NOT_AUTHORIZED):
            session.put("A1", b"x")
        grant(queue_manager, "PUT", "A1")
        session.put("A1", b"x")
        handle = session.open_topic("", c.MQOO_OUTPUT, alias="A1")
        revoke(queue_manager, "PUB", "NEWS", kind=TOPIC)
        with refused(NOT_AUTHORIZED):
            session.put("A1", b"y")
        with refused(NOT_AUTHORIZED):
            session.open_topic("news", c.MQOO_OUTPUT)
        with refused(NOT_AUTHORIZED):
            handle.put(b"y", PutRequest(V2))
        assert body(got.get()) == b"x"
        assert got.get() is None


def test_a_refused_publication_reaches_nobody(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    with new_session(queue_manager) as opener, connect(queue_manager) as session:
        got = opener.subscribe("news/#")
        with refused(NOT_AUTHORIZED):
            session.publish("news/today", b"x", retain=True, delay_ms=0)
        assert got.get() is None
        assert opener.subscribe("news/today").get() is None


@pytest.mark.parametrize("string", ["news/today", "news/+", "news/#"])
def test_subscribe_needs_SUB_and_no_authority_on_its_managed_queue(
    queue_manager: QueueManager, string: str, new_session: NewSession
) -> None:
    topic(queue_manager, "NEWS", "news")
    with new_session(queue_manager) as opener, connect(queue_manager) as session:
        with refused(NOT_AUTHORIZED):
            session.subscribe(string)
        assert not queue_manager.mqsc("DISPLAY SUB(*)").rows
        grant(queue_manager, "SUB", "NEWS", kind=TOPIC)
        subscription = session.subscribe(string)
        opener.publish("news/today", b"x")
        assert body(subscription.get()) == b"x"
        with connect(queue_manager, "bob") as other, refused(NOT_AUTHORIZED):
            other.get(subscription.queue)


def test_subscribe_to_a_queue_of_ones_own_needs_PUT_on_it(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    local(queue_manager)
    with connect(queue_manager) as session:
        grant(queue_manager, "SUB", BASE, kind=TOPIC)
        with refused(NOT_AUTHORIZED):
            session.subscribe("news", queue="Q1")
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            session.subscribe("news", queue="GONE")
        grant(queue_manager, "PUT", "Q1")
        session.subscribe("news", queue="Q1")
        with new_session(queue_manager) as opener:
            opener.publish("news", b"x")
        assert queue_manager.curdepth("Q1") == 1


@pytest.mark.in_process
def test_resume_needs_RESUME_and_gives_the_managed_queue(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    with new_session(queue_manager) as opener:
        opener.subscribe("news", name="late", durable=True).close()
        opener.publish("news", b"x")
    with connect(queue_manager) as session:
        grant(queue_manager, "SUB", BASE, kind=TOPIC)
        with refused(NOT_AUTHORIZED):
            session.resume("late")
        grant(queue_manager, "RESUME", BASE, kind=TOPIC)
        resumed = session.resume("late")
        assert body(resumed.get()) == b"x"


def unsubscribe(session: Session) -> object:
    session.unsubscribe("late")
    return None


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("word", "verb"),
    [("SUB", unsubscribe), ("CLR", lambda session: session.clear_retained("news"))],
)
def test_what_is_taken_away_needs_authority(
    queue_manager: QueueManager,
    word: str,
    verb: Callable[[Session], object],
    new_session: NewSession,
) -> None:
    with new_session(queue_manager) as opener, connect(queue_manager) as session:
        opener.subscribe("news", name="late", durable=True).close()
        opener.publish("news", b"x", retain=True)
        with refused(NOT_AUTHORIZED):
            verb(session)
        assert queue_manager.mqsc("DISPLAY SUB('late')").ok
        assert queue_manager.mqsc("DISPLAY TPSTATUS('news')").rows[0]["RETAINED"] == "YES"
        grant(queue_manager, word, BASE, kind=TOPIC)
        verb(session)


def test_without_any_topic_object_authority_has_no_place(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    """Nobody is asked before there are records; then only the opener may publish."""
    queue_manager.mqsc(f"DELETE TOPIC({BASE})")
    with new_session(queue_manager, "alice") as session:
        session.publish("news", b"x")
        grant(queue_manager, "PUB", "**", kind=TOPIC)
        with refused(NOT_AUTHORIZED):
            session.publish("news", b"x")


def test_a_topic_object_of_another_string_gives_nothing(queue_manager: QueueManager) -> None:
    """A profile is about names of topic objects, not about topic strings."""
    topic(queue_manager, "NEWS", "weather")
    with connect(queue_manager) as session:
        grant(queue_manager, "PUB", "NEWS", kind=TOPIC)
        session.publish("weather/today", b"x")
        with refused(NOT_AUTHORIZED):
            session.publish("NEWS", b"x")
