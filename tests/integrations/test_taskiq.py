"""taskiq on Mayfly: labels, retries, cancel, keys, acknowledgement; with taskiq's own receiver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.queue_manager import QueueManager
from mayfly.testing import VirtualClock
from mayfly.testing.served import ServedQueueManager

pytest.importorskip("taskiq", reason="the extra taskiq is not installed")

from taskiq import SmartRetryMiddleware, TaskiqResult
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq.brokers.inmemory_broker import InmemoryResultBackend
from taskiq.exceptions import SendTaskError

from mayfly.integrations.queues import msg_id_of
from mayfly.integrations.taskiq import MayflyBroker
from tests.facts import PATIENCE_SECONDS

DAY_MS = 24 * 3_600_000


def broker_of(queue_manager: QueueManager) -> MayflyBroker:
    """Return a broker on the queue manager of this process, which keeps results in memory."""
    broker = MayflyBroker(queue_manager.name)
    broker.with_result_backend(InmemoryResultBackend())
    return broker


@asynccontextmanager
async def worker(broker: MayflyBroker, **options: Any) -> AsyncIterator[None]:
    """Run taskiq's receiver in this event loop."""
    running = asyncio.create_task(run_receiver_task(broker, **options))
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def result(task: Any) -> TaskiqResult[Any]:
    """Wait for a result, which comes at once."""
    return await task.wait_result(check_interval=0.01, timeout=PATIENCE_SECONDS)


def test_a_delay_is_a_delay_of_the_queue_manager(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """Three days pass for the client, the queue manager and the worker."""

    async def main() -> None:
        broker = broker_of(queue_manager)
        add = broker.task(task_name="add")(lambda one, other: one + other)
        await broker.startup()
        waiting = await add.kicker().with_labels(delay=3 * 24 * 3600).kiq(1, 2)
        sentence = queue_manager.why(msg_id_of(waiting.task_id)).sentence
        assert "due on taskiq at 2023-11-17 22:13:20.000" in sentence
        async with worker(broker):
            assert (await result(await add.kiq(20, 1))).return_value == 21
            clock.advance(3 * DAY_MS - 1)
            assert not await waiting.is_ready()
            clock.advance(1)
            assert (await result(waiting)).return_value == 3
        await broker.shutdown()

    asyncio.run(main())
    assert queue_manager.counts("taskiq").live == 0


def test_retries_wait_longer_each_time_and_end(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    async def main() -> list[int]:
        broker = broker_of(queue_manager)
        broker.add_middlewares(
            SmartRetryMiddleware(
                default_delay=60, use_delay_exponent=True, max_delay_exponent=3_600
            )
        )
        started: list[int] = []

        @broker.task(task_name="fail", retry_on_error=True, max_retries=3)
        async def fail() -> None:
            started.append(clock.now_ms())
            raise RuntimeError("no luck")

        await broker.startup()
        async with worker(broker):
            task = await fail.kiq()
            while not await task.is_ready():
                await asyncio.sleep(0)
                with queue_manager.session() as session:
                    due = session.schedule.list("taskiq")
                if due:
                    clock.advance(due[0].deliver_at_ms - clock.now_ms())
            assert (await task.get_result()).is_err
        await broker.shutdown()
        return [later - earlier for earlier, later in pairwise(started)]

    assert asyncio.run(main()) == [60_000, 120_000]


def test_a_task_is_cancelled_by_its_id_and_one_waits_under_a_key(
    queue_manager: QueueManager,
) -> None:
    async def main() -> None:
        broker = broker_of(queue_manager)
        add = broker.task(task_name="add")(lambda one, other: one + other)
        await broker.startup()
        task = await add.kicker().with_labels(delay=60).kiq(1, 2)
        assert await broker.cancel(task.task_id)
        assert not await broker.cancel("unknown")
        assert queue_manager.why(msg_id_of(task.task_id)).sentence.startswith("It was cancelled")
        with queue_manager.session() as session:
            await add.kicker().with_labels(delay=60, key="order 7").kiq(1, 2)
            with pytest.raises(SendTaskError) as refused:
                await add.kicker().with_labels(delay=60, key="order 7").kiq(1, 2)
            cause = refused.value.__cause__
            assert isinstance(cause, MQError)
            assert cause.reason == rc.MQRC_OBJECT_ALREADY_EXISTS
            again = add.kicker().with_labels(delay=90, key="order 7", if_exists="replace")
            replaced = await again.kiq(1, 2)
            [left] = session.schedule.list("taskiq")
            assert left.correl_id == msg_id_of(replaced.task_id)
            assert await broker.cancel_key("order 7")
            assert session.schedule.count("taskiq") == 0
        await broker.shutdown()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("ack_time", "held"), [(AcknowledgeType.WHEN_RECEIVED, 0), (AcknowledgeType.WHEN_SAVED, 1)]
)
def test_a_task_is_acknowledged_early_or_late(
    queue_manager: QueueManager, ack_time: AcknowledgeType, held: int
) -> None:
    """Late, it goes back when its worker ends before it has."""

    async def main() -> int:
        broker = broker_of(queue_manager)
        is_running = asyncio.Event()

        @broker.task(task_name="long")
        async def long() -> None:
            is_running.set()
            await asyncio.Event().wait()

        await broker.startup()
        async with worker(broker, ack_time=ack_time):
            await long.kiq()
            await is_running.wait()
            locked = queue_manager.counts("taskiq").locked
        await broker.shutdown()
        return locked

    assert asyncio.run(main()) == held
    assert queue_manager.counts("taskiq").live == held


def test_labels_expires_and_priority(queue_manager: QueueManager, clock: VirtualClock) -> None:
    async def main() -> list[int]:
        broker = broker_of(queue_manager)
        note = broker.task(task_name="note")(lambda number: number)
        await broker.startup()
        await note.kicker().with_labels(expires=1.5).kiq(0)
        for priority in (1, 9):
            await note.kicker().with_labels(priority=priority).kiq(priority)
        clock.advance(1_500)
        order: list[int] = []
        listener = broker.listen()
        for _ in range(2):
            message = await anext(listener)
            order += broker.formatter.loads(message.data).args
            await message.ack()
        await listener.aclose()
        await broker.shutdown()
        return order

    assert asyncio.run(main()) == [9, 1]


def test_a_wrong_label_is_an_error_that_names_it(queue_manager: QueueManager) -> None:
    async def main() -> None:
        broker = broker_of(queue_manager)
        note = broker.task(task_name="note")(lambda number: number)
        with pytest.raises(SendTaskError) as not_started:
            await note.kiq(1)
        assert "await startup()" in str(not_started.value.__cause__)
        await broker.startup()
        with pytest.raises(SendTaskError) as wrong:
            await note.kicker().with_labels(delay="soon").kiq(1)
        assert "label delay 'soon' is no number of seconds" in str(wrong.value.__cause__)
        await broker.shutdown()

    asyncio.run(main())


def test_a_worker_over_a_network_and_a_poison_message(
    served_queue_manager: ServedQueueManager,
) -> None:
    server = served_queue_manager
    server.mqsc("ALTER QLOCAL(DEV.QUEUE.1) BOTHRESH(1)")

    async def main() -> None:
        account = {"user": server.user, "password": server.password}
        broker = MayflyBroker(server.url, queue="DEV.QUEUE.1", **account)
        broker.with_result_backend(InmemoryResultBackend())
        add = broker.task(task_name="add")(lambda one, other: one + other)
        await broker.startup()
        await add.kiq(0, 0)
        with server.connect(transacted=True) as client:
            assert client.get("DEV.QUEUE.1") is not None
            client.backout()
        async with worker(broker):
            assert (await result(await add.kiq(1, 2))).return_value == 3
        await broker.shutdown()
        with pytest.raises(MQError, match=r"'DEV.NEW' is missing.*DEFINE QLOCAL\('DEV.NEW'\)"):
            await MayflyBroker(server.url, queue="DEV.NEW", **account).startup()

    asyncio.run(main())
    assert server.queue_manager.curdepth("DEV.DEAD.LETTER.QUEUE") == 1
    assert server.queue_manager.counts("DEV.QUEUE.1").live == 0
