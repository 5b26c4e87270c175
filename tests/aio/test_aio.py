"""Coroutines: verbs, waiting tasks, and cancelled gets, which lose no message."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import mayfly
from mayfly import MQError, QueueManager
from mayfly.aio import AsyncClient
from mayfly.client.connection import Administration, Schedule
from mayfly.client.open_objects import MAX_OPEN
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from mayfly.verbs.schedule import ScheduleFilter
from tests.aio.conftest import MakeClient
from tests.facts import wait_until

WAITING_TASKS = 2_000
STORM_MESSAGES = 400
LONGEST_SECONDS = 120


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine in a loop of its own, and not for ever."""
    asyncio.run(asyncio.wait_for(work, LONGEST_SECONDS))


async def until(fact: Callable[[], bool]) -> None:
    """Let the loop go on until a fact holds."""
    while not fact():
        await asyncio.sleep(0)


def open_input(manager: QueueManager, queue: str = "Q1") -> int:
    """Return how many handles have a queue open for input."""
    [row] = manager.mqsc(f"DISPLAY QSTATUS({queue}) IPPROCS").rows
    return int(str(row["IPPROCS"]))


def is_waited_on(manager: QueueManager) -> bool:
    """Return whether a get waits on Q1."""
    return manager.engine.waits.is_waited_on(manager.engine.registry.queue("Q1").number)


def body(message: Message | None) -> bytes | None:
    return None if message is None else message.data


def test_the_verbs_of_a_client(make_client: MakeClient, clock: VirtualClock) -> None:
    async def work() -> None:
        async with make_client("anna") as client:
            msg_id = await client.put(
                "Q1", b"two teas", time_to_live_ms=60_000, properties={"n": 1}, correl_id="0a"
            )
            clock.advance(15_000)
            assert [body(m) async for m in client.browse("Q1", selector="n = 1")] == [b"two teas"]
            message = await client.get("Q1", correl_id="0a")
            assert message is not None
            assert (message.msg_id, message.remaining_tenths) == (msg_id, 450)
            assert message.descriptor.user_identifier == "anna"
            assert await client.get("Q1") is None
            assert client.name == "QM1"

    run(work())


def test_put_many_puts_in_order_each_message_by_itself(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(SMALL) MAXDEPTH(2)").ok

    async def work() -> None:
        async with make_client() as client:
            ids = await client.put_many("Q1", [b"1", b"2", b"3"], time_to_live_ms=1_000)
            found = await client.get_many("Q1", 9)
            assert [(m.msg_id, body(m)) for m in found] == list(
                zip(ids, [b"1", b"2", b"3"], strict=True)
            )
            assert {m.remaining_ms for m in found} == {1_000}
            with pytest.raises(MQError) as refused:
                await client.put_many("SMALL", [b"1", b"2", b"3", b"4"])
            assert refused.value.reason == rc.MQRC_Q_FULL
            assert "message 3 of 4 is refused, 2 are put" in str(refused.value)
            with pytest.raises(MQError) as wrong:
                await client.put_many("Q1", [b"x"], time_to_live_ms=0)
            assert wrong.value.reason == rc.MQRC_EXPIRY_ERROR

    run(work())
    assert (queue_manager.curdepth("SMALL"), queue_manager.curdepth("Q1")) == (2, 0)


def test_errors_have_their_reason_codes(make_client: MakeClient) -> None:
    async def work() -> None:
        async with make_client() as client:
            calls: list[tuple[Coroutine[Any, Any, object], int]] = [
                (client.put("NONE", b"x"), 2085),
                (client.get("NONE"), 2085),
                (client.put("Q1", b"x", time_to_live_ms=0), 2013),
                (client.get("Q1", selector="n ="), 2459),
                (client.resume("none"), 2428),
                (client.publish("", b"x"), 2425),
            ]
            for call, reason in calls:
                with pytest.raises(MQError) as raised:
                    await call
                assert raised.value.reason == reason, call
            with pytest.raises(TypeError, match="not str"):
                await client.put("Q1", "x")  # type: ignore[arg-type]  # what a program may do

    run(work())


def test_topics_and_administration(make_client: MakeClient) -> None:
    async def work() -> None:
        async with make_client() as client:
            subscription = await client.subscribe("news/#", name="s", durable=True)
            assert subscription.facts.topic == "news/#"
            await client.publish("news/a", b"one", retain=True)
            await client.publish("news/b", b"two")
            got = [body(m) async for m in subscription.messages(wait_ms=0)]
            assert got == [b"one", b"two"]
            await subscription.close()
            await client.publish("news/c", b"three")
            assert body(await (await client.resume("s")).get(wait_ms=0)) == b"three"
            asking = await client.subscribe("news/a", on_request=True)
            assert await asking.request_retained() == 1
            assert body(await asking.get()) == b"one"
            await asking.close()
            await client.put("Q1", b"x")
            assert await client.get("Q1") is not None
            assert (await client.mqsc("DELETE QLOCAL(Q1)")).ok
            await client.run(lambda c: Administration(c.call).mqsc("DEFINE QLOCAL(Q1)"))
            assert await client.run(lambda c: Schedule(c.call).count()) == 0

    run(work())


def test_transacted_verbs_share_one_unit_of_work(make_client: MakeClient) -> None:
    async def work() -> None:
        async with make_client() as other:
            async with make_client(transacted=True) as client:
                await asyncio.gather(*(client.put("Q1", b"x") for _ in range(5)))
                assert await other.get("Q1") is None
                await client.commit()
                got = [await client.get("Q1") for _ in range(2)]
                assert None not in got
                await client.put("Q1", b"gone")
                await client.backout()
                counts = [m.backout_count async for m in other.browse("Q1")]
                assert counts == [1, 1, 0, 0, 0]
                await client.get("Q1")
            assert len([m async for m in other.browse("Q1")]) == 4
            failing = make_client(transacted=True)
            await failing.get("Q1")
            await failing.__aexit__(ValueError, ValueError(), None)
            assert [m.backout_count async for m in other.browse("Q1")] == [2, 0, 0, 0]

    run(work())


def test_a_wait_ends_by_a_message_or_by_its_time(
    make_client: MakeClient, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    async def work() -> None:
        async with make_client() as client, make_client() as other:
            waiting = asyncio.create_task(client.get("Q1", wait_ms=5_000))
            await until(lambda: open_input(queue_manager) == 1)
            await other.put("Q1", b"x")
            assert body(await waiting) == b"x"
            waiting = asyncio.create_task(client.get("Q1", wait_ms=5_000))
            # The get is sent, and taken up by its queue manager before the next verb is answered.
            await client.run(lambda _connection: None)
            await client.run(lambda connection: connection.now_ms())
            await asyncio.to_thread(clock.advance, 4_999)
            assert not waiting.done()
            await asyncio.to_thread(clock.advance, 1)
            assert await waiting is None

    run(work())


@pytest.mark.long
def test_thousands_of_tasks_wait_on_one_connection_without_threads(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    async def work() -> None:
        async with make_client() as client, make_client() as other:
            before = threading.active_count()
            tasks = [
                asyncio.create_task(client.get("Q1", wait_ms=-1)) for _ in range(WAITING_TASKS)
            ]
            await until(lambda: open_input(queue_manager) == 1)
            bodies = [b"%d" % number for number in range(WAITING_TASKS)]
            for each in bodies:
                await other.put("Q1", each)
            got = [body(message) for message in await asyncio.gather(*tasks)]
            assert sorted(got, key=str) == sorted(bodies, key=str)
            # Those of the clients, of their sockets and of the server, but not one for each task.
            assert threading.active_count() <= before + 20
        assert queue_manager.curdepth("Q1") == 0

    run(work())


def test_a_thousand_gets_of_tasks_are_one_wait_under_a_virtual_clock(
    make_client: MakeClient,
    queue_manager: QueueManager,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wait for each had a put behind 2,000 gets cost up to 4,000,000 looks."""
    waits: list[object] = []
    begin_wait = clock.begin_wait

    def counted(*args: Any, **options: Any) -> object:
        waits.append(args)
        return begin_wait(*args, **options)

    monkeypatch.setattr(clock, "begin_wait", counted)

    async def work() -> None:
        async with make_client() as client:
            tasks = [asyncio.create_task(client.get("Q1", wait_ms=-1)) for _ in range(1_000)]
            await until(lambda: is_waited_on(queue_manager))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert all(task.cancelled() for task in tasks)

    run(work())
    assert len(waits) == 1


def test_a_cancelled_get_takes_nothing(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    async def work() -> None:
        async with make_client() as client, make_client() as other:
            waiting = asyncio.create_task(client.get("Q1", wait_ms=-1))
            await until(lambda: open_input(queue_manager) == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await other.put("Q1", b"x")
            message = await other.get("Q1")
            assert message is not None
            assert message.backout_count == 0

    run(work())


def test_what_was_delivered_to_a_cancelled_task_goes_back_uncounted(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    async def work() -> None:
        async with make_client() as client:
            assert await client.get("Q1") is None
            waiting = asyncio.create_task(client.get("Q1", wait_ms=-1))
            await asyncio.sleep(0)
            # The loop stands still: the message is delivered, and its task cannot know yet.
            with queue_manager.session() as session:
                session.put("Q1", b"x")
            wait_until(lambda: queue_manager.counts("Q1").locked == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until(lambda: queue_manager.counts("Q1").locked == 0)
            message = await client.get("Q1")
            assert message is not None
            assert (message.body, message.backout_count) == (b"x", 0)

    run(work())


def test_a_timeout_keeps_the_message_that_came_with_it(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    """A cancel that comes while the message becomes the task's is not lost, nor is the message."""

    async def work() -> None:
        async with make_client() as client:
            await client.put("Q1", b"x", persistent=True)
            await client.put("Q1", b"y", persistent=True)
            got: list[Message | None] = []

            async def consume() -> None:
                while True:
                    got.append(await client.get("Q1", wait_ms=-1))

            task = asyncio.create_task(consume())
            # Settling is under way: the delivery is here, and no more to be given back.
            await until(lambda: bool(client._verbs.settling))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            left = [body(m) async for m in client.browse("Q1")]
            assert [body(m) for m in got] + left == [b"x", b"y"]
            assert len(got) == 1

    run(work())


NEXT_VERBS: dict[str, Callable[[AsyncClient], Coroutine[Any, Any, object]]] = {
    "put": lambda client: client.put("Q1", b"y"),
    "put_many": lambda client: client.put_many("Q1", [b"y"]),
    "publish": lambda client: client.publish("news", b"y"),
    "commit": lambda client: client.commit(),
    "mqsc": lambda client: client.mqsc("DEFINE QLOCAL(Q2)"),
    "run": lambda client: client.run(lambda connection: connection.now_ms()),
}


@pytest.mark.parametrize("verb", NEXT_VERBS)
def test_a_cancel_that_a_get_left_is_raised_by_the_next_verb_of_any_kind(
    make_client: MakeClient, queue_manager: QueueManager, verb: str
) -> None:
    """The message is the task's; the verb does nothing."""

    async def work() -> None:
        async with make_client() as client:
            await client.put("Q1", b"x", persistent=True)
            got: list[Message | None] = []
            done: list[object] = []

            async def consume() -> None:
                got.append(await client.get("Q1", wait_ms=-1))
                done.append(await NEXT_VERBS[verb](client))

            task = asyncio.create_task(consume())
            await until(lambda: bool(client._verbs.settling))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ([body(m) for m in got], done) == ([b"x"], [])
            assert queue_manager.curdepth("Q1") == 0
            assert not queue_manager.mqsc("DISPLAY QLOCAL(Q2)").ok

    run(work())


def test_a_close_raises_no_cancel_that_a_get_left(make_client: MakeClient) -> None:
    """A task can close what it has opened; the verb behind it raises the cancel."""

    async def work() -> None:
        async with make_client() as client:
            await client.put("Q1", b"x", persistent=True)
            closed: list[str] = []

            async def consume() -> None:
                subscription = await client.subscribe("news")
                await client.get("Q1", wait_ms=-1)
                await subscription.close()
                closed.append("subscription")
                await client.put("Q1", b"y")
                closed.append("never")

            task = asyncio.create_task(consume())
            await until(lambda: bool(client._verbs.settling))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert closed == ["subscription"]

    run(work())


def test_get_many_waits_for_the_first_and_takes_what_is_there(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    async def work() -> None:
        async with make_client() as client:
            assert await client.get_many("Q1", 9) == []
            for number in range(5):
                await client.put("Q1", b"%d" % number)
            assert [m.body for m in await client.get_many("Q1", 3)] == [b"0", b"1", b"2"]
            assert [m.body for m in await client.get_many("Q1", 9)] == [b"3", b"4"]
            waiting = asyncio.create_task(client.get_many("Q1", 9, wait_ms=-1))
            await until(lambda: is_waited_on(queue_manager))
            await client.put("Q1", b"5")
            assert [m.body for m in await waiting] == [b"5"]
            with pytest.raises(MQError) as caught:
                await client.get_many("Q1", 0)
            assert caught.value.reason == 2046

    run(work())


def test_get_many_is_part_of_the_unit_of_work(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    async def work() -> None:
        async with make_client(transacted=True) as client:
            for number in range(3):
                await client.put("Q1", b"%d" % number)
            await client.commit()
            assert len(await client.get_many("Q1", 2)) == 2
            assert queue_manager.counts("Q1").locked == 2
            await client.backout()
            found = await client.get_many("Q1", 9)
            assert [(m.body, m.backout_count) for m in found] == [(b"0", 1), (b"1", 1), (b"2", 0)]
            await client.commit()
        assert queue_manager.curdepth("Q1") == 0

    run(work())


def test_a_cancel_while_many_are_taken_is_raised_by_the_next_verb(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    """What is taken is the task's; a wait takes nothing when it is cancelled."""

    async def work() -> None:
        async with make_client() as client:
            await client.put("Q1", b"1")
            found: list[list[Message]] = []

            async def take() -> None:
                found.append(await client.get_many("Q1", 9))
                found.append(await client.get_many("Q1", 9))

            # Its handle is open: the first turn of the task begins to take.
            assert len(await client.get_many("Q1", 9)) == 1
            await client.put("Q1", b"2")
            task = asyncio.create_task(take())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [[m.body for m in each] for each in found] == [[b"2"]]
            waiting = asyncio.create_task(client.get_many("Q1", 9, wait_ms=-1))
            await until(lambda: is_waited_on(queue_manager))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await client.put("Q1", b"3")
            assert [m.body for m in await client.get_many("Q1", 9)] == [b"3"]

    run(work())


@pytest.mark.long
@pytest.mark.parametrize("transacted", [False, True], ids=["plain", "transacted"])
def test_a_storm_of_cancellations_loses_no_message(
    make_client: MakeClient, queue_manager: QueueManager, transacted: bool
) -> None:
    random = Random(5)
    got: list[Message] = []

    async def take(client: AsyncClient) -> None:
        message = await client.get("Q1", wait_ms=-1)
        assert message is not None
        got.append(message)

    async def storm(client: AsyncClient) -> None:
        tasks: list[asyncio.Task[None]] = []
        while len(got) < STORM_MESSAGES:
            tasks = [task for task in tasks if not task.done()]
            tasks += [asyncio.create_task(take(client)) for _ in range(20 - len(tasks))]
            # Over a socket a get needs some turns of the loop, between which it can be cancelled.
            for _ in range(random.randrange(4)):
                await client.run(lambda connection: connection.now_ms())
                await asyncio.sleep(0)
            for task in random.sample(tasks, random.randrange(4)):
                task.cancel()
            if transacted and random.random() < 0.05:
                await client.commit()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def put_all(client: AsyncClient) -> None:
        for number in range(STORM_MESSAGES):
            await client.put("Q1", b"%d" % number, persistent=number % 3 == 0)
            if number % 7 == 0:
                await asyncio.sleep(0)

    async def work() -> None:
        async with make_client() as other, make_client(transacted=transacted) as client:
            await asyncio.gather(storm(client), put_all(other))

    run(work())
    counts = Counter(message.body for message in got)
    assert counts == {b"%d" % number: 1 for number in range(STORM_MESSAGES)}
    assert {message.backout_count for message in got} == {0}
    assert queue_manager.curdepth("Q1") == 0
    assert queue_manager.verify().ok


def test_queues_that_tasks_use_stay_open_and_others_give_way(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    names = [f"MANY.{number}" for number in range(MAX_OPEN + 5)]
    for name in names:
        queue_manager.mqsc(f"DEFINE QLOCAL({name})")

    async def work() -> None:
        async with make_client() as client:
            waiting = asyncio.create_task(client.get(names[0], wait_ms=-1))
            await until(lambda: open_input(queue_manager, names[0]) == 1)
            for name in names[1:]:
                assert await client.get(name) is None
            assert open_input(queue_manager, names[1]) == 0
            assert open_input(queue_manager, names[-1]) == 1
            assert not waiting.done()
            await client.put(names[0], b"x")
            assert body(await waiting) == b"x"

    run(work())


def test_a_queue_that_is_made_anew_is_opened_again(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    async def work() -> None:
        async with make_client() as client:
            await client.put("Q1", b"one")
            queue_manager.mqsc("DEFINE QLOCAL(Q2)\nDEFINE QALIAS(A) TARGET(Q1)")
            await client.put("A", b"two")
            queue_manager.mqsc("ALTER QALIAS(A) TARGET(Q2)")
            await asyncio.gather(client.put("A", b"three"), client.put("A", b"four"))
            assert (queue_manager.curdepth("Q1"), queue_manager.curdepth("Q2")) == (2, 2)

    run(work())


def test_closing_ends_the_gets_that_wait(make_client: MakeClient) -> None:
    async def work() -> None:
        client = make_client()
        waiting = asyncio.create_task(client.get("Q1", wait_ms=-1))
        await client.put("Q1", b"x")
        assert body(await waiting) == b"x"
        waiting = asyncio.create_task(client.get("Q1", wait_ms=-1))
        await asyncio.sleep(0)
        await client.close()
        await client.close()
        with pytest.raises(MQError) as raised:
            await waiting
        assert raised.value.reason == 2018

    run(work())


def test_connect_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))

    async def work() -> None:
        async with mayfly.aio.connect("QH", user="bob") as client:
            await client.put("Q1", b"kept", persistent=True)
        client = await mayfly.aio.connect("QH", transacted=True)
        assert body(await client.get("Q1")) == b"kept"
        await client.close(commit=False)

    async def refused(name: str) -> int:
        with pytest.raises(MQError) as raised:
            await mayfly.aio.connect(name)
        return raised.value.reason

    with QueueManager("QH", tmp_path / "QH") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        run(work())
        assert manager.curdepth("Q1") == 1
        assert asyncio.run(refused("NONE")) == 2058
    # A folder is not opened: its server would find it in use.
    assert asyncio.run(refused("QH")) == 2059


def test_queues_that_no_task_uses_are_closed_so_that_others_may_delete_them(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    async def work() -> None:
        async with make_client() as client:
            await client.put("Q1", b"x")
            assert body(await client.get("Q1")) == b"x"
            assert not queue_manager.mqsc("DELETE QLOCAL(Q1)").ok
            await until(lambda: queue_manager.mqsc("DELETE QLOCAL(Q1)").ok)
            with pytest.raises(MQError) as raised:
                await client.put("Q1", b"x")
            assert raised.value.reason == 2085

    run(work())


def test_Q2_poison_messages_are_moved_to_BOQNAME_and_passed_over(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc(
        "DEFINE QLOCAL(FAILED)\nALTER QLOCAL(Q1) BOTHRESH(1) BOQNAME(FAILED)"
    ).ok

    async def work() -> None:
        async with make_client(transacted=True, move_poison=True) as client:
            await client.put_many("Q1", [b"bad", b"worse", b"worst"])
            await client.commit()
            assert len(await client.get_many("Q1", 3)) == 3
            await client.backout()
            await client.put("Q1", b"good")
            await client.commit()
            assert body(await client.get("Q1", wait_ms=1_000)) == b"good"
            assert await client.get_many("Q1", 2) == []
            await client.commit()
            assert [body(m) async for m in client.browse("FAILED")] == [b"bad", b"worse", b"worst"]

    run(work())


def test_poison_that_no_queue_takes_can_only_be_backed_out(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("ALTER QMGR DEADQ(' ')\nALTER QLOCAL(Q1) BOTHRESH(1)").ok

    async def work() -> None:
        client = make_client(transacted=True, move_poison=True)
        await client.put("Q1", b"bad")
        await client.commit()
        assert await client.get("Q1") is not None
        await client.backout()
        with pytest.raises(MQError):
            await client.get("Q1")
        with pytest.raises(MQError):
            await client.commit()
        with pytest.raises(MQError) as caught:
            await client.close()
        assert caught.value.reason == rc.MQRC_BACKOUT_THRESHOLD_REACHED

    run(work())
    assert queue_manager.counts("Q1").live == 1


def test_the_schedule_as_coroutines(make_client: MakeClient, clock: VirtualClock) -> None:
    async def work() -> None:
        async with make_client() as client:
            schedule = client.schedule
            at = datetime.fromtimestamp(clock.now_ms() / 1_000, UTC) + timedelta(hours=1)
            first = await client.put("Q1", b"1", delay_ms=at)
            second, _third = await client.put_many("Q1", [b"2", b"3"], delay_ms=timedelta(days=1))
            assert await schedule.count("Q1") == 3
            waiting = await schedule.list("Q1")
            assert [s.deliver_at_ms - clock.now_ms() for s in waiting] == [
                3_600_000,
                86_400_000,
                86_400_000,
            ]
            assert await schedule.cancel(first) == "cancelled"
            assert await schedule.reschedule(second, delay_ms=timedelta(seconds=1)) == "rescheduled"
            shown = await schedule.show(second)
            assert shown is not None
            assert shown.deliver_at_ms - await schedule.now_ms() == 1_000
            where = ScheduleFilter("Q1")
            assert [n async for n in schedule.reschedule_all(where, by_ms=1)] == [2]
            assert [n async for n in schedule.release_all(where)] == [2]
            assert [n async for n in schedule.cancel_all(where)] == [0]
            assert (await schedule.audit(1))[0].action == "release"
            a_second = timedelta(seconds=1)
            subscription = await client.subscribe("tea/green", time_to_live_ms=a_second)
            await client.publish("tea/green", b"x")
            assert await subscription.get(wait_ms=a_second) is not None
            assert await client.get("Q1", wait_ms=a_second) is not None
            assert len(await client.get_many("Q1", 9, wait_ms=a_second)) == 1

    run(work())


def test_D34_a_key_is_unique_among_delayed_messages(make_client: MakeClient) -> None:
    async def work() -> None:
        async with make_client() as client:
            puts = [client.put("Q1", b"x", delay_ms=60_000, key="k") for _ in range(5)]
            outcomes = await asyncio.gather(*puts, return_exceptions=True)
            assert sum(isinstance(outcome, bytes) for outcome in outcomes) == 1
            assert await client.schedule.count("Q1") == 1
            await client.put("Q1", b"y", delay_ms=60_000, key="k", if_exists="replace")
            assert await client.schedule.count("Q1") == 1

    run(work())
