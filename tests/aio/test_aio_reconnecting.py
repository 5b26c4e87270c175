"""Coroutines on a connection that is made again: tasks that wait, messages, units of work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from mayfly import MQError, QueueManager
from mayfly.aio import AsyncClient
from mayfly.client.connection import Connection
from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.reconnecting import ReconnectingConnection
from mayfly.client.connection.reconnection import ReconnectTiming
from tests.connection.cut import SHORT, Cut

LONGEST_SECONDS = 120
TASKS = 200


@pytest.fixture
def cut(queue_manager: QueueManager) -> Iterator[Cut]:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1) DEFPSIST(YES)").ok
    it = Cut(queue_manager)
    yield it
    it.stop()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, LONGEST_SECONDS))


async def until(fact: Callable[[], bool]) -> None:
    while not fact():
        await asyncio.sleep(0)


def client_of(cut: Cut, *, transacted: bool = False) -> AsyncClient:
    made = ReconnectingConnection(cut.connect, Reconnect.YES, SHORT)
    return AsyncClient(made, transacted=transacted)


def is_waiting(cut: Cut) -> bool:
    assert cut.server is not None
    return any(each.is_running and each.open_handles for each in cut.server.connections())


def test_waiting_tasks_go_on_waiting_and_each_message_reaches_one(cut: Cut) -> None:
    async def work() -> None:
        async with client_of(cut) as client:
            tasks = [asyncio.create_task(client.get("Q1", wait_ms=-1)) for _ in range(TASKS)]
            await until(lambda: is_waiting(cut))
            for _ in range(2):
                await asyncio.to_thread(cut.again)
                await until(lambda: is_waiting(cut))
            msg_ids = await asyncio.gather(*(client.put("Q1", b"x") for _ in range(TASKS)))
            messages = await asyncio.gather(*tasks)
            assert sorted(each.msg_id for each in messages if each) == sorted(msg_ids)
        assert cut.manager.curdepth("Q1") == 0

    run(work())


def test_a_message_that_was_on_its_way_is_got_on_the_next_connection(cut: Cut) -> None:
    """It is delivered, and the connection lost, before its get settles it."""

    async def work() -> None:
        async with client_of(cut) as client:
            taken = client._verbs.settle_taken
            cuts: list[str] = []

            async def taken_after_a_cut(delivery: Any, within: int) -> None:
                if not cuts:
                    cuts.append("cut")
                    await asyncio.to_thread(cut.again)
                await taken(delivery, within)

            client._verbs.settle_taken = taken_after_a_cut  # type: ignore[method-assign]  # where it breaks
            await client.put("Q1", b"x")
            message = await client.get("Q1", wait_ms=-1)
            assert message is not None
            assert (message.body, message.backout_count) == (b"x", 1)
        assert (cuts, cut.manager.curdepth("Q1")) == (["cut"], 0)

    run(work())


def test_a_unit_of_work_that_was_lost_is_2003_once(cut: Cut) -> None:
    async def work() -> None:
        async with client_of(cut, transacted=True) as client:
            await client.put("Q1", b"lost")
            await asyncio.to_thread(cut.again)
            with pytest.raises(MQError) as raised:
                await client.commit()
            assert raised.value.reason == 2003
            await client.put("Q1", b"kept")
            await client.commit()
            message = await client.get("Q1")
            assert message is not None
            assert message.body == b"kept"
            await asyncio.to_thread(cut.again)
            with pytest.raises(MQError) as raised:
                await client.get("Q1")
            assert raised.value.reason == 2003
            await client.backout()
            message = await client.get("Q1")
            assert message is not None
            assert message.body == b"kept"
        assert cut.manager.curdepth("Q1") == 0

    run(work())


def test_a_get_that_is_cancelled_while_there_is_no_connection_takes_nothing(cut: Cut) -> None:
    async def work() -> None:
        async with client_of(cut) as client:
            waiter = asyncio.create_task(client.get("Q1", wait_ms=-1))
            await until(lambda: is_waiting(cut))
            await asyncio.to_thread(cut.stop)
            await until(lambda: cut.connections[0].is_broken)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
            await asyncio.to_thread(cut.serve)
            await client.put("Q1", b"x")
            message = await client.get("Q1")
            assert message is not None
            assert message.body == b"x"

    run(work())


def test_a_close_ends_what_waits_for_another_connection(cut: Cut) -> None:
    """As an application does whose server was lost: its end must not wait for the next one."""
    rarely = ReconnectTiming(first_ms=3_600_000, longest_ms=3_600_000, total_ms=7_200_000)
    attempts: list[int] = []

    def connect() -> Connection:
        attempts.append(cut.port)
        return cut.connect()

    async def work() -> None:
        client = AsyncClient(ReconnectingConnection(connect, Reconnect.YES, rarely))
        await client.put("Q1", b"x")
        await asyncio.to_thread(cut.stop)
        await until(lambda: cut.connections[0].is_broken)
        reader = asyncio.create_task(client.get_many("Q1", 1))
        getter = asyncio.create_task(client.get("Q1", wait_ms=-1))
        await until(lambda: len(attempts) == 2)
        await client.close()
        for waiting in (reader, getter):
            with pytest.raises(MQError) as raised:
                await waiting
            assert raised.value.reason == 2018

    run(work())


def test_subscriptions_go_on(cut: Cut) -> None:
    async def work() -> None:
        async with client_of(cut) as client:
            subscription = await client.subscribe("news/#")
            await asyncio.to_thread(cut.again)
            await client.publish("news/today", b"x")
            message = await subscription.get()
            assert message is not None
            assert message.body == b"x"

    run(work())
