"""``manage.py mayfly_worker``: run the tasks of a backend until SIGTERM or SIGINT."""

from __future__ import annotations

import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mayfly.integrations.django.backend import MayflyBackend
from mayfly.integrations.django.framework import Task
from mayfly.integrations.django.worker import TaskWorker
from mayfly.mqi.errors import MQError


class Command(BaseCommand):
    """The worker: one task at a time; start several for more."""

    help = (
        "Run the tasks of a Mayfly backend, one at a time, until SIGTERM or SIGINT; the task that "
        "is running then is finished. Example: manage.py mayfly_worker --backend default"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the backend and ``--drain``."""
        parser.add_argument("--backend", default="default", help="an entry of TASKS")
        parser.add_argument(
            "--drain", action="store_true", help="end when no task is there that is due"
        )

    def handle(self, *_args: Any, backend: str, drain: bool, **_options: Any) -> None:
        """Run tasks; raises CommandError for a backend that is none of Mayfly, or out of reach."""
        chosen = _backend_of(backend)
        try:
            worker = TaskWorker(chosen)
        except MQError as error:
            raise CommandError(f"backend {backend!r}: {error}") from error
        try:
            if drain:
                while worker.run_next(wait_ms=0):
                    pass
            else:
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, lambda *_: worker.stop())
                worker.run()
        except MQError as error:
            raise CommandError(str(error)) from error
        finally:
            worker.close()


def _backend_of(alias: str) -> MayflyBackend:
    """Return the backend with an alias; raises CommandError if it is none of Mayfly."""
    if Task.__module__.startswith("django_tasks"):
        from django_tasks import task_backends
    else:
        from django.tasks import task_backends
    if alias not in task_backends.settings:
        raise CommandError(f"--backend {alias!r} is none of {', '.join(task_backends.settings)}")
    found = task_backends[alias]
    if not isinstance(found, MayflyBackend):
        raise CommandError(f"--backend {alias!r} is a {type(found).__name__}, not of Mayfly")
    return found
