"""Tasks of Django for tests; its settings name the queue manager ``QM1`` of this process."""

from __future__ import annotations

import importlib.util
from typing import Any

import django
from django.conf import settings

from tests.integrations.killed_workers import run_once

IS_DJANGO_6 = importlib.util.find_spec("django.tasks") is not None
BACKEND = "mayfly.integrations.django.backend.MayflyBackend"

settings.configure(
    USE_TZ=True,
    INSTALLED_APPS=["mayfly.integrations.django", *([] if IS_DJANGO_6 else ["django_tasks"])],
    TASKS={
        "default": {
            "BACKEND": BACKEND,
            "QUEUES": ["default", "mail"],
            "OPTIONS": {"URL": "QM1", "RESULT_SECONDS": 3600},
        }
    },
)
django.setup()

if IS_DJANGO_6:
    from django.tasks import task, task_backends
else:
    from django_tasks import task, task_backends

__all__ = ["task_backends"]

#: The arguments of each call of ``note``.
noted: list[Any] = []


@task
def add(one: int, other: int) -> int:
    """Return the sum."""
    return one + other


@task(queue_name="mail", takes_context=True)
def note(context: Any, word: Any) -> int:
    """Note a word, and return the number of the attempt."""
    noted.append(word)
    return int(context.attempt)


@task
def fail() -> None:
    """Raise ValueError."""
    raise ValueError("no luck")


@task
def interrupted() -> None:
    """Raise SystemExit, as in a process that is told to end."""
    raise SystemExit


@task
async def later() -> str:
    """Return a text from a coroutine."""
    return "from a coroutine"


@task
def no_json() -> object:
    """Return what has no JSON."""
    return object()


@task
def run(folder: str) -> int:
    """Run once; see ``killed_workers``."""
    return run_once(folder)
