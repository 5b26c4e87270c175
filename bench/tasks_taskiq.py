"""taskiq as ``bench.tasks`` measures it: a worker of one process, and a program that puts."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from taskiq import AsyncBroker, AsyncTaskiqDecoratedTask
from taskiq.__main__ import main

from bench import task_work
from mayfly.integrations.taskiq import MayflyBroker


def _broker(url: str) -> AsyncBroker:
    """Return the broker of a URL; that of Redis is a stream, which knows acknowledgements."""
    if url.startswith("unix:"):
        from taskiq_redis import RedisStreamBroker

        # A group that is made late begins with the first task.
        return RedisStreamBroker(url, consumer_id="0")
    bare, user, password = task_work.Account.of(url)
    return MayflyBroker(bare, user=user, password=password)


broker = _broker(task_work.broker())
_TASKS: dict[str, AsyncTaskiqDecoratedTask[Any, None]] = {
    name: broker.task(task_name=name)(work) for name, work in task_work.TASKS.items()
}


def worker() -> None:
    """Run tasks in one process, up to a hundred at a time, as taskiq does unless told otherwise."""
    sys.argv[1:] = ["worker", "bench.tasks_taskiq:broker", "--workers", "1", "--log-level", "ERROR"]
    main()


def put() -> task_work.Put:
    """Return what puts a task."""
    runner = asyncio.Runner()
    runner.run(broker.startup())

    def put_one(task: str, *arguments: str | int, due_ms: int = 0) -> None:
        kicker = _TASKS[task].kicker()
        if due_ms:
            # The delay is from now on: a due time in the past is none.
            kicker = kicker.with_labels(delay=max(0, due_ms / 1_000 - time.time()))
        runner.run(kicker.kiq(*arguments))

    return put_one
