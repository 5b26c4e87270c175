"""The transport of kombu: exchanges, settlement, prefetch, counts, users, lost connections."""

from __future__ import annotations

import select
from collections.abc import Iterator, Sized
from typing import Any

import pytest

from mayfly.admin.security.developer import ADMIN
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError
from mayfly.queue_manager import QueueManager
from mayfly.testing import VirtualClock
from mayfly.testing.served import ADMIN_CHANNEL, PASSWORDS, ServedQueueManager, served
from tests.facts import PATIENCE_SECONDS, wait_until

pytest.importorskip("kombu", reason="the extra celery is not installed")
pytest.importorskip("mayfly.integrations.kombu")

import kombu
from kombu.asynchronous import Hub
from kombu.exceptions import ChannelError, OperationalError


@pytest.fixture
def broker(queue_manager: QueueManager) -> Iterator[Any]:
    """A connection of kombu to the queue manager of this process, which has a dead-letter queue."""
    queue_manager.mqsc("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    with kombu.Connection(f"mayfly://{queue_manager.name}") as connection:
        yield connection


def admin_url(server: ServedQueueManager, *, password: str = PASSWORDS[ADMIN]) -> str:
    """Return the broker URL of the administrator of a served queue manager."""
    place = f"127.0.0.1:{server.port}/{server.name}?channel={ADMIN_CHANNEL}"
    return f"mq://{ADMIN}:{password}@{place}"


def drained(broker: Any, held: Sized, count: int) -> None:
    """Deliver messages until so many are held; no further one comes."""
    while len(held) < count:
        broker.drain_events(timeout=PATIENCE_SECONDS)
    with pytest.raises(TimeoutError):
        broker.drain_events(timeout=0.2)


def exclusive(name: str, exchange: Any, routing_key: str = "") -> Any:
    return kombu.Queue(name, exchange, routing_key, exclusive=True, durable=False)


@pytest.mark.parametrize(
    ("exchange_type", "keys", "expected"),
    [
        ("direct", ("a.b", "a.*"), {"0": ["a.b"], "1": ["a.*"]}),
        ("topic", ("a.*", "#.c"), {"0": ["a.*", "a.b", "a.c"], "1": ["a.c", "c", "x.y.c"]}),
        ("fanout", ("", "b"), {"0": [], "1": []}),
    ],
)
def test_an_exchange_routes_as_in_amqp(
    broker: Any, exchange_type: str, keys: tuple[str, str], expected: dict[str, list[str]]
) -> None:
    sent = ["a.b", "a.c", "a.*", "c", "x.y.c", "a/b"]
    if exchange_type == "fanout":
        expected = {"0": sorted(sent), "1": sorted(sent)}
    exchange = kombu.Exchange(f"{exchange_type}.ex", exchange_type, durable=False)
    queues = [exclusive(str(place), exchange, key) for place, key in enumerate(keys)]
    found: list[tuple[str, str]] = []
    with broker.channel() as channel, kombu.Connection(broker.as_uri()) as other:
        for queue in queues:
            consumer = channel.Consumer(queue, no_ack=True)
            consumer.register_callback(
                lambda body, _message, name=queue.name: found.append((name, body))
            )
            consumer.consume()
        # Another program publishes: the queue manager has the bindings.
        producer = other.Producer(serializer="json")
        for key in sent:
            producer.publish(key, exchange=exchange, routing_key=key, declare=[exchange])
        drained(broker, found, sum(map(len, expected.values())))
    assert {name: sorted(key for q, key in found if q == name) for name in "01"} == expected


def test_a_message_is_settled_by_ack_requeue_and_reject(
    broker: Any, queue_manager: QueueManager
) -> None:
    queue = broker.SimpleQueue("jobs")
    for word in ("ack", "requeue", "reject"):
        queue.put(word)
    first, second, third = (queue.get(timeout=PATIENCE_SECONDS) for _ in range(3))
    assert [first.payload, second.payload, third.payload] == ["ack", "requeue", "reject"]
    first.ack()
    second.requeue()
    third.reject()
    again = queue.get(timeout=PATIENCE_SECONDS)
    assert (again.payload, again.delivery_info["redelivered"]) == ("requeue", True)
    assert not first.delivery_info["redelivered"]
    again.ack()
    broker.release()
    assert queue_manager.counts("jobs").live == 0
    assert queue_manager.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 1


def test_prefetch_limits_what_is_held_and_close_gives_it_back_uncounted(
    broker: Any, queue_manager: QueueManager
) -> None:
    simple = broker.SimpleQueue("jobs")
    for number in range(5):
        simple.put(number)
    simple.close()
    held: list[Any] = []
    channel = broker.channel()
    channel.basic_qos(0, 2, False)
    consumer = channel.Consumer(kombu.Queue("jobs"), on_message=held.append)
    consumer.consume()
    drained(broker, held, 2)
    assert [message.payload for message in held] == [0, 1]
    held[0].ack()
    drained(broker, held, 3)
    assert [message.payload for message in held] == [0, 1, 2]
    channel.close()
    with queue_manager.session() as session:
        back = list(session.browse("jobs"))
    assert [message.backout_count for message in back] == [0, 0, 0, 0]


def test_messages_that_no_consumer_has_had_go_back_uncounted(
    broker: Any, queue_manager: QueueManager
) -> None:
    simple = broker.SimpleQueue("jobs")
    for number in range(3):
        simple.put(number)
    held: list[Any] = []
    broker.channel().Consumer(kombu.Queue("jobs"), on_message=held.append).consume()
    broker.connection.wait_for_call(PATIENCE_SECONDS)()
    wait_until(lambda: queue_manager.counts("jobs").locked == 3)
    broker.release()
    assert [message.payload for message in held] == [0]
    with queue_manager.session() as session:
        back = list(session.browse("jobs"))
    assert [message.backout_count for message in back] == [0, 0, 0]


def test_an_event_loop_is_woken_for_each_message_that_has_come_with_another(broker: Any) -> None:
    """A poller that sleeps between them would run a task a second."""
    simple = broker.SimpleQueue("jobs")
    for number in range(5):
        simple.put(number)
    held: list[Any] = []
    consumer = broker.channel().Consumer(kombu.Queue("jobs"), on_message=held.append)
    consumer.consume()
    hub = Hub()
    broker.register_with_event_loop(hub)
    # What woke the loop is read, as by a wait that the first message ends.
    select.select([broker.connection.reader], [], [], PATIENCE_SECONDS)
    broker.connection.reader.recv(1)
    broker.connection.wait_for_call(0)()
    while len(held) < 5:
        is_readable, _, _ = select.select([broker.connection.reader], [], [], PATIENCE_SECONDS)
        assert is_readable
        hub.run_once()
    hub.close()
    assert [message.payload for message in held] == [0, 1, 2, 3, 4]


def test_a_higher_priority_comes_first(broker: Any) -> None:
    queue = broker.SimpleQueue("jobs")
    for priority in (0, 9, 4):
        queue.put(priority, priority=priority)
    got = [queue.get(timeout=PATIENCE_SECONDS) for _ in range(3)]
    assert [message.payload for message in got] == [9, 4, 0]
    assert [message.properties["priority"] for message in got] == [9, 4, 0]


def test_bytes_arrive_as_they_were(broker: Any) -> None:
    queue = broker.SimpleQueue("jobs", serializer="raw")
    queue.put(b"\x00\xff", serializer="raw")
    assert queue.get(timeout=PATIENCE_SECONDS).body == b"\x00\xff"


def test_counts_are_declared_and_a_purge_takes_what_is_delayed_too(broker: Any) -> None:
    queue = kombu.Queue("jobs")(broker.default_channel)
    queue.declare()
    producer = broker.Producer()
    producer.publish("now", routing_key="jobs")
    producer.publish("later", routing_key="jobs", headers={"eta": "2099-01-01T00:00:00"})
    assert tuple(queue.queue_declare(passive=True)) == ("jobs", 1, 0)
    assert queue.purge() == 2
    queue.delete()
    with pytest.raises(ChannelError) as missing:
        queue.queue_declare(passive=True)
    assert missing.value.reply_code == 404


def test_an_expiration_is_the_time_to_live(
    broker: Any, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    queue = broker.SimpleQueue("jobs")
    queue.put("soon over", expiration=5)
    clock.advance(4_999)
    assert queue_manager.counts("jobs").live == 1
    clock.advance(1)
    with pytest.raises(queue.Empty):
        queue.get(block=False)


def test_a_temporary_queue_ends_with_the_connection_that_declared_it(
    broker: Any, queue_manager: QueueManager
) -> None:
    with kombu.Connection(broker.as_uri()) as other:
        exclusive("mine@here", kombu.Exchange("x", "fanout"))(other.default_channel).declare()
        assert queue_manager.curdepth("mine%40here") == 0
        broker.Producer().publish("kept in memory", routing_key="mine@here")
        assert queue_manager.curdepth("mine%40here") == 1
    with pytest.raises(MQError) as gone:
        queue_manager.curdepth("mine%40here")
    assert gone.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    # A reply to a program that has gone is dropped; a task is not.
    broker.Producer().publish("nobody", routing_key="mine@here")
    with pytest.raises(ChannelError, match="no queue 'mine@here'"):
        broker.Producer().publish("a task", routing_key="mine@here", headers={"task": "t"})


def test_what_is_no_message_of_kombu_is_set_aside(broker: Any, queue_manager: QueueManager) -> None:
    queue = broker.SimpleQueue("jobs")
    with queue_manager.session() as session:
        session.put("jobs", b"of a program in COBOL")
    queue.put("task")
    assert queue.get(timeout=PATIENCE_SECONDS).payload == "task"
    with queue_manager.session() as session:
        (aside,) = session.browse("SYSTEM.DEAD.LETTER.QUEUE")
    assert aside.body.endswith(b"of a program in COBOL")


def test_a_message_that_is_backed_out_too_often_is_set_aside(
    broker: Any, queue_manager: QueueManager
) -> None:
    queue = broker.SimpleQueue("jobs")
    queue_manager.mqsc("ALTER QLOCAL('jobs') BOTHRESH(2)")
    queue.put("poison")
    queue = broker.SimpleQueue("jobs")
    for _ in range(2):
        queue.get(timeout=PATIENCE_SECONDS).requeue()

    def is_set_aside() -> bool:
        with pytest.raises(queue.Empty):
            queue.get(timeout=0.2)
        return queue_manager.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 1

    wait_until(is_set_aside)


@pytest.mark.parametrize("header", ["eta", "expires"])
def test_a_wrong_moment_is_an_error_that_names_it(broker: Any, header: str) -> None:
    broker.SimpleQueue("jobs")
    with pytest.raises(ValueError, match=f"{header} 'soon' is no moment"):
        broker.Producer().publish("x", routing_key="jobs", headers={header: "soon"})


def test_a_user_of_limited_authority_uses_defined_queues_and_hears_which_is_missing(
    served_queue_manager: ServedQueueManager,
) -> None:
    server = served_queue_manager
    server.mqsc(
        "DEFINE TOPIC(KOMBU) TOPICSTR('kombu')\n"
        "SET AUTHREC PROFILE(KOMBU) OBJTYPE(TOPIC) GROUP(developers) AUTHADD(PUB,SUB,RESUME)"
    )
    account = f"{server.user}:{server.password}@"
    url = server.url.replace("mq://", f"mq://{account}")
    with kombu.Connection(url) as connection:
        assert connection.as_uri() == url.replace(server.password, "**")
        queue = connection.SimpleQueue("DEV.QUEUE.1")
        queue.put({"n": 1})
        assert queue.get(timeout=PATIENCE_SECONDS).payload == {"n": 1}
        with pytest.raises(ChannelError, match=r"'DEV.JOBS' is missing.*DEFINE QLOCAL") as missing:
            kombu.Queue("DEV.JOBS")(connection.default_channel).queue_declare()
        assert missing.value.reply_code == 404


def test_wrong_urls_are_refused() -> None:
    with pytest.raises(ValueError, match="several hosts stand in one"):
        kombu.Connection("one", transport="mayfly.integrations.kombu:KombuTransport").connect()
    with pytest.raises(ValueError, match="mqs://"):
        kombu.Connection("mq://h/QM1", ssl=True).connect()
    with pytest.raises(MQError, match="'chanel' is none of"):
        kombu.Connection("mq://h/QM1?chanel=X").connect()


def test_a_lost_connection_is_an_error_of_kombu_and_is_made_again(
    queue_manager: QueueManager,
) -> None:
    with served(queue_manager) as first:
        at_once = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
        connection = kombu.Connection(admin_url(first), transport_options=at_once)
        consumed: list[Any] = []
        producer = connection.Producer()
        with connection.Consumer(kombu.Queue("jobs"), on_message=consumed.append, no_ack=True):
            producer.publish("before", routing_key="jobs")
            connection.drain_events(timeout=PATIENCE_SECONDS)
    assert [message.payload for message in consumed] == ["before"]
    with pytest.raises(OperationalError, match="nobody listens"):
        connection.default_channel.queue_declare("jobs")
    assert ConnectionBroken in connection.connection_errors
    with served(queue_manager) as second:
        # The server is on another port, as one of several hosts would be.
        connection.hostname = admin_url(second)
        connection.ensure_connection(max_retries=1, timeout=PATIENCE_SECONDS)
        retried = connection.ensure(producer, producer.publish, max_retries=2)
        retried("after", routing_key="jobs")
        connection.release()
    assert queue_manager.curdepth("jobs") == 1
