"""Gets and waits that stand: into the unit of work, looks, refusals, moments, definitions."""

from __future__ import annotations

import threading

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement, token_of
from tests.conftest import Connect
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS, Told, got, put
from tests.spec.scene import refused

WAIT = c.MQGMO_WAIT
IN_UNIT = c.MQGMO_WAIT | c.MQGMO_SYNCPOINT
LOOK = c.MQGMO_WAIT | c.MQGMO_BROWSE_FIRST


def test_a_get_under_syncpoint_takes_into_the_unit_of_work(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    told = Told()
    connection.begin(ask.GetAny([queue], IN_UNIT), told)
    put(connection, queue, b"1")
    [delivery] = told.wait()
    assert (delivery.number, delivery.result.message.body) == (0, b"1")
    with refused(rc.MQRC_HMSG_ERROR):
        connection.call(ask.Settle([delivery.number], Settlement.TAKEN))
    connection.call(ask.Backout())
    assert connection.get(queue, c.MQGMO_SYNCPOINT).message.backout_count == 1
    connection.call(ask.Commit())
    assert queue_manager.curdepth("Q1") == 0


def test_a_look_leaves_the_message_to_everybody(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    told = Told()
    connection.begin(ask.GetAny([queue], LOOK), told)
    put(connection, queue, b"1")
    [delivery] = told.wait()
    assert (delivery.number, delivery.result.message.body) == (0, b"1")
    assert queue_manager.counts("Q1").live == 1
    assert connection.get(queue).message.body == b"1"


def test_a_cancelled_look_is_not_told(connection: Connection, queue: int) -> None:
    told = Told()
    look = connection.begin(ask.GetAny([queue], LOOK), told)
    assert look.cancel()
    put(connection, queue, b"1")
    assert told.outcomes == []


@pytest.mark.in_process
def test_a_refused_queue_is_told_once_and_got_from_when_it_is_enabled(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q2)")
    second = connection.call(ask.Open("Q2", BOTH_WAYS)).handle
    refusals: list[tuple[int, int]] = []

    def stand() -> Told:
        told = Told()
        connection.begin(
            ask.GetAny([queue, second], WAIT, tells_refusals=True),
            told,
            lambda handle, error: refusals.append((handle, error.reason)),
        )
        return told

    queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    told = stand()
    assert refusals == [(queue, rc.MQRC_GET_INHIBITED)]
    put(connection, second, b"of the other")
    assert told.wait()[0].handle == second
    told = stand()
    # Neither another get nor another change of definitions tells it again.
    queue_manager.mqsc("ALTER QLOCAL(DEAD) DESCR('x')")
    assert refusals == [(queue, rc.MQRC_GET_INHIBITED)]
    put(connection, queue, b"held back")
    assert told.outcomes == []
    queue_manager.mqsc("ALTER QLOCAL(Q1) GET(ENABLED)")
    assert told.wait()[0].result.message.body == b"held back"
    stand()
    queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    assert refusals == [(queue, rc.MQRC_GET_INHIBITED)] * 2


def test_without_on_refused_a_refused_queue_ends_the_get(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    told = Told()
    connection.begin(ask.GetAny([queue], WAIT), told)
    queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    told.wait()
    assert told.reasons == [rc.MQRC_GET_INHIBITED]


def test_a_moment_is_told_when_it_comes(
    clock: VirtualClock, queue_manager: QueueManager, connection: Connection
) -> None:
    told, past = Told(), Told()
    connection.begin(ask.WaitUntil(connection.now_ms() + 1_000), told)
    connection.begin(ask.WaitUntil(connection.now_ms()), past)
    assert past.wait() == [None]
    clock.advance(999)
    assert told.outcomes == []
    clock.advance(1)
    assert told.wait() == [None]


@pytest.mark.in_process
def test_a_change_of_definitions_is_told_once(
    queue_manager: QueueManager, connection: Connection
) -> None:
    told = Told()
    connection.begin(ask.AwaitDefinitions(), told)
    assert told.outcomes == []
    queue_manager.mqsc("DEFINE QLOCAL(Q3)")
    queue_manager.mqsc("DEFINE QLOCAL(Q4)")
    assert told.wait() == [None]
    assert told.outcomes == [None]


def test_cancelled_waits_are_not_told_and_a_close_ends_the_others(
    clock: VirtualClock, queue_manager: QueueManager, connection: Connection
) -> None:
    cancelled, ended = Told(), Told()
    for wait in (
        connection.begin(ask.WaitUntil(connection.now_ms() + 1_000), cancelled),
        connection.begin(ask.AwaitDefinitions(), cancelled),
    ):
        assert wait.cancel()
        assert not wait.cancel()
    connection.begin(ask.WaitUntil(connection.now_ms() + 1_000), ended)
    connection.begin(ask.AwaitDefinitions(), ended)
    connection.close()
    ended.wait(2)
    assert ended.reasons == [rc.MQRC_HCONN_ERROR] * 2
    clock.advance(2_000)
    queue_manager.mqsc("DEFINE QLOCAL(Q3)")
    assert cancelled.outcomes == []


def test_a_held_get_waits_and_its_message_is_settled_like_any_delivery(
    queue_manager: QueueManager, connection: Connection, queue: int, connect: Connect
) -> None:
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        connection.call(ask.GetAny([queue], WAIT, wait_ms=0))
    other = connect(queue_manager, "bert")
    output = other.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle
    found: list[Delivery] = []
    thread = threading.Thread(
        target=lambda: found.append(connection.call(ask.GetAny([queue], WAIT)))
    )
    thread.start()
    put(other, output, b"1")
    thread.join(JOIN_SECONDS)
    [delivery] = found
    assert queue_manager.counts("Q1").locked == 1
    connection.call(ask.Settle([delivery.number], Settlement.BACKED_OUT))
    delivery = connection.call(ask.GetAny([queue]))
    assert delivery.result.message.backout_count == 1
    connection.call(ask.Settle([delivery.number], Settlement.TAKEN))
    assert queue_manager.curdepth("Q1") == 0
    assert queue_manager.verify().ok
    other.close()


@pytest.mark.parametrize("closes", ["the handle", "the connection"])
def test_the_end_of_a_held_get_leaves_nothing_held(
    queue_manager: QueueManager, connect: Connect, closes: str
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    waiting = connect(queue_manager, None)
    handle = waiting.call(ask.Open("Q1", BOTH_WAYS)).handle
    errors: list[int] = []

    def wait() -> None:
        try:
            waiting.call(ask.GetAny([handle], WAIT))
        except MQError as error:
            errors.append(error.reason)

    thread = threading.Thread(target=wait)
    thread.start()
    if closes == "the handle":
        waiting.call(ask.CloseObject(handle))
        thread.join(JOIN_SECONDS)
        assert errors == [rc.MQRC_HOBJ_ERROR]
        waiting.close()
    else:
        waiting.close()
        thread.join(JOIN_SECONDS)
        assert errors[0] in (rc.MQRC_HCONN_ERROR, rc.MQRC_HOBJ_ERROR)
    assert queue_manager.verify().ok


def test_put1_puts_like_an_open_queue_and_leaves_nothing_open(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    from mayfly.mqi.descriptor import Descriptor

    result = connection.call(ask.Put1.of("Q1", b"1", Descriptor(), time_to_live_ms=500))
    message = connection.get(queue).message
    assert (message.msg_id, message.remaining_tenths) == (result.msg_id, 5)
    connection.call(ask.Put1.of("Q1", b"2", Descriptor(), c.MQPMO_SYNCPOINT))
    connection.call(ask.Backout())
    assert queue_manager.curdepth("Q1") == 0
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        connection.call(ask.Put1.of("NOWHERE", b"", Descriptor()))
    with refused(rc.MQRC_OPTIONS_ERROR):
        connection.call(ask.Put1.of("Q1", b"", Descriptor(), c.MQPMO_ASYNC_RESPONSE))
    queue_manager.mqsc("DEFINE QLOCAL(GONE)")
    connection.call(ask.Put1.of("GONE", b"1", Descriptor()))
    assert queue_manager.mqsc("DELETE QLOCAL(GONE) PURGE").ok


def test_onward_a_message_keeps_its_life_in_the_unit_of_work_that_got_it(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    for body in (b"1", b"2"):
        put(connection, queue, body, expiry_tenths=600)
    first = connection.get(queue, c.MQGMO_SYNCPOINT).message
    connection.call(ask.Forward(first.queue, token_of(first), "DEAD"))
    connection.call(ask.Backout())
    assert queue_manager.curdepth("DEAD") == 0
    first = connection.get(queue, c.MQGMO_SYNCPOINT).message
    second = connection.get(queue, c.MQGMO_SYNCPOINT).message
    connection.call(ask.Forward(first.queue, token_of(first), "DEAD"))
    connection.call(
        ask.DeadLetter(second.queue, token_of(second), rc.MQRC_BACKOUT_THRESHOLD_REACHED)
    )
    assert connection.call(
        ask.ReportException(second.queue, token_of(second), rc.MQRC_BACKOUT_THRESHOLD_REACHED)
    )
    connection.call(ask.Commit())
    dead = connection.call(ask.Open("DEAD", BOTH_WAYS)).handle
    moved, letter = connection.get(dead).message, connection.get(dead).message
    assert (moved.msg_id, moved.body, moved.remaining_tenths) == (first.msg_id, b"1", 600)
    assert (letter.msg_id, letter.descriptor.format.strip()) == (second.msg_id, "MQDEAD")
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        connection.call(ask.Forward(first.queue, token_of(first), ""))


def test_a_client_id_is_one_conversations_until_it_is_closed(
    queue_manager: QueueManager, connection: Connection, connect: Connect
) -> None:
    connection.call(ask.ClaimClientId("gates"))
    other = connect(queue_manager, None)
    with refused(rc.MQRC_OBJECT_IN_USE):
        other.call(ask.ClaimClientId("gates"))
    connection.close()
    other.call(ask.ClaimClientId("gates"))
    other.close()


@pytest.mark.parametrize("owner", ["gates", 7])
def test_no_local_leaves_out_what_the_same_owner_publishes(
    queue_manager: QueueManager, connection: Connection, connect: Connect, owner: str | int
) -> None:
    from mayfly.mqi.descriptor import Descriptor

    same, other = connect(queue_manager, None), connect(queue_manager, None)
    for one in (connection, same):
        one.call(ask.BelongTo(owner))
    joined = connection.call(ask.JoinSubscription("a/b", no_local=True))
    for publisher, body in ((same, b"own"), (other, b"of another")):
        publisher.call(ask.Put1.of("", body, Descriptor(), kind=c.MQOT_TOPIC, topic="a/b"))
    assert connection.get(joined.handle).message.body == b"of another"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        connection.get(joined.handle)
    assert connection.call(ask.IsSubscriptionOpen(joined.number))
    connection.call(ask.CloseSubscription(joined.number))
    assert not connection.call(ask.IsSubscriptionOpen(joined.number))
    same.close()
    other.close()


def test_a_temporary_topic_ends_with_what_is_retained_there(
    queue_manager: QueueManager, connection: Connection, connect: Connect
) -> None:
    from mayfly.mqi.descriptor import Descriptor

    def publish(topic: str) -> None:
        retain = c.MQPMO_RETAIN
        connection.call(ask.Put1.of("", b"1", Descriptor(), retain, kind=c.MQOT_TOPIC, topic=topic))

    other = connect(queue_manager, None)
    deleted, closed = (connection.call(ask.MakeTemporaryTopic()) for _ in range(2))
    assert deleted != closed
    publish(deleted)
    publish(closed)
    joined = connection.call(ask.JoinSubscription(deleted))
    with refused(rc.MQRC_OBJECT_IN_USE):
        connection.call(ask.DeleteTemporaryTopic(deleted))
    assert got(connection, joined.handle).result.message.body == b"1"
    connection.call(ask.CloseSubscription(joined.number))
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        other.call(ask.DeleteTemporaryTopic(deleted))
    connection.call(ask.DeleteTemporaryTopic(deleted))
    connection.close()
    for topic in (deleted, closed):
        joined = other.call(ask.JoinSubscription(topic))
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            other.get(joined.handle)
    other.close()


def test_what_a_queue_says_of_messages_backed_out_too_often(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    assert connection.call(ask.AskBackoutRule(queue)) == (0, "")
    queue_manager.mqsc("ALTER QLOCAL(Q1) BOTHRESH(3) BOQNAME(DEAD)\nDEFINE QALIAS(A1) TARGET(Q1)")
    alias = connection.call(ask.Open("A1", c.MQOO_INPUT_SHARED)).handle
    for handle in (queue, alias):
        assert connection.call(ask.AskBackoutRule(handle)) == (3, "DEAD")
    with refused(rc.MQRC_HOBJ_ERROR):
        connection.call(ask.AskBackoutRule(alias + 1_000))
    assert connection.call(ask.AskCommandLevel()) == queue_manager.engine.command_level


def test_lives_from_release_is_told_of_a_queue_and_of_all(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    assert not connection.call(ask.AskLivesFromRelease(c.MQHO_NONE))
    queue_manager.mqsc("DEFINE QLOCAL(LATE) TTLFROM(RELEASE)")
    late = connection.call(ask.Open("LATE", c.MQOO_OUTPUT))
    assert late.definition_type == c.MQQDT_PREDEFINED
    assert connection.call(ask.AskLivesFromRelease(c.MQHO_NONE))
    assert connection.call(ask.AskLivesFromRelease(late.handle))
    assert not connection.call(ask.AskLivesFromRelease(queue))
