"""Celery as ``bench.tasks`` measures it: a worker of one process, and a program that puts."""

from __future__ import annotations

from datetime import UTC, datetime

from bench import task_work
from mayfly.integrations.celery import Celery

app = Celery("bench", broker=task_work.broker())
app.conf.update(
    broker_connection_retry_on_startup=True, task_acks_late=True, task_ignore_result=True
)
for _name, _work in task_work.TASKS.items():
    app.task(name=_name)(_work)


def worker() -> None:
    """Run one task at a time."""
    options = ["-P", "solo", "-c", "1", "-l", "ERROR", "--without-mingle", "--without-gossip"]
    app.worker_main(["worker", *options])


def put() -> task_work.Put:
    """Return what puts a task."""

    def put_one(task: str, *arguments: str | int, due_ms: int = 0) -> None:
        eta = datetime.fromtimestamp(due_ms / 1_000, UTC) if due_ms else None
        app.send_task(task, arguments, eta=eta)

    return put_one
