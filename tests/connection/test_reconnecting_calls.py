"""Verbs with a callback on a connection that is made again: begun again, backed out, in doubt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.interface import UnderWay
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.reconnection import Attempts, ReconnectTiming
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import LostAnswer, MQError
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement
from mayfly.verbs.requests import Commit, WaitUntil
from tests.connection.cut import SHORT, Cut, put, reason_of
from tests.connection.scene import BOTH_WAYS, Told
from tests.facts import wait_until

WAIT = c.MQGMO_WAIT
IN_UNIT = WAIT | c.MQGMO_SYNCPOINT


@pytest.fixture
def connection(cut: Cut) -> Iterator[ReconnectingConnection]:
    made = ReconnectingConnection(cut.connect, Reconnect.YES, SHORT)
    yield made
    made.close(commit=False)


def waits(cut: Cut, count: int) -> bool:
    """Tell whether so many gets wait on ``Q1``."""
    row = cut.manager.mqsc("DISPLAY QSTATUS(Q1) IPPROCS").rows[0]
    assert cut.server is not None
    running = [each for each in cut.server.connections() if each.is_running]
    return int(str(row["IPPROCS"])) == 1 and len(running) == count


def bring(cut: Cut, *bodies: bytes) -> None:
    with cut.manager.session() as session:
        for body in bodies:
            session.put("Q1", body)


def test_gets_that_wait_are_begun_again_in_their_order(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    queue = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    told = [Told() for _ in range(3)]
    for each in told:
        connection.begin(ask.GetAny([queue], WAIT), each)
    for _ in range(2):
        cut.again()
        wait_until(lambda: waits(cut, 1))
    bring(cut, b"1", b"2", b"3")
    for each in told:
        each.wait(1)
    assert [each.bodies for each in told] == [[b"1"], [b"2"], [b"3"]]
    assert {delivery.handle for each in told for delivery in each.outcomes} == {queue}
    numbers = [delivery.number for each in told for delivery in each.outcomes]
    connection.call(ask.Settle(list(numbers), Settlement.TAKEN))
    assert cut.manager.curdepth("Q1") == 0
    assert reason_of(lambda: connection.call(ask.Settle(list(numbers), Settlement.TAKEN))) == 2460


def test_a_delivery_that_was_held_goes_back_counted_and_cannot_be_taken(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    bring(cut, b"x")
    queue = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    first = connection.call(ask.GetAny([queue]))
    cut.again()
    told = Told()
    connection.begin(ask.Settle([first.number], Settlement.TAKEN), told)
    told.wait(1)
    assert told.reasons == [2003]
    assert reason_of(lambda: connection.call(ask.Settle([first.number], Settlement.TAKEN))) == 2003
    connection.call(ask.Settle([first.number], Settlement.BACKED_OUT))
    again = connection.call(ask.GetAny([queue]))
    assert (again.result.message.body, again.result.message.backout_count) == (b"x", 1)
    assert again.number != first.number
    connection.call(ask.Settle([again.number], Settlement.TAKEN))
    assert cut.manager.curdepth("Q1") == 0


def test_a_settlement_within_the_unit_of_work_is_lost_with_the_connection(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    bring(cut, b"x")
    queue = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    for is_cut in (True, False):
        held = connection.call(ask.GetAny([queue]))
        number = connection.number
        connection.call(ask.Settle([held.number], Settlement.TAKEN, within=number))
        if is_cut:
            cut.again()
            assert reason_of(lambda: connection.call(ask.Commit())) == 2003
        else:
            connection.call(ask.Commit())
    assert cut.manager.curdepth("Q1") == 0


def test_a_unit_of_work_that_is_lost_is_told_to_its_verbs_until_it_is_ended(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    told = Told()
    connection.begin(ask.Put.of(queue, b"lost", Descriptor(), c.MQPMO_SYNCPOINT), told)
    told.wait(1)
    cut.again()
    assert connection.now_ms()
    connection.begin(ask.GetAny([queue], IN_UNIT), told)
    connection.begin(ask.Put.of(queue, b"too", Descriptor(), c.MQPMO_SYNCPOINT), told)
    connection.begin(ask.Commit(), told)
    told.wait(4)
    assert told.reasons == [2003, 2003, 2003]
    connection.begin(ask.Put.of(queue, b"kept", Descriptor(), c.MQPMO_SYNCPOINT), told)
    connection.begin(ask.Commit(), told)
    told.wait(6)
    assert told.reasons == [2003, 2003, 2003]
    assert connection.get(queue).message.body == b"kept"


def test_what_was_begun_before_the_commit_of_a_lost_unit_of_work_is_lost_with_it(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    """Nobody has connected again when the program commits."""
    bring(cut, b"held")
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    told = Told()
    held = connection.call(ask.GetAny([queue]))
    connection.begin(ask.Put.of(queue, b"1", Descriptor(), c.MQPMO_SYNCPOINT), told)
    told.wait(1)
    cut.stop()
    wait_until(lambda: cut.connections[0].is_broken)
    connection.begin(ask.Put.of(queue, b"2", Descriptor(), c.MQPMO_SYNCPOINT), told)
    settle = ask.Settle([held.number], Settlement.TAKEN, within=connection.number)
    connection.begin(settle, told)
    connection.begin(ask.Commit(), told)
    connection.begin(ask.Put.of(queue, b"3", Descriptor(), c.MQPMO_SYNCPOINT), told)
    connection.begin(ask.Commit(), told)
    cut.serve()
    told.wait(6)
    assert told.reasons == [2003, 2003, 2003]
    assert isinstance(told.outcomes[3], MQError)
    assert [connection.get(queue).message.body for _ in range(2)] == [b"held", b"3"]


def test_a_get_into_the_unit_of_work_waits_on_while_nothing_is_in_it(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    queue = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    told = Told()
    connection.begin(ask.GetAny([queue], IN_UNIT), told)
    cut.again()
    wait_until(lambda: waits(cut, 1))
    bring(cut, b"x")
    told.wait(1)
    assert (told.bodies, told.outcomes[0].number) == ([b"x"], 0)
    cut.again()
    assert reason_of(lambda: connection.call(ask.Commit())) == 2003
    assert cut.manager.curdepth("Q1") == 1


def test_puts_that_were_not_sent_are_put_in_their_order(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    cut.stop()
    wait_until(lambda: cut.connections[0].is_broken)
    told = Told()
    for number in range(50):
        connection.begin(ask.Put.of(queue, b"%d" % number, Descriptor()), told)
    assert told.outcomes == []
    cut.serve()
    told.wait(50)
    assert told.reasons == []
    bodies = [connection.get(queue).message.body for _ in range(50)]
    assert bodies == [b"%d" % number for number in range(50)]


class LosesAnswers:
    """A connection whose next put or commit takes effect, and whose answer does not come."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.is_armed = False

    def __call__(self) -> Connection:
        made = self.cut.connect()
        begin = made.begin

        def commit_and_lose(request: Any, on_done: Any, on_event: Any = None) -> UnderWay:
            if not (self.is_armed and isinstance(request, Commit)):
                return begin(request, on_done, on_event)
            self.is_armed = False

            def lose(_outcome: MQError | None) -> None:
                on_done(LostAnswer(2009, "the answer was lost"))

            made.call(ask.Commit())
            self.cut.again()
            wait_until(lambda: made.is_broken)
            return begin(WaitUntil(None), lose)

        made.begin = commit_and_lose  # type: ignore[method-assign]  # where it breaks
        return made


def test_a_commit_whose_answer_never_came_is_2549(cut: Cut) -> None:
    loses = LosesAnswers(cut)
    connection = ReconnectingConnection(loses, Reconnect.YES, SHORT)
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    told = Told()
    loses.is_armed = True
    connection.begin(ask.Put.of(queue, b"x", Descriptor(), c.MQPMO_SYNCPOINT), told)
    connection.begin(ask.Commit(), told)
    told.wait(2)
    assert told.reasons == [2549]
    assert isinstance(told.outcomes[1], LostAnswer)
    assert connection.get(queue).message.body == b"x"
    connection.call(ask.Commit())
    connection.close()


@pytest.mark.parametrize("kind", ["get", "get_any"])
def test_a_wait_is_cancelled_wherever_it_is(
    cut: Cut, connection: ReconnectingConnection, kind: str
) -> None:
    queue = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    told = Told()

    def begin() -> UnderWay:
        if kind == "get":
            options = c.MQGMO_WAIT | c.MQGMO_NO_SYNCPOINT
            return connection.begin(ask.Get(queue, options, wait_ms=c.MQWI_UNLIMITED), told)
        return connection.begin(ask.GetAny([queue], WAIT), told)

    first = begin()
    assert (first.cancel(), first.cancel()) == (True, False)
    second = begin()
    cut.again()
    wait_until(lambda: waits(cut, 1))
    assert second.cancel() is True
    third = begin()
    cut.stop()
    wait_until(lambda: cut.connections[-1].is_broken)
    assert third.cancel() is True
    cut.serve()
    bring(cut, b"x")
    assert connection.get(queue).message.body == b"x"
    assert told.outcomes == []


def test_a_wait_ends_when_there_is_no_new_connection(cut: Cut) -> None:
    patience = ReconnectTiming(first_ms=1, longest_ms=2, total_ms=20)
    connection = ReconnectingConnection(cut.connect, Reconnect.YES, patience)
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    told = Told()
    connection.begin(ask.GetAny([queue], WAIT), told)
    connection.begin(ask.WaitUntil(None), told)
    cut.stop()
    told.wait(2)
    connection.begin(ask.Put.of(queue, b"x", Descriptor()), told)
    told.wait(3)
    assert told.reasons == [2556, 2556, 2556]


def test_a_close_ends_waits_also_in_the_midst_of_connecting_again(cut: Cut) -> None:
    patience = ReconnectTiming(first_ms=60_000, longest_ms=60_000, total_ms=600_000)
    connection = ReconnectingConnection(cut.connect, Reconnect.YES, patience)
    told = Told()
    connection.begin(ask.WaitUntil(None), told)
    cut.stop()
    wait_until(lambda: cut.connections[0].is_broken)
    connection.close()
    told.wait(1)
    assert told.reasons[0] in (2018, 2009)


def test_a_server_that_drains_ends_no_wait(cut: Cut, connection: ReconnectingConnection) -> None:
    queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
    told = Told()
    connection.begin(ask.GetAny([queue], WAIT), told)
    wait_until(lambda: waits(cut, 1))
    assert cut.server is not None
    assert cut.server.drain(60_000)
    cut.again()
    wait_until(lambda: waits(cut, 1))
    put(connection, queue, b"x")
    told.wait(1)
    assert told.bodies == [b"x"]


def test_queues_that_refuse_gets_are_told_by_their_handle(
    cut: Cut, connection: ReconnectingConnection
) -> None:
    one = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    two = connection.call(ask.Open("Q2", c.MQOO_INPUT_SHARED)).handle
    connection.call(ask.CloseObject(one))
    three = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
    told, refused = Told(), list[tuple[int, int]]()

    def on_refused(handle: int, error: MQError) -> None:
        refused.append((handle, error.reason))

    assert cut.manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
    connection.begin(ask.GetAny([two, three], WAIT, tells_refusals=True), told, on_refused)
    wait_until(lambda: refused == [(three, 2016)])
    cut.again()
    wait_until(lambda: refused == [(three, 2016), (three, 2016)])
    with cut.manager.session() as session:
        session.put("Q2", b"x")
    told.wait(1)
    delivery = told.outcomes[0]
    assert isinstance(delivery, Delivery)
    assert delivery.handle == two


def test_a_moment_is_waited_for_across_connections(
    cut: Cut, connection: ReconnectingConnection, clock: VirtualClock
) -> None:
    told = Told()
    connection.begin(ask.WaitUntil(connection.now_ms() + 10_000), told)
    cut.again()
    wait_until(lambda: cut.server is not None and len(cut.server.connections()) == 1)
    wait_until(lambda: cut.server is not None and cut.server.connections()[0].is_running)
    clock.advance(10_000)
    told.wait(1)
    assert told.outcomes == [None]


def test_programs_on_callbacks_are_told_of_the_way(cut: Cut) -> None:
    changes: list[int] = []
    attempts = Attempts(lambda change: changes.append(change.reason))
    made = ReconnectingConnection(cut.connect, Reconnect.YES, SHORT, attempts)
    told = Told()
    made.begin(ask.WaitUntil(None), told)
    cut.again()
    wait_until(lambda: changes == [2544, 2545])
    made.close()
    told.wait(1)
    assert changes == [2544, 2545]
