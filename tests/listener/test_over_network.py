"""Ports on a queue manager that a server has: the rules of both modes over TCP, and broken links.

The clock is that of the queue manager, which the tests move here; a port far away does not see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from mayfly import QueueManager, jms
from mayfly.admin.security.applicant import Admitted
from mayfly.client.connection.endpoint import Address
from mayfly.listener import ListenerPort, MessageListenerService, Statistics, current_transaction
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.servers.wire import WireServer
from mayfly.testing import VirtualClock
from tests.connection.serving import HOST, AdmitEverybody, Served, serving
from tests.facts import wait_until
from tests.listener.scene import (
    LIFETIME_MS,
    RECEIVE_TIMEOUT_MS,
    Calls,
    backout_count,
    fail,
    ignore,
    port_of,
    put,
    started,
    until,
)
from tests.ports import held_port

both_modes = pytest.mark.parametrize("timeout_ms", [RECEIVE_TIMEOUT_MS, 0])


@pytest.fixture
def served(manager: QueueManager) -> Iterator[Served]:
    """``QM1`` on a port of the loopback interface."""
    with serving(manager) as it:
        yield it


@pytest.fixture
def factory(served: Served) -> jms.ConnectionFactory:
    """What connects to it."""
    assert isinstance(served.address, Address)
    return factory_to(served.address.port)


def factory_to(port: int) -> jms.ConnectionFactory:
    """Return what connects to ``QM1`` behind a port."""
    return jms.ConnectionFactory(
        host=HOST, port=port, channel="CH", queue_manager="QM1", user="operator"
    )


def waits_on(manager: QueueManager, name: str = "Q1") -> list[int | None]:
    """Return when the gets end that stand on a queue of the server."""
    engine = manager.engine
    with engine.engine_lock:
        number = engine.registry.queue(name).number
        return [one.until_ms for one in engine.waits.by_queue.get(number, ())]


def standing(manager: QueueManager, count: int = 1, name: str = "Q1") -> None:
    """Return when so many gets stand on a queue of the server."""
    wait_until(lambda: len(waits_on(manager, name)) == count)


def conversations(served: Served) -> list[int]:
    """Return how many conversations each socket of the server has, the smallest number first."""
    instances = [each.instance for each in served.server.connections()]
    return sorted(Counter(instances).values())


@pytest.mark.parametrize(
    ("sessions", "per_connection", "expected"),
    [
        (1, 10, [1]),
        (10, 10, [10]),
        (11, 10, [1, 10]),
        (3, 2, [1, 2]),
        (10, 1, [1] * 10),
        (4, 1, [1] * 4),
    ],
)
@pytest.mark.parametrize("destination", ["Q1", "topic://gates/A1"])
def test_L4_a_thread_has_a_socket_for_itself_or_up_to_ten_share_one(
    served: Served,
    factory: jms.ConnectionFactory,
    destination: str,
    sessions: int,
    per_connection: int,
    expected: list[int],
) -> None:
    """Counted at the server. Other connections of the process are on none of them."""
    with factory.create_connection() as other:
        other.create_session()
        assert conversations(served) == [2]
        port = port_of(
            factory,
            destination=destination,
            max_sessions=sessions,
            conversations_per_connection=per_connection,
        )
        with started(port):
            other.create_session()
            assert conversations(served) == sorted([3, *expected])
            assert port.statistics().connections == len(expected)
        wait_until(lambda: conversations(served) == [3])
        assert port.statistics().connections == 0


@pytest.mark.parametrize(("per_connection", "expected"), [(1, [1, 1, 1]), (2, [1, 2]), (10, [3])])
def test_L4_sessions_of_ASF_share_sockets_likewise(
    manager: QueueManager,
    served: Served,
    factory: jms.ConnectionFactory,
    per_connection: int,
    expected: list[int],
) -> None:
    calls = Calls(is_held=True)
    port = port_of(
        factory,
        calls,
        receive_timeout_ms=0,
        max_sessions=3,
        conversations_per_connection=per_connection,
    )
    with started(port):
        for count in (1, 2, 3):
            put(manager, str(count))
            until(port, lambda now: now.delivered == count)  # noqa: B023 - called at once
        assert conversations(served) == expected
        assert port.statistics().connections == len(expected)
        calls.let_go()
        until(port, lambda now: now.committed == 3)


def test_L4_where_the_channel_lets_fewer_share_there_are_more_sockets_and_they_are_counted(
    manager: QueueManager,
) -> None:
    with serving(manager, terms=Admitted(user="", share_conversations=3)) as served:
        assert isinstance(served.address, Address)
        port = port_of(factory_to(served.address.port), max_sessions=10)
        with started(port):
            assert conversations(served) == [1, 3, 3, 3]
            assert port.statistics().connections == 4


def test_L4_sessions_that_come_back_after_a_broken_link_share_as_before(
    manager: QueueManager, served: Served, factory: jms.ConnectionFactory, clock: VirtualClock
) -> None:
    port = port_of(
        factory,
        max_sessions=4,
        conversations_per_connection=2,
        properties={"NON.ASF.RECEIVE.TIMEOUT": RECEIVE_TIMEOUT_MS, "RECOVERY.RETRY.INTERVAL": 1},
    )
    with started(port):
        assert conversations(served) == [2, 2]
        lost = served.server.connections()[0]
        assert served.server.end(lost.number)
        until(port, lambda now: now.connections == 1)
        # Each of the two sessions waits for its next try by the clock of the queue manager.
        wait_until(lambda: sum(conversations(served)) == 4)
        while port.statistics().listener_retries < 2:
            clock.advance(1_000)
        until(port, lambda now: now.connections == 2 and now.receiving == 4)
        wait_until(lambda: conversations(served) == [2, 2])


def test_a_session_of_a_port_that_makes_a_temporary_queue_has_a_conversation_more(
    manager: QueueManager, served: Served, factory: jms.ConnectionFactory
) -> None:
    """The queue belongs to the connection, which has a conversation of its own from then on."""
    made: list[str] = []

    def make(_message: jms.Message) -> None:
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        made.append(session.create_temporary_queue().queue_name)

    with started(port_of(factory, make)) as port:
        put(manager, "x")
        until(port, lambda now: now.committed == 1)
        assert conversations(served) == [2]
        assert port.statistics().connections == 1
        assert manager.curdepth(made[0]) == 0
    wait_until(lambda: conversations(served) == [])


@both_modes
def test_L3_a_port_far_away_commits_and_rolls_back(
    manager: QueueManager, factory: jms.ConnectionFactory, timeout_ms: int
) -> None:
    def answer(message: jms.TextMessage) -> None:
        session = current_transaction().session
        assert isinstance(session, jms.Session)
        producer = session.create_producer(session.create_queue("REPLIES"))
        producer.send(session.create_text_message(f"re: {message.text}"))
        producer.close()
        if message.text == "bad" and not message.jms_redelivered:
            raise ValueError(message.text)

    with started(port_of(factory, answer, receive_timeout_ms=timeout_ms)) as port:
        put(manager, "good", "bad")
        now = until(port, lambda now: now.committed == 2)
        assert (now.delivered, now.rolled_back, now.listener_retries) == (3, 1, 0)
        # What was sent in the transaction that was rolled back is gone with it.
        assert (manager.curdepth("Q1"), manager.curdepth("REPLIES")) == (0, 2)
    assert (port.statistics().threads, port.statistics().connections) == (0, 0)
    wait_until(lambda: not manager.counts("Q1").locked)


@pytest.mark.parametrize(("work_ms", "committed"), [(9_999, 1), (10_000, 0)])
def test_L9_the_clock_of_the_server_times_transactions_to_the_ms(
    manager: QueueManager,
    clock: VirtualClock,
    factory: jms.ConnectionFactory,
    work_ms: int,
    committed: int,
) -> None:
    begun_ms = clock.now_ms()
    calls = Calls(lambda _message: clock.advance(work_ms))
    with started(port_of(factory, calls, receive_timeout_ms=115_000, max_retries=0)) as port:
        standing(manager)
        assert waits_on(manager) == [begun_ms + 115_000]
        clock.advance(RECEIVE_TIMEOUT_MS)
        put(manager, "x")
        now = until(port, lambda now: now.committed + now.rolled_back == 1)
        assert (now.committed, now.timed_out) == (committed, 1 - committed)
    assert manager.curdepth("Q1") == 1 - committed


def test_L11_a_transaction_is_marked_while_on_message_is_at_work(
    manager: QueueManager, clock: VirtualClock, factory: jms.ConnectionFactory
) -> None:
    calls = Calls(is_held=True)
    put(manager, "x")
    with started(port_of(factory, calls, receive_timeout_ms=0, max_retries=0)) as port:
        calls.next()
        clock.advance(LIFETIME_MS)
        now = until(port, lambda now: now.timed_out == 1)
        assert (now.rolled_back, manager.counts("Q1").locked) == (0, 1)
        calls.let_go()
        assert until(port, lambda now: now.rolled_back == 1).committed == 0
    assert (manager.curdepth("Q1"), backout_count(manager)) == (1, 1)


def test_L5_an_empty_receive_rolls_back_and_begins_anew(
    manager: QueueManager, clock: VirtualClock, factory: jms.ConnectionFactory
) -> None:
    with started(port_of(factory, max_sessions=2)) as port:
        for count in (1, 2):
            end_ms = clock.now_ms() + RECEIVE_TIMEOUT_MS
            wait_until(lambda: waits_on(manager) == [end_ms] * 2)  # noqa: B023 - called at once
            clock.advance(RECEIVE_TIMEOUT_MS)
            done = 2 * count
            now = until(port, lambda now: now.idle_rollbacks == done)  # noqa: B023 - called at once
            assert (now.threads, now.connections) == (2, 1)


@both_modes
def test_L6_what_the_selector_refuses_stays(
    manager: QueueManager, factory: jms.ConnectionFactory, timeout_ms: int
) -> None:
    calls = Calls()
    port = port_of(factory, calls, receive_timeout_ms=timeout_ms, selector="colour = 'red'")
    with started(port):
        put(manager, "blue", properties={"colour": "blue"})
        put(manager, "red", properties={"colour": "red"})
        assert calls.text() == "red"
        until(port, lambda now: now.committed == 1)
    assert (manager.curdepth("Q1"), backout_count(manager)) == (1, 0)


@both_modes
def test_L15_what_has_expired_is_not_delivered_and_reported_on(
    manager: QueueManager, clock: VirtualClock, factory: jms.ConnectionFactory, timeout_ms: int
) -> None:
    report: dict[str, Any] = {"report": c.MQRO_EXPIRATION, "reply_to_q": "REPLIES"}
    put(manager, "old", time_to_live_ms=1_000, **report)
    put(manager, "young", time_to_live_ms=1_001, **report)
    clock.advance(1_000)
    calls = Calls(fail, is_held=True)
    with started(port_of(factory, calls, receive_timeout_ms=timeout_ms)) as port:
        assert calls.text() == "young"
        # Its life ends while it is being worked on: it does not come again.
        clock.advance(1)
        calls.let_go()
        until(port, lambda now: now.rolled_back == 1)
        wait_until(lambda: manager.curdepth("REPLIES") == 2)
        assert (calls.is_empty, port.statistics().delivered) == (True, 1)


@both_modes
def test_L8_sessions_far_away_have_each_message_once(
    manager: QueueManager, factory: jms.ConnectionFactory, timeout_ms: int
) -> None:
    calls = Calls(is_held=True)
    texts = [str(number) for number in range(20)]
    port = port_of(
        factory,
        calls,
        receive_timeout_ms=timeout_ms,
        max_sessions=3,
        conversations_per_connection=2,
    )
    with started(port):
        put(manager, *texts)
        until(port, lambda now: now.delivered == 3)
        assert (port.statistics().threads, port.statistics().connections) == (3, 2)
        assert (manager.counts("Q1").locked, manager.curdepth("Q1")) == (3, 17)
        calls.let_go()
        until(port, lambda now: now.committed == 20)
    assert Counter(calls.text() for _ in texts) == Counter(texts)
    assert calls.is_empty


@both_modes
def test_stop_ends_the_gets_of_the_server_before_it_returns(
    manager: QueueManager, factory: jms.ConnectionFactory, timeout_ms: int
) -> None:
    port = port_of(factory, receive_timeout_ms=timeout_ms, max_sessions=3)
    port.start()
    standing(manager, 3 if timeout_ms else 1)
    port.stop()
    assert waits_on(manager) == []
    put(manager, "not any more")
    now = port.statistics()
    assert (now.delivered, now.idle_rollbacks, manager.curdepth("Q1")) == (0, 0, 1)
    assert not port.is_running


def test_ASF_unused_sessions_lose_their_threads_by_the_clock_of_the_server(
    manager: QueueManager, clock: VirtualClock, factory: jms.ConnectionFactory
) -> None:
    pool: dict[str, str | int] = {
        "SERVER.SESSION.POOL.REAP.TIME": 10,
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 25,
    }
    with started(port_of(factory, receive_timeout_ms=0, properties=pool)) as port:
        put(manager, "1")
        until(port, lambda now: now.committed == 1)
        reap_ms = clock.now_ms() + 30_000
        wait_until(lambda: waits_on(manager) == [reap_ms])
        clock.advance(29_999)
        assert port.statistics().threads == 1
        clock.advance(1)
        until(port, lambda now: (now.threads, now.connections) == (0, 1))


def test_ASF_ports_far_away_share_the_threads_of_a_service(
    manager: QueueManager, factory: jms.ConnectionFactory
) -> None:
    """The message stays on its queue, not taken, until a thread is free."""
    first, second = Calls(is_held=True), Calls()
    service = MessageListenerService(factory, max_threads=1)
    one = service.add_port("One", destination="Q1", on_message=first)
    two = service.add_port("Two", destination="Q2", on_message=second)
    with service:
        put(manager, "1")
        until(one, lambda now: now.delivered == 1)
        put(manager, "2", name="Q2")
        assert (service.threads_in_use, manager.counts("Q2").locked) == (1, 0)
        first.let_go()
        assert second.text() == "2"
        until(two, lambda now: now.committed == 1)
    assert service.threads_in_use == 0
    assert (manager.curdepth("Q1"), manager.curdepth("Q2")) == (0, 0)


@both_modes
def test_a_topic_far_away_is_heard_by_the_sessions_together(
    manager: QueueManager, factory: jms.ConnectionFactory, timeout_ms: int
) -> None:
    calls = Calls()
    port = port_of(
        factory,
        calls,
        receive_timeout_ms=timeout_ms,
        destination="topic://gates/A1",
        max_sessions=3,
    )
    with started(port), jms.ConnectionFactory(manager).create_context() as context:
        producer = context.create_producer()
        for text in ("1", "2"):
            producer.send(context.create_topic("gates/A1"), text)
        assert {calls.text(), calls.text()} == {"1", "2"}
        assert until(port, lambda now: now.committed == 2).delivered == 2


@both_modes
def test_a_destination_that_is_not_there_is_refused_at_the_start(
    served: Served, factory: jms.ConnectionFactory, timeout_ms: int
) -> None:
    port = port_of(factory, destination="NOWHERE", receive_timeout_ms=timeout_ms)
    with pytest.raises(jms.InvalidDestinationException) as caught:
        port.start()
    assert caught.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    assert (port.is_running, port.statistics().connections) == (False, 0)


@both_modes
def test_a_server_that_is_not_there_is_named_at_the_start(timeout_ms: int) -> None:
    with held_port() as number:
        port = port_of(factory_to(number), receive_timeout_ms=timeout_ms)
        with pytest.raises(jms.JMSException) as caught:
            port.start()
    assert caught.value.reason == rc.MQRC_HOST_NOT_AVAILABLE
    assert not port.is_running


@both_modes
@pytest.mark.slow
def test_a_port_connects_again_when_its_server_is_back(
    manager: QueueManager, clock: VirtualClock, timeout_ms: int
) -> None:
    """The message in work is backed out; nobody asks the clock of a server that is gone."""

    def has_come_again(now: Statistics) -> bool:
        # A pause that begins when the server is back already is one of the server's time.
        clock.advance(100)
        return now.delivered == 2

    calls = Calls(is_held=True)
    properties: dict[str, str | int] = {"RECOVERY.RETRY.INTERVAL": 1, "MAX.RECOVERY.RETRIES": 1000}
    with held_port() as number:
        port = port_of(
            factory_to(number),
            calls,
            receive_timeout_ms=timeout_ms,
            properties=properties,
            max_sessions=2,
        )
        server = WireServer([manager], AdmitEverybody())
        server.listen_tcp(HOST, number)
        with started(port):
            put(manager, "x")
            assert calls.text() == "x"
            server.close()
            wait_until(lambda: not manager.counts("Q1").locked)
            calls.let_go()
            until(port, lambda now: now.listener_retries >= 1)
            server = WireServer([manager], AdmitEverybody())
            server.listen_tcp(HOST, number)
            until(port, has_come_again)
            assert calls.text() == "x"
            # The first transaction ended with its connection, whose outcome nobody was told.
            now = until(port, lambda now: now.committed == 1)
            assert (now.delivered, now.rolled_back) == (2, 0)
        server.close()
    assert manager.curdepth("Q1") == 0


@both_modes
@pytest.mark.slow
def test_a_server_that_stays_away_ends_the_port(manager: QueueManager, timeout_ms: int) -> None:
    properties: dict[str, str | int] = {"RECOVERY.RETRY.INTERVAL": 1, "MAX.RECOVERY.RETRIES": 1}
    with held_port() as number:
        server = WireServer([manager], AdmitEverybody())
        server.listen_tcp(HOST, number)
        port = port_of(factory_to(number), receive_timeout_ms=timeout_ms, properties=properties)
        with started(port):
            server.close()
            until(port, lambda now: not now.threads and not port.is_running)
            assert port.statistics().listener_retries == 1


def test_what_is_no_queue_manager_is_refused() -> None:
    with pytest.raises(TypeError, match="is no queue manager of this process"):
        ListenerPort("QM1", destination="Q1", on_message=ignore)  # type: ignore[arg-type]  # wrong on purpose
