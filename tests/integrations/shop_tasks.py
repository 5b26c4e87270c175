"""An application of Celery for tests; that of a worker process has the broker BROKER."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mayfly.integrations.celery import Celery


def shop(broker: str) -> Any:
    """Return an application with the tasks ``add``, ``note`` and ``flaky``."""
    made = Celery("shop", broker=broker, backend="rpc://", set_as_current=False)
    made.conf.update(
        broker_connection_retry_on_startup=True, task_acks_late=True, worker_prefetch_multiplier=1
    )

    @made.task(name="add", shared=False)
    def add(one: int, other: int) -> int:
        """Return the sum."""
        return one + other

    @made.task(name="note", shared=False)
    def note(folder: str, name: str, waits_for: str) -> None:
        """Add a line with the number of the process to a file, then read ``waits_for``, a FIFO."""
        with (Path(folder) / name).open("a") as file:
            file.write(f"{os.getpid()}\n")
        (Path(folder) / waits_for).read_bytes()

    @made.task(name="flaky", shared=False, bind=True, max_retries=3, default_retry_delay=600)
    def flaky(self: Any, good_after: int) -> int:
        """Fail ``good_after`` times, retried after ten minutes each; return that number."""
        if self.request.retries < good_after:
            raise self.retry()
        return int(self.request.retries)

    return made


app = shop(os.environ.get("BROKER", "mayfly://QM1"))
