"""Celery on Mayfly: eta, expires, retry, revoke and control, and the kill of a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mayfly.queue_manager import QueueManager
from mayfly.testing import VirtualClock
from mayfly.testing.served import served
from mayfly.verbs.facts import MessageTrace

pytest.importorskip("celery", reason="the extra celery is not installed")

from celery.contrib.testing.worker import start_worker
from celery.exceptions import TaskRevokedError
from celery.signals import setup_logging
from kombu import pools

from mayfly.integrations.queues import msg_id_of
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.integrations import shop_tasks
from tests.integrations.test_kombu import admin_url

DAY_MS = 24 * 3_600_000
#: Celery warns of what it does itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:celery"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _logs_of_pytest() -> Iterator[None]:
    """Keep the root logger from a worker in this process, which would hide warnings from tests."""

    def leave_it(**_: object) -> None:
        """Celery sets loggers up only where no receiver does."""

    setup_logging.connect(leave_it, weak=False)
    yield
    setup_logging.disconnect(leave_it)


@pytest.fixture
def shop(queue_manager: QueueManager) -> Iterator[Any]:
    """An application, connected to the queue manager of this process; no worker runs."""
    app = shop_tasks.shop(f"mayfly://{queue_manager.name}")
    yield app
    if app.backend.result_consumer._connection is not None:
        app.backend.result_consumer.stop()
    # They are of the process, by their URL.
    pools.reset()
    app.close()


def why(queue_manager: QueueManager, task: Any) -> MessageTrace:
    return queue_manager.why(msg_id_of(task.id))


def test_a_countdown_is_a_delay_of_the_queue_manager(
    shop: Any, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """Three days pass for the client, the queue manager and the worker."""
    waiting = shop.tasks["add"].apply_async((1, 2), countdown=3 * 24 * 3600)
    assert "due on celery" in why(queue_manager, waiting).sentence
    with start_worker(shop, perform_ping_check=False):
        assert shop.tasks["add"].delay(20, 1).get(timeout=PATIENCE_SECONDS) == 21
        clock.advance(3 * DAY_MS - 10)
        # The queue manager holds it back, and no worker.
        [held] = shop.control.inspect(limit=1, timeout=PATIENCE_SECONDS).scheduled().values()
        assert (held, waiting.ready()) == ([], False)
        assert queue_manager.counts("celery").live == 0
        clock.advance(11)
        assert waiting.get(timeout=PATIENCE_SECONDS) == 3
    trace = why(queue_manager, waiting)
    assert trace.sentence.startswith("It was got from celery")


def test_a_retry_waits_on_the_schedule(
    shop: Any, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with start_worker(shop, perform_ping_check=False):
        task = shop.tasks["flaky"].delay(2)
        for _ in range(2):
            wait_until(lambda: queue_manager.counts("celery").staged == 1)
            clock.advance(600_001)
        assert task.get(timeout=PATIENCE_SECONDS) == 2


def test_a_task_that_expires_on_its_queue_is_revoked(
    shop: Any, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """No worker was there in time; the expiry report tells one, which gives the result."""
    task = shop.tasks["add"].apply_async((1, 2), expires=60)
    clock.advance(60_001)
    with start_worker(shop, perform_ping_check=False), pytest.raises(TaskRevokedError):
        task.get(timeout=PATIENCE_SECONDS)
    assert task.state == "REVOKED"
    assert why(queue_manager, task).sentence.startswith("It expired on celery")


def test_a_countdown_beyond_expires_is_revoked_without_an_error(
    shop: Any, clock: VirtualClock
) -> None:
    task = shop.tasks["add"].apply_async((1, 2), countdown=60, expires=30)
    with start_worker(shop, perform_ping_check=False):
        clock.advance(60_001)
        with pytest.raises(TaskRevokedError):
            task.get(timeout=PATIENCE_SECONDS)


def test_a_revoke_takes_a_waiting_task_off_the_schedule(
    shop: Any, queue_manager: QueueManager
) -> None:
    """No worker runs that could remember it."""
    tasks = [shop.tasks["add"].apply_async((1, 2), countdown=60) for _ in range(3)]
    tasks[0].revoke()
    shop.control.revoke([tasks[1].id])
    sentences = [why(queue_manager, task).sentence.split(" at ")[0] for task in tasks]
    assert sentences[:2] == ["It was cancelled", "It was cancelled"]
    assert "waits for its delivery time" in sentences[2]


def test_workers_answer_control_commands_and_send_events(shop: Any) -> None:
    shop.conf.worker_send_task_events = True
    with start_worker(shop, perform_ping_check=False) as worker:
        assert shop.control.ping(timeout=PATIENCE_SECONDS, limit=1) == [
            {worker.hostname: {"ok": "pong"}}
        ]
        queues = shop.control.inspect(limit=1, timeout=PATIENCE_SECONDS).active_queues()
        assert [queue["name"] for queue in queues[worker.hostname]] == ["celery"]
        heard: list[str] = []
        with shop.connection() as connection:
            receiver = shop.events.Receiver(
                connection, handlers={"*": lambda event: heard.append(event["type"])}
            )
            with receiver.consumer_context() as (own, _channel, _consumers):
                shop.tasks["add"].delay(1, 1).get(timeout=PATIENCE_SECONDS)
                while "task-succeeded" not in heard:
                    own.drain_events(timeout=PATIENCE_SECONDS)


def test_a_purge_takes_delayed_tasks_too(shop: Any) -> None:
    shop.tasks["add"].delay(1, 2)
    shop.tasks["add"].apply_async((1, 2), countdown=60)
    assert shop.control.purge() == 2


def test_worker_and_client_go_on_with_another_host(queue_manager: QueueManager) -> None:
    """Results come as well: the program hears that the connection of its consumer is gone."""
    with served(queue_manager) as second, ExitStack() as first_host:
        first = first_host.enter_context(served(queue_manager))
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        app = shop_tasks.shop(admin_url(first).replace(f"127.0.0.1:{first.port}", hosts))
        app.conf.worker_cancel_long_running_tasks_on_connection_loss = True
        with start_worker(app, perform_ping_check=False):
            assert app.tasks["add"].delay(1, 2).get(timeout=PATIENCE_SECONDS) == 3
            first_host.close()
            assert app.tasks["add"].delay(3, 4).get(timeout=PATIENCE_SECONDS) == 7
        app.backend.result_consumer.stop()
        pools.reset()
        app.close()


def worker_process(url: str) -> subprocess.Popen[bytes]:
    """Start a worker of its own process, which runs one task at a time."""
    command = [sys.executable, "-m", "celery", "-A", "tests.integrations.shop_tasks", "worker"]
    options = ["-P", "solo", "-l", "ERROR", "--without-mingle", "--without-gossip"]
    environment = {**os.environ, "BROKER": url, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([*command, *options], env=environment)


@pytest.mark.slow
def test_a_task_whose_worker_is_killed_runs_in_another_one(
    queue_manager: QueueManager, tmp_path: Path
) -> None:
    """Acknowledged late: the queue manager holds it until then, and counts the redelivery."""
    os.mkfifo(tmp_path / "gate")
    with served(queue_manager) as server:
        url = admin_url(server)
        client = shop_tasks.shop(url)
        client.tasks["note"].delay(str(tmp_path), "lines", "gate")
        first = worker_process(url)
        # The FIFO opens when the task reads it.
        with (tmp_path / "gate").open("wb"):
            first.kill()
            first.wait()
        second = worker_process(url)
        with (tmp_path / "gate").open("wb"):
            pass
        second.terminate()
        assert second.wait(PATIENCE_SECONDS) == 0
        pools.reset()
        client.close()
    pids = (tmp_path / "lines").read_text().split()
    assert pids == [str(first.pid), str(second.pid)]
    assert queue_manager.counts("celery").live == 0
