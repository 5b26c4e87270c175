"""Several puts in one frame: each by itself, in their order, and only with who knows them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.aio.client import AsyncClient
from mayfly.client.connection.remote import RemoteConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import (
    DONE,
    FAILED,
    MAX_PUTS_IN_FRAME,
    Preamble,
    packed_descriptor,
    verb_of,
)
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS, VOLATILE, Told
from tests.connection.serving import Served, serving
from tests.servers.wire.test_hostile import Raw
from tests.spec.scene import refused

_APART = c.MQPMO_SYNCPOINT | c.MQPMO_ASYNC_RESPONSE
_LASTING = Descriptor(persistence=c.MQPER_PERSISTENT)
_OLD = Preamble(1, 1)


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """``QM1`` served, with ``Q1`` and ``Q2``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)").ok
    with serving(queue_manager) as it:
        yield it


@pytest.fixture
def remote(served: Served) -> Iterator[RemoteConnection]:
    """A program's connection."""
    made = served.connect()
    yield made
    made.close(commit=False)


def message(body: bytes, msg_id: bytes = b"", life_ms: int | None = None) -> list[object]:
    return [body, msg_id, b"", c.MQEI_UNLIMITED, life_ms, 0, []]


def puts(
    queue: int, options: int, *messages: object, descriptor: Descriptor = _LASTING
) -> list[object]:
    return [verb_of(ask.Puts), packed_descriptor(descriptor), options, queue, 0, list(messages)]


# As they travel.


@pytest.mark.parametrize("descriptor", [_LASTING, VOLATILE])
def test_each_of_several_puts_is_put_or_refused_by_itself_and_told_in_its_place(
    queue_manager: QueueManager, served: Served, descriptor: Descriptor
) -> None:
    with Raw(served) as raw:
        raw.connect()
        asked = puts(
            raw.opened(),
            c.MQPMO_NONE,
            message(b"1"),
            message(b"2", msg_id=b"x" * 25),
            message(b"3", life_ms=-1),
            ["4"],
            message(b"5", msg_id=b"%024d" % 5),
            descriptor=descriptor,
        )
        outcome, (results, failed) = raw.ask(*asked)
        assert outcome == DONE
        assert [each is not None for each in results] == [True, False, False, False, True]
        assert results[4][0] == b"%024d" % 5
        assert [(place, failure[1]) for place, failure in failed] == [
            (1, rc.MQRC_MD_ERROR),
            (2, rc.MQRC_EXPIRY_ERROR),
            (3, rc.MQRC_UNEXPECTED_ERROR),
        ]
        assert (
            "put.message.msg_id: b'xxxxxxxxxxxxxxxxxxxxxxxxx': expected bytes of length <= 24"
            in failed[0][1][2]
        )
        assert "put.message.body: '4': expected bytes, got str" in failed[2][1][2]
    with queue_manager.session() as session:
        there = [(each.body, each.msg_id) for each in session.browse("Q1")]
    assert there == [(b"1", results[0][0]), (b"5", results[4][0])]


def test_P13_of_several_puts_that_do_not_wait_only_wrong_calls_are_told(
    queue_manager: QueueManager, served: Served
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(1)")
    with Raw(served) as raw:
        raw.connect()
        asked = puts(
            raw.opened(), _APART, message(b"1"), message(b"full"), message(b"x", life_ms=-1)
        )
        outcome, (results, failed) = raw.ask(*asked)
        assert (outcome, results) == (DONE, [])
        assert [(place, failure[1]) for place, failure in failed] == [(2, rc.MQRC_EXPIRY_ERROR)]
        status = raw.ask(verb_of(ask.AskStatus))[1]
        assert status[1:5] == [rc.MQRC_Q_FULL, 1, 0, 1]


def test_more_puts_than_a_frame_may_have_are_refused_by_name(served: Served) -> None:
    with Raw(served) as raw:
        raw.connect()
        queue = raw.opened()
        most = [message(b"x")] * MAX_PUTS_IN_FRAME
        outcome, _class, reason, detail = raw.ask(*puts(queue, _APART, *most, message(b"x")))
        assert (outcome, reason) == (FAILED, rc.MQRC_UNEXPECTED_ERROR)
        said = f"puts.messages: an array of {len(most) + 1}: expected array of length <= 32"
        assert said in detail
        assert raw.ask(*puts(queue, _APART, *most)) == [DONE, [[], []]]
        assert raw.ask(*puts(queue + 99, _APART, *most))[1][1][0][1][1] == rc.MQRC_HOBJ_ERROR


def test_several_puts_that_fail_if_quiescing_do_so(served: Served) -> None:
    with Raw(served) as raw:
        raw.connect()
        queue = raw.opened()
        assert raw.ask(*puts(queue, _APART, message(b"1")))[0] == DONE
        [status] = served.server.connections()
        # Its open unit of work keeps the connection.
        assert served.server.quiesce(status.number)
        late = raw.ask(*puts(queue, _APART | c.MQPMO_FAIL_IF_QUIESCING, message(b"2")))
        assert (late[0], late[2]) == (FAILED, rc.MQRC_CONNECTION_QUIESCING)
        assert raw.ask(*puts(queue, _APART, message(b"2"))) == [DONE, [[], []]]


# As a client sends them.


def test_P13_puts_that_do_not_wait_travel_together_until_a_frame_is_full(
    served: Served, remote: RemoteConnection
) -> None:
    queue = remote.call(ask.Open("Q1", BOTH_WAYS)).handle
    remote.put(queue, b"", VOLATILE, c.MQPMO_ASYNC_RESPONSE)
    remote.call(ask.AskStatus())
    # Without the thread that sends what has waited for a millisecond.
    remote.conversation.link.sender.end()
    [before] = served.server.connections()
    for _ in range(3 * MAX_PUTS_IN_FRAME):
        remote.put(queue, b"x", VOLATILE, c.MQPMO_ASYNC_RESPONSE)
    assert remote.call(ask.AskStatus()).success_count == 3 * MAX_PUTS_IN_FRAME
    [after] = served.server.connections()
    # Three frames, and MQSTAT.
    assert after.request_count - before.request_count == 4


def test_P13_puts_to_several_queues_keep_their_order_and_are_all_there_at_the_commit(
    queue_manager: QueueManager, remote: RemoteConnection
) -> None:
    queues = [remote.call(ask.Open(name, BOTH_WAYS)).handle for name in ("Q1", "Q2")]
    long = bytes(40_000)
    for number in range(90):
        body = long if number % 7 == 3 else b"%d" % number
        descriptor = Descriptor(priority=4, persistence=number % 2)
        options = _APART | (c.MQPMO_FAIL_IF_QUIESCING if number % 3 else 0)
        remote.put(queues[number % 5 == 0], body, descriptor, options, correl_id=b"%024d" % number)
    assert queue_manager.counts("Q1").live == 0
    remote.call(ask.Commit())
    with queue_manager.session() as session:
        found = [[int(each.correl_id) for each in session.browse(name)] for name in ("Q1", "Q2")]
    assert found == [[n for n in range(90) if n % 5], [n for n in range(90) if not n % 5]]


def test_P13_a_value_that_cannot_travel_is_refused_at_once_and_the_others_are_put(
    queue_manager: QueueManager, remote: RemoteConnection
) -> None:
    queue = remote.call(ask.Open("Q1", BOTH_WAYS)).handle
    remote.put(queue, b"1", _LASTING, _APART)
    with pytest.raises(MQError) as wrong:
        remote.put(queue, b"2", _LASTING, _APART, expiry_tenths=2**70)
    assert wrong.value.reason == rc.MQRC_EXPIRY_ERROR
    assert "put.expiry_tenths" in wrong.value.detail
    with refused(rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL):
        remote.put(queue, bytes(4_194_305), _LASTING, _APART)
    remote.put(queue, b"3", _LASTING, _APART)
    remote.call(ask.Commit())
    assert [remote.get(queue).message.body for _ in range(2)] == [b"1", b"3"]
    assert queue_manager.curdepth("Q1") == 0


def test_puts_with_a_callback_travel_together_within_a_block(
    queue_manager: QueueManager, served: Served, remote: RemoteConnection
) -> None:
    queue, told = remote.call(ask.Open("Q1", BOTH_WAYS)).handle, Told()
    [before] = served.server.connections()
    with remote.together():
        for number in range(2 * MAX_PUTS_IN_FRAME + 1):
            remote.begin(ask.Put.of(queue, b"%d" % number, _LASTING), told)
    outcomes = told.wait(2 * MAX_PUTS_IN_FRAME + 1)
    [after] = served.server.connections()
    assert after.request_count - before.request_count == 3
    with queue_manager.session() as session:
        there = [each.msg_id for each in session.browse("Q1")]
    assert there == [each.msg_id for each in outcomes]
    remote.begin(ask.Put.of(queue, b"x", _LASTING), told)
    told.wait(2 * MAX_PUTS_IN_FRAME + 2)


def test_tasks_that_put_in_one_turn_of_their_loop_share_frames(served: Served) -> None:
    async def put_all() -> int:
        client = AsyncClient(served.connect("anna"))
        await client.put("Q1", b"first")
        [before] = served.server.connections()
        puts = [client.put("Q1", b"%d" % number) for number in range(2 * MAX_PUTS_IN_FRAME)]
        assert len(set(await asyncio.gather(*puts))) == len(puts)
        [after] = served.server.connections()
        await client.close()
        return after.request_count - before.request_count

    assert asyncio.run(put_all()) == 2


def test_puts_that_are_together_on_a_connection_that_breaks_are_all_told(
    served: Served, remote: RemoteConnection
) -> None:
    queue, told = remote.call(ask.Open("Q1", BOTH_WAYS)).handle, Told()
    with remote.together():
        for _ in range(5):
            remote.begin(ask.Put.of(queue, b"lost", VOLATILE), told)
        assert served.server.end(remote.number)
        while not remote.is_broken:
            pass
        for _ in range(MAX_PUTS_IN_FRAME):
            remote.begin(ask.Put.of(queue, b"late", VOLATILE), told)
    told.wait(5 + MAX_PUTS_IN_FRAME)
    assert told.reasons == [rc.MQRC_CONNECTION_BROKEN] * (5 + MAX_PUTS_IN_FRAME)


def test_threads_that_put_together_on_one_connection_are_all_told(
    queue_manager: QueueManager, remote: RemoteConnection
) -> None:
    queue, count = remote.call(ask.Open("Q1", BOTH_WAYS)).handle, 150
    tolds = [Told() for _ in range(4)]

    def run(told: Told) -> None:
        for _ in range(count // 3):
            with remote.together():
                for _ in range(3):
                    remote.begin(ask.Put.of(queue, b"x", VOLATILE), told)

    threads = [threading.Thread(target=run, args=(told,)) for told in tolds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS)
    ids = {each.msg_id for told in tolds for each in told.wait(count)}
    assert len(ids) == 4 * count == queue_manager.curdepth("Q1")
