"""Tasks of Celery for the workers that tests start; BROKER names the queue manager."""

from __future__ import annotations

import os
from pathlib import Path

from mayfly.integrations.celery import Celery

app = Celery("shop", broker=os.environ.get("BROKER", "mayfly://QM1"), backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=True, task_acks_late=True, worker_prefetch_multiplier=1
)


@app.task
def add(one: int, other: int) -> int:
    """Return the sum."""
    return one + other


@app.task
def note(folder: str, name: str, waits_for: str = "") -> None:
    """Add a line with the number of the process to a file, then read ``waits_for``, a FIFO."""
    with (Path(folder) / name).open("a") as file:
        file.write(f"{os.getpid()}\n")
    if waits_for:
        (Path(folder) / waits_for).read_bytes()


@app.task(bind=True, max_retries=3, default_retry_delay=600)
def flaky(self, good_after: int) -> int:
    """Fail ``good_after`` times, retried after ten minutes each; return the number of failures."""
    if self.request.retries < good_after:
        raise self.retry()
    return self.request.retries
