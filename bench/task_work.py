"""The tasks that ``bench.tasks`` puts and runs, and the program that puts them, in any framework.

``python -m bench.task_work bench.tasks_celery worker`` is a worker of Celery; with ``put`` in place
of ``worker`` a program puts what its standard input says. BENCH_BROKER names the broker.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

BROKER_VARIABLE: Final = "BENCH_BROKER"


class Put(Protocol):
    """Puts a task by its name; ``due_ms`` is its eta in ms since 1970, 0 for none."""

    def __call__(self, task: str, *arguments: str | int, due_ms: int = 0) -> None: ...


class Account(NamedTuple):
    """A URL as in ``mayfly.connect``, and who connects."""

    url: str
    user: str
    password: str

    @classmethod
    def of(cls, broker: str) -> Account:
        """Return the account that stands in a URL of a broker, as Celery writes it."""
        parts = urlsplit(broker)
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        return cls(bare, parts.username or "", parts.password or "")


def broker() -> str:
    """Return the URL of the broker of this process."""
    return os.environ[BROKER_VARIABLE]


def nothing() -> None:
    """Do nothing."""


def tell(fifo: str) -> None:
    """Tell whoever reads a FIFO that all tasks before have run."""
    Path(fifo).write_bytes(b".")


def note(file: str, number: int, due_ms: int) -> None:
    """Add to a file the number of the task, by how many ms it runs late, and the worker's group."""
    late_ms = time.time_ns() // 1_000_000 - due_ms
    # One write of a line: workers may append at the same time.
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{number} {late_ms} {os.getpgrp()}\n".encode())
    os.close(descriptor)


TASKS: Final[Mapping[str, Callable[..., None]]] = {"nothing": nothing, "tell": tell, "note": note}


def _put_all(put: Put) -> None:
    """Obey the lines of the standard input, and answer each with the seconds that it took.

    =========================================== ==================================================
    line                                        what is put
    =========================================== ==================================================
    ``nothing COUNT``                           so many tasks that do nothing
    ``tell FIFO``                               one that tells
    ``note FILE FIRST_MS COUNT SPAN_MS``        so many with etas, evenly over a span
    =========================================== ==================================================
    """
    for line in sys.stdin:
        task, *words = line.split()
        begun = time.perf_counter()
        if task == "nothing":
            for _ in range(int(words[0])):
                put(task)
        elif task == "tell":
            put(task, words[0])
        else:
            first_ms, count, span_ms = map(int, words[1:])
            for number in range(count):
                due_ms = first_ms + span_ms * number // count
                put(task, words[0], number, due_ms, due_ms=due_ms)
        print(time.perf_counter() - begun, flush=True)


if __name__ == "__main__":
    _framework, _role = sys.argv[1:]
    _module = import_module(_framework)
    if _role == "worker":
        _module.worker()
    else:
        _put_all(_module.put())
