"""Django Tasks as ``bench.tasks`` measures it: a worker of one process, and a program that puts.

A broker that is a folder is that of PostgreSQL's socket: the database backend of ``django-tasks``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import django
from django.conf import settings
from django.core.management import call_command

from bench import task_work

_IN_DATABASE = task_work.broker().startswith("/")
#: Django 5 has the package with what Django 6 has.
_PACKAGE = [] if find_spec("django.tasks") else ["django_tasks"]


def _backend() -> dict[str, Any]:
    if _IN_DATABASE:
        return {"BACKEND": "django_tasks_db.DatabaseBackend"}
    account = task_work.Account.of(task_work.broker())
    return {
        "BACKEND": "mayfly.integrations.django.backend.MayflyBackend",
        "OPTIONS": dict(zip(("URL", "USER", "PASSWORD"), account, strict=True)),
    }


settings.configure(
    USE_TZ=True,
    INSTALLED_APPS=[
        *_PACKAGE,
        "django_tasks_db" if _IN_DATABASE else "mayfly.integrations.django",
    ],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": task_work.broker(),
            "NAME": "postgres",
            "USER": "bench",
        }
    }
    if _IN_DATABASE
    else {},
    TASKS={"default": _backend()},
)
django.setup()

if _PACKAGE:
    from django_tasks import task
else:
    from django.tasks import task


@task
def nothing() -> None:
    """Do nothing."""
    task_work.nothing()


@task
def tell(fifo: str) -> None:
    """Tell whoever reads a FIFO."""
    task_work.tell(fifo)


@task
def note(file: str, number: int, due_ms: int) -> None:
    """Add a line to a file."""
    task_work.note(file, number, due_ms)


_TASKS = {"nothing": nothing, "tell": tell, "note": note}


def worker() -> None:
    """Run one task at a time."""
    if _IN_DATABASE:
        call_command("db_worker", startup_delay=False)
    else:
        call_command("mayfly_worker")


def put() -> task_work.Put:
    """Return what puts a task; the tables of the database are made before."""
    if _IN_DATABASE:
        call_command("migrate", verbosity=0)

    def put_one(task: str, *arguments: str | int, due_ms: int = 0) -> None:
        chosen = _TASKS[task]
        if due_ms:
            chosen = chosen.using(run_after=datetime.fromtimestamp(due_ms / 1_000, UTC))
        chosen.enqueue(*arguments)

    return put_one
