"""Celery on Mayfly: ``Celery(broker="mq://host:1414/QM1?channel=APP")`` (docs/TASKS.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import celery
from celery.app.control import Control

from mayfly.integrations.kombu import KombuConnection, cancel_task

__all__ = ["Celery", "MayflyControl"]


class MayflyControl(Control):
    """Celery's remote control; a revoke also takes tasks that wait for their eta off the schedule.

    So it holds when no worker runs, and after all of them have started again.
    """

    def broadcast(
        self, command: str, arguments: dict[str, Any] | None = None, *more: Any, **options: Any
    ) -> Any:
        """Send a command to the workers, as ``Control.broadcast`` does; a revoke cancels before."""
        if command == "revoke":
            given = (arguments or {}).get("task_id") or ()
            self._cancel([given] if isinstance(given, str) else given, options.get("connection"))
        return super().broadcast(command, arguments, *more, **options)

    def _cancel(self, task_ids: Iterable[str], connection: Any) -> None:
        """Take tasks off the schedule, those that are not on it excepted."""
        with self.app.connection_or_acquire(connection) as broker:
            under_it = broker.default_channel.connection
            if isinstance(under_it, KombuConnection):
                for task_id in task_ids:
                    cancel_task(under_it, task_id)


class Celery(celery.Celery):
    """Celery's application, with URLs of Mayfly as its broker, and revokes by the schedule."""

    control_cls = f"{__name__}:{MayflyControl.__name__}"
