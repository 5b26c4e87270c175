"""The Celery application that ``bench.tasks`` measures; BENCH_BROKER names its broker."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mayfly.integrations.celery import Celery

BROKER_VARIABLE = "BENCH_BROKER"

app = Celery("bench", broker=os.environ.get(BROKER_VARIABLE, "memory://"))
app.conf.update(
    broker_connection_retry_on_startup=True, task_acks_late=True, task_ignore_result=True
)


@app.task(name="nothing")
def nothing() -> None:
    """Do nothing."""


@app.task(name="tell")
def tell(fifo: str) -> None:
    """Tell whoever reads a FIFO that all tasks before have run."""
    Path(fifo).write_bytes(b".")


@app.task(name="note")
def note(file: str, number: int, due_ms: int) -> None:
    """Add to a file the number of the task and by how many ms it runs late."""
    late_ms = time.time_ns() // 1_000_000 - due_ms
    # One write of a line: workers may append at the same time.
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{number} {late_ms}\n".encode())
    os.close(descriptor)
