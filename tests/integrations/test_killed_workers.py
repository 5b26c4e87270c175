"""Tasks whose workers are killed run in others: Celery, taskiq and Django, over a socket."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bench.tasks import FRAMEWORKS, Framework, Size, etas, mayfly_server
from mayfly.admin.security.developer import ADMIN
from mayfly.queue_manager import QueueManager
from mayfly.testing.served import ADMIN_CHANNEL, PASSWORDS, served
from tests.facts import PATIENCE_SECONDS
from tests.integrations import killed_workers

#: How a worker connects: URL, user and password.
Account = tuple[str, str, str]


def put_by_taskiq(account: Account, folder: str) -> None:
    async def put() -> None:
        broker = killed_workers.taskiq_broker(*account)
        await broker.startup()
        await broker.find_task("run").kiq(folder)
        await broker.shutdown()

    asyncio.run(put())


def put_by_django(account: Account, folder: str) -> None:
    from mayfly.integrations.django.backend import close_clients
    from tests.integrations import web_tasks

    backend: Any = web_tasks.task_backends["default"]
    kept = dict(backend.options)
    backend.options.update(zip(("URL", "USER", "PASSWORD"), account, strict=True))
    web_tasks.run.enqueue(folder)
    close_clients()
    backend.options.clear()
    backend.options.update(kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "put", "queue"),
    [
        pytest.param("taskiq", put_by_taskiq, "taskiq", marks=pytest.mark.long),
        ("django", put_by_django, "django.tasks.default"),
    ],
)
def test_a_task_whose_worker_is_killed_runs_in_another_one(
    framework: str,
    put: Callable[[Account, str], None],
    queue: str,
    queue_manager: QueueManager,
    tmp_path: Path,
) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"the extra {framework} is not installed")
    os.mkfifo(tmp_path / "gate")
    with served(queue_manager) as server:
        url = f"mq://127.0.0.1:{server.port}/{server.name}?channel={ADMIN_CHANNEL}"
        account = url, ADMIN, PASSWORDS[ADMIN]
        put(account, str(tmp_path))
        workers = []
        for _ in range(2):
            command = [sys.executable, "-m", "tests.integrations.killed_workers", framework]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            worker = subprocess.Popen([*command, *account], env=environment)
            workers.append(str(worker.pid))
            # The FIFO opens when the task reads it; the second task then ends.
            with (tmp_path / "gate").open("wb"):
                if len(workers) == 1:
                    worker.kill()
                    worker.wait()
        while queue_manager.curdepth(queue):
            with suppress(subprocess.TimeoutExpired):
                worker.wait(timeout=0.05)
        worker.terminate()
        worker.wait(PATIENCE_SECONDS)
    assert (tmp_path / "lines").read_text().split() == workers


@pytest.mark.soak
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=[each.name for each in FRAMEWORKS])
def test_no_eta_is_lost_or_early_when_workers_are_killed(framework: Framework) -> None:
    """And no more run again than a killed worker may have held."""
    if find_spec(framework.package) is None:
        pytest.skip(f"the extra {framework.package} is not installed")
    with ExitStack() as stack:
        told = list(etas(framework, mayfly_server(stack), Size()))
    assert [figure for figure in told if not figure.holds] == []
