"""Programs of one worker each, which the tests of kills start; BROKER names the queue manager."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def run_once(folder: str) -> int:
    """Add the number of the process to ``lines``, then read the FIFO ``gate``."""
    with (Path(folder) / "lines").open("a") as file:
        file.write(f"{os.getpid()}\n")
    (Path(folder) / "gate").read_bytes()
    return os.getpid()


def taskiq_broker(url: str, user: str, password: str) -> Any:
    """Return a broker of taskiq with the task ``run``."""
    from mayfly.integrations.taskiq import MayflyBroker

    broker = MayflyBroker(url, user=user, password=password)
    broker.task(task_name="run")(run_once)
    return broker


def taskiq_worker(url: str, user: str, password: str) -> None:
    """Run tasks of taskiq until the process ends."""
    import asyncio

    from taskiq.api import run_receiver_task

    broker = taskiq_broker(url, user, password)
    asyncio.run(run_receiver_task(broker, run_startup=True))


def django_worker(url: str, user: str, password: str) -> None:
    """Run tasks of Django until the process ends."""
    from django.core.management import call_command

    from tests.integrations import web_tasks

    web_tasks.task_backends["default"].options.update(URL=url, USER=user, PASSWORD=password)
    call_command("mayfly_worker")


if __name__ == "__main__":
    {"taskiq": taskiq_worker, "django": django_worker}[sys.argv[1]](*sys.argv[2:])
