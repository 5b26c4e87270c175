"""Waits under a virtual clock that nobody moves: refused, or jumped over with ``autojump``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import mayfly.aio
from mayfly import QueueManager, jms, pymqi
from mayfly.aio import AsyncClient
from mayfly.testing import VirtualClock
from mayfly.testing.served import ServedQueueManager, served
from tests.facts import wait_until_blocked

pytestmark = pytest.mark.usefixtures("no_child")
START_MS = 1_700_000_000_000
PATIENCE_SECONDS = 120
FIRST, SECOND = "DEV.QUEUE.1", "DEV.QUEUE.2"
Body = bytes | None


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START_MS, autojump=True)


@pytest.fixture
def server(queue_manager: QueueManager) -> Iterator[ServedQueueManager]:
    with served(queue_manager) as it:
        yield it


def passed_ms(clock: VirtualClock) -> int:
    return clock.now_ms() - START_MS


def by_session(server: ServedQueueManager, queue: str, wait_ms: int) -> Body:
    with server.queue_manager.session() as session:
        message = session.get(queue, wait_ms=wait_ms)
    return None if message is None else message.body


def by_client(server: ServedQueueManager, queue: str, wait_ms: int) -> Body:
    with server.connect() as client:
        message = client.get(queue, wait_ms=wait_ms)
    return None if message is None else message.body


def by_pymqi(server: ServedQueueManager, queue: str, wait_ms: int) -> Body:
    arguments = server.name, server.channel, server.conn_info, server.user, server.password
    connection = pymqi.connect(*arguments)
    options = pymqi.GMO(Options=pymqi.CMQC.MQGMO_WAIT, WaitInterval=wait_ms)
    try:
        with suppress(pymqi.MQMIError):
            return bytes(pymqi.Queue(connection, queue).get(None, pymqi.MD(), options))
        return None
    finally:
        connection.disconnect()


def by_jms(server: ServedQueueManager, queue: str, wait_ms: int) -> Body:
    factory = jms.ConnectionFactory(
        queue_manager=server.name,
        connection_name_list=server.conn_info,
        channel=server.channel,
        user=server.user,
        password=server.password,
    )
    with factory.create_context() as context:
        consumer = context.create_consumer(context.create_queue(queue))
        message = consumer.receive(max(wait_ms, 0))
    return None if message is None else bytes(message.get_body(bytes))


async def connected(server: ServedQueueManager, *, is_remote: bool) -> AsyncClient:
    if not is_remote:
        return await mayfly.aio.connect(server.name)
    return await mayfly.aio.connect(server.url, user=server.user, password=server.password)


def by_aio(server: ServedQueueManager, queue: str, wait_ms: int, *, is_remote: bool) -> Body:
    async def get() -> Body:
        client = await connected(server, is_remote=is_remote)
        try:
            message = await client.get(queue, wait_ms=wait_ms)
            return None if message is None else message.body
        finally:
            await client.close()

    return asyncio.run(get())


WAYS: dict[str, Callable[[ServedQueueManager, str, int], Body]] = {
    "session": by_session,
    "client": by_client,
    "pymqi": by_pymqi,
    "jms": by_jms,
    "aio here": lambda *asked: by_aio(*asked, is_remote=False),
    "aio": lambda *asked: by_aio(*asked, is_remote=True),
}
ways = pytest.mark.parametrize("get", WAYS.values(), ids=WAYS.keys())


@ways
def test_a_wait_passes_to_the_next_due_moment(
    server: ServedQueueManager,
    clock: VirtualClock,
    get: Callable[[ServedQueueManager, str, int], Body],
) -> None:
    """A delayed message comes at its time, and a wait in vain ends at its own."""
    with server.connect() as program:
        program.put(FIRST, b"late", delay_ms=5_000)
    assert (get(server, FIRST, 10_000), passed_ms(clock)) == (b"late", 5_000)
    assert (get(server, FIRST, 30_000), passed_ms(clock)) == (None, 35_000)


def test_a_loop_that_ends_leaves_no_wait_behind(
    server: ServedQueueManager, clock: VirtualClock
) -> None:
    """A wait that stayed held up the time of all others, for ever."""
    for count in range(1, 11):
        assert by_aio(server, FIRST, 1_000, is_remote=False) is None
        assert (by_session(server, FIRST, 1_000), passed_ms(clock)) == (None, count * 2_000)


@ways
def test_a_wait_that_nothing_can_end_is_an_error(
    server: ServedQueueManager,
    clock: VirtualClock,
    get: Callable[[ServedQueueManager, str, int], Body],
) -> None:
    with pytest.raises(RuntimeError, match="waits, nothing falls due"):
        get(server, FIRST, -1)
    # The get was taken back: the message is for the next one.
    with server.connect() as program:
        program.put(FIRST, b"x")
    assert get(server, FIRST, 1_000) == b"x"
    assert passed_ms(clock) == 0


def test_threads_wait_together_and_one_that_joins_them_waits_as_well(
    server: ServedQueueManager, clock: VirtualClock
) -> None:
    """Each wait ends at its own moment, in this process and over a socket alike."""
    found: dict[int, int] = {}

    def wait(seconds: int) -> None:
        get = by_client if seconds % 2 else by_session
        assert get(server, SECOND, seconds * 1_000) is None
        found[seconds] = passed_ms(clock)

    threads = [threading.Thread(target=wait, args=(seconds,)) for seconds in (3, 1, 2, 4)]
    gate = server.queue_manager.session()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    gate.close()
    # One that began to wait late began at the time that it then saw.
    assert sorted(found) == [1, 2, 3, 4]
    assert all(ms % 1_000 == 0 and ms >= seconds * 1_000 for seconds, ms in found.items())


def test_time_stands_while_a_thread_that_was_woken_has_not_run_yet(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """As on a busy machine: a listener port whose message has come, and no processor is free."""
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    woken = threading.Condition()

    def sleep() -> None:
        clock.note_use()
        with woken:
            woken.wait()

    thread = threading.Thread(target=sleep)
    thread.start()
    wait_until_blocked(thread)
    with queue_manager.session() as session:
        session.put("Q1", b"due in a second", delay_ms=1_000)
    wait = clock.begin_wait(lambda: False, is_exact=True)
    with woken:
        woken.notify()
        for _look in range(10):
            # The thread goes on when this one has left the block.
            assert not clock.jump()
            clock.pause()
    thread.join()
    assert clock.jump()
    clock.end_wait(wait)
    assert passed_ms(clock) == 1_000


def test_time_stands_while_a_thread_that_uses_the_clock_works(
    server: ServedQueueManager, clock: VirtualClock
) -> None:
    """The thread puts before the wait of the other one has passed."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(by_client, server, FIRST, 60_000)
        number = server.queue_manager.engine.registry.queue(FIRST).number
        with server.queue_manager.session() as session:
            while not server.queue_manager.engine.waits.is_waited_on(number):
                assert not waiting.done()
            assert passed_ms(clock) == 0
            session.put(FIRST, b"at once")
        assert waiting.result(PATIENCE_SECONDS) == b"at once"
    assert passed_ms(clock) == 0


@pytest.mark.parametrize("is_remote", [False, True])
def test_tasks_wait_together(
    server: ServedQueueManager, clock: VirtualClock, is_remote: bool
) -> None:
    async def work() -> list[int]:
        client = await connected(server, is_remote=is_remote)

        async def wait(queue: str, seconds: int) -> int:
            assert await client.get(queue, wait_ms=seconds * 1_000) is None
            return passed_ms(clock)

        ends = await asyncio.gather(wait(FIRST, 3), wait(SECOND, 1), wait(FIRST, 2))
        await client.put(FIRST, b"late", delay_ms=1_000)
        message = await client.get(FIRST, wait_ms=-1)
        assert message is not None
        await client.close()
        return [*ends, passed_ms(clock)]

    assert asyncio.run(work()) == [3_000, 1_000, 2_000, 4_000]


@pytest.mark.parametrize("is_remote", [False, True])
def test_time_stands_while_a_task_can_go_on(
    server: ServedQueueManager, clock: VirtualClock, is_remote: bool
) -> None:
    """A task that sleeps in the machine's time is at work; a timeout ends a wait."""

    async def work() -> None:
        client = await connected(server, is_remote=is_remote)

        async def put() -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            await client.put(FIRST, b"x")

        putting = asyncio.create_task(put())
        message = await client.get(FIRST, wait_ms=60_000)
        assert message is not None
        await putting
        assert passed_ms(clock) == 0
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.get(FIRST, wait_ms=-1), 0.01)
        await client.put(FIRST, b"y")
        message = await client.get(FIRST)
        assert message is not None
        await client.close()

    asyncio.run(work())


ALONE = """
import asyncio, sys
from mayfly import QueueManager
from mayfly.testing import VirtualClock
from mayfly.testing.served import served
from tests.runtime import test_autojump as ways

with QueueManager("QM1", clock=VirtualClock()) as qm, served(qm) as server:
    for name, get in ways.WAYS.items():
        for wait_ms in (1_000, -1):
            try:
                get(server, ways.FIRST, wait_ms)
            except RuntimeError as error:
                print(name, error)
        # The wait that was refused takes nothing.
        with qm.session() as session:
            session.put(ways.FIRST, b"x")
        assert get(server, ways.FIRST, 1_000) == b"x"
    assert qm.now_ms() == 1_700_000_000_000
    assert qm.verify().ok
"""


@pytest.mark.slow
def test_a_client_of_one_thread_whose_served_clock_is_in_its_process_is_told() -> None:
    """Without ``autojump``; in a process of its own, for it would hang."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    said = "this wait would never end: a VirtualClock moves only when advance() is called"
    expected = [f"{name} {said}" for name in WAYS for _ in range(2)]
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected)
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True))


OTHERS = """
import asyncio, subprocess, sys
from mayfly import QueueManager, connect
from mayfly.testing import VirtualClock
from mayfly.testing.served import served

MOVES = '''
import sys, mayfly
with mayfly.connect(sys.argv[1], user="app", password="app-password") as client:
    client.put("DEV.QUEUE.1", b"from another process")
'''
with QueueManager("QM1", clock=VirtualClock()) as qm, served(qm) as server:
    with server.connect() as client, subprocess.Popen([sys.executable, "-c", MOVES, server.url]):
        print(client.get("DEV.QUEUE.1", wait_ms=1_000).body)

    async def work():
        import mayfly.aio
        async with mayfly.aio.connect("QM1") as client:
            async def advance():
                await asyncio.sleep(0.02)
                qm.clock.advance(1_000)
            moving = asyncio.create_task(advance())
            print(await client.get("DEV.QUEUE.1", wait_ms=1_000))
            await moving

    asyncio.run(work())
"""


@pytest.mark.slow
def test_a_wait_that_another_process_or_task_can_end_is_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OTHERS],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout == "b'from another process'\nNone\n", done.stderr
