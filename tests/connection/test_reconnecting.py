"""A connection that is made again: what is open again, what is backed out, what is in doubt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.client.connection import ClientClaims, Connection, Schedule
from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.reconnection import Attempts, ReconnectTiming
from mayfly.client.open_objects import OpenObjects, to_queue
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import LostAnswer, MQError
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from tests.connection.cut import SHORT, Cut, put, reason_of
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS
from tests.facts import wait_until

#: Less than the time for which attempts go on.
NOT_LONG_SECONDS = 20


@pytest.fixture
def connection(cut: Cut) -> Iterator[ReconnectingConnection]:
    made = ReconnectingConnection(cut.connect, Reconnect.YES, SHORT)
    yield made
    made.close(commit=False)


def test_handles_and_subscriptions_are_open_again_under_their_numbers(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    one = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    two = connection.call(ask.Open("Q2", BOTH_WAYS)).handle
    connection.call(ask.CloseObject(connection.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle))
    news = connection.call(ask.Open("", c.MQOO_OUTPUT, kind=c.MQOT_TOPIC, topic="news")).handle
    subscribed = connection.call(
        ask.Subscribe(c.MQSO_CREATE | c.MQSO_MANAGED | c.MQSO_NON_DURABLE, topic="news")
    )
    for _ in range(2):
        cut.again()
        put(connection, two, b"two")
        put(connection, one, b"one")
        put(connection, news, b"news")
        assert connection.get(one).message.body == b"one"
        assert connection.get(two).message.body == b"two"
        assert connection.get(subscribed.handle).message.body == b"news"
    assert connection.has_open(one)
    assert reason_of(lambda: connection.get(99)) == 2019
    connection.call(ask.CloseSubscription(subscribed.number))
    assert len(cut.connections) == 3


def test_a_dynamic_queue_is_made_again_under_its_name(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    opened = connection.call(
        ask.Open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_INPUT_EXCLUSIVE, dynamic_name="REPLY.*")
    )
    cut.again()
    assert reason_of(lambda: connection.get(opened.handle)) == 2033
    assert cut.manager.curdepth(opened.made) == 0


def test_a_unit_of_work_is_backed_out_and_says_so_until_it_is_ended(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    put(connection, queue, b"first", c.MQPMO_SYNCPOINT)
    cut.again()
    assert reason_of(lambda: put(connection, queue, b"second", c.MQPMO_SYNCPOINT)) == 2003
    assert reason_of(lambda: connection.get(queue, c.MQGMO_SYNCPOINT)) == 2003
    put(connection, queue, b"outside")
    assert reason_of(lambda: connection.call(ask.Commit())) == 2003
    put(connection, queue, b"third", c.MQPMO_SYNCPOINT)
    connection.call(ask.Commit())
    got = [connection.get(queue).message.body for _ in range(2)]
    assert got == [b"outside", b"third"]
    put(connection, queue, b"fourth", c.MQPMO_SYNCPOINT)
    cut.again()
    connection.call(ask.Backout())
    connection.call(ask.Commit())
    assert cut.manager.curdepth("Q1") == 0


def test_a_change_of_the_schedule_is_backed_out_with_its_unit_of_work(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    sent = connection.put(queue, b"later", Descriptor(), delay_ms=60_000)
    assert sent is not None
    Schedule(connection.call, in_unit=True).cancel(sent.msg_id)
    cut.again()
    assert reason_of(lambda: connection.call(ask.Commit())) == 2003
    assert Schedule(connection.call).show(sent.msg_id) is not None
    Schedule(connection.call, in_unit=True).cancel(sent.msg_id)
    connection.call(ask.Commit())
    assert Schedule(connection.call).show(sent.msg_id) is None


def test_a_unit_of_work_with_nothing_in_it_survives(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    cut.again()
    connection.call(ask.Commit())
    cut.again()
    put(connection, queue, b"x", c.MQPMO_SYNCPOINT)
    connection.call(ask.Commit())
    assert cut.manager.curdepth("Q1") == 1


def test_closing_after_the_unit_of_work_was_lost_is_2003(cut: Cut) -> None:
    connection = ReconnectingConnection(cut.connect, Reconnect.YES, SHORT)
    put(connection, connection.call(ask.Open("Q1", BOTH_WAYS)).handle, b"x", c.MQPMO_SYNCPOINT)
    cut.again()
    assert reason_of(connection.close) == 2003
    connection.close()


def test_a_get_that_waits_goes_on_waiting(
    cut: Cut, connection: ReconnectingConnection, clock: VirtualClock
) -> None:
    queue = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    got: list[bytes] = []
    thread = threading.Thread(
        target=lambda: got.append(
            connection.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED).message.body
        )
    )
    thread.start()
    wait_until(lambda: cut.server is not None and cut.server.connections()[0].is_running)
    cut.again()
    with cut.manager.session() as session:
        session.put("Q1", b"x")
    thread.join(JOIN_SECONDS)
    assert got == [b"x"]


def test_a_commit_whose_answer_never_came_is_2549(cut: Cut) -> None:
    """The server stops while the commit is under way: nobody knows how it ended."""
    lost: list[str] = []

    class Loses:
        """Connects; the answer of a commit does not come."""

        def __call__(self) -> Connection:
            made = cut.connect()
            if not lost:
                call = made.call

                def call_and_lose(request: ask.Request[Any]) -> Any:
                    answer = call(request)
                    if not isinstance(request, ask.Commit):
                        return answer
                    lost.append("commit")
                    cut.again()
                    with pytest.raises(MQError):
                        call(ask.AskStatus())
                    raise LostAnswer(2009, "the answer was lost")

                made.call = call_and_lose  # type: ignore[method-assign]  # where it breaks
            return made

    connection = ReconnectingConnection(Loses(), Reconnect.YES, SHORT)
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    put(connection, queue, b"x", c.MQPMO_SYNCPOINT)
    with pytest.raises(LostAnswer) as raised:
        connection.call(ask.Commit())
    assert raised.value.reason == 2549
    assert connection.get(queue).message.body == b"x"
    connection.close()


def test_options_that_a_new_connection_cannot_keep(connection: ReconnectingConnection) -> None:
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    assert reason_of(lambda: put(connection, queue, b"x", c.MQPMO_LOGICAL_ORDER)) == 2547
    assert reason_of(lambda: connection.get(queue, c.MQGMO_LOGICAL_ORDER)) == 2547
    assert reason_of(lambda: connection.get(queue, token=bytes(16))) == 2555
    durable = c.MQSO_CREATE | c.MQSO_MANAGED | c.MQSO_DURABLE
    assert reason_of(lambda: connection.call(ask.Subscribe(durable, name="s", topic="t"))) == 2555


def test_to_the_same_queue_manager_only(cut: Cut) -> None:
    connection = ReconnectingConnection(cut.connect, Reconnect.QUEUE_MANAGER, SHORT)
    durable = c.MQSO_CREATE | c.MQSO_MANAGED | c.MQSO_DURABLE
    subscribed = connection.call(ask.Subscribe(durable, name="s", topic="t"))
    cut.again()
    with cut.manager.session() as session:
        session.publish("t", b"news")
    assert connection.get(subscribed.handle).message.body == b"news"
    cut.stop()
    with QueueManager("QM1") as other:
        cut.serve(other)
        assert reason_of(connection.now_ms) == 2546
        assert connection.is_broken
        assert reason_of(connection.now_ms) == 2546
        cut.stop()


def test_what_cannot_be_opened_again_is_2548(cut: Cut, connection: ReconnectingConnection) -> None:
    queue = connection.call(ask.Open("Q2", c.MQOO_OUTPUT)).handle
    cut.stop()
    assert cut.manager.mqsc("DELETE QLOCAL(Q2)").ok
    cut.serve()
    assert reason_of(lambda: put(connection, queue, b"x")) == 2548
    assert connection.is_broken


def test_the_attempts_end_after_their_time_with_2556(cut: Cut) -> None:
    patience = ReconnectTiming(first_ms=1, longest_ms=2, total_ms=20)
    connection = ReconnectingConnection(cut.connect, Reconnect.YES, patience)
    cut.stop()
    assert reason_of(connection.now_ms) == 2556


def test_any_thread_ends_the_attempts_by_a_close(cut: Cut) -> None:
    patience = ReconnectTiming(first_ms=60_000, longest_ms=60_000, total_ms=600_000)
    connection = ReconnectingConnection(cut.connect, Reconnect.YES, patience)
    cut.stop()
    reasons: list[int] = []
    thread = threading.Thread(target=lambda: reasons.append(reason_of(connection.now_ms)))
    thread.start()
    wait_until(lambda: cut.connections[0].is_broken)
    connection.close()
    thread.join(JOIN_SECONDS)
    assert reasons[0] in (2018, 2009)


def test_idle_handles_wait_for_a_connection_that_is_made_again_and_hold_up_no_others(
    cut: Cut,
) -> None:
    lost = threading.Event()
    attempts = Attempts(lambda _change: lost.set())
    connection = ReconnectingConnection(cut.connect, Reconnect.YES, SHORT, attempts)
    objects = OpenObjects(connection)

    def put_once() -> None:
        objects.use(to_queue("Q1"), lambda handle: put(connection, handle, b"one"))

    def check() -> None:
        for _ in range(3):
            objects.tick()

    put_once()
    cut.stop()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(connection.now_ms)
        lost.wait(JOIN_SECONDS)
        # The thread that checks is that of all clients of the process.
        checking = threads.submit(check)
        try:
            checking.result(NOT_LONG_SECONDS)
        finally:
            cut.serve()
        waiting.result()
    put_once()
    check()
    assert objects.is_over
    connection.close()


def test_claims_are_refused_to_a_connection_that_may_be_made_again(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    """2298 before and after the loss; a plain connection is broken for good, and says so."""
    plain = cut.connect()
    claims = ClientClaims(plain.call)
    assert claims.standings() == []
    assert reason_of(lambda: ClientClaims(connection.call).standings()) == 2298
    cut.again()
    assert reason_of(lambda: ClientClaims(connection.call).standings()) == 2298
    # The end of the server, or that of its socket, is what the client hears first.
    assert reason_of(claims.standings) in (2009, 2162)
