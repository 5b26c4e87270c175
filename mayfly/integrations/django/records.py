"""Records of tasks: a TaskResult of Django as the JSON of a message, and back."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, TypeAlias

from django.utils.module_loading import import_string

from mayfly.integrations.django.framework import Task, TaskError, TaskResult, TaskResultStatus
from mayfly.integrations.task_ids import mq_name_of

_MOMENTS: Final = ("enqueued_at", "started_at", "finished_at", "last_attempted_at")
_RESULTS_QUEUE: Final = "django.results"
#: MQ has ten priorities, Django 201 from -100 on.
_MQ_PRIORITY_MAX, _PRIORITY_MAX = 9, 100

#: A TaskResult of Django, whose type is that of the package or of Django 6.
AnyResult: TypeAlias = Any


def queue_of(queue_name: str) -> str:
    """Return the MQ queue of the tasks with a ``queue_name``."""
    return mq_name_of(f"django.tasks.{queue_name}")


def results_queue() -> str:
    """Return the MQ queue of the records."""
    return _RESULTS_QUEUE


def mq_priority_of(priority: int) -> int:
    """Return the priority of a message, 0 to 9, for one of a task, -100 to 100; 0 becomes 4."""
    return (priority + _PRIORITY_MAX) * _MQ_PRIORITY_MAX // (2 * _PRIORITY_MAX)


def record_of(result: AnyResult) -> bytes:
    """Return the record of a TaskResult; raises TypeError for arguments that are no JSON."""
    task = result.task
    record = {
        "id": result.id,
        "task": task.module_path,
        "queue_name": task.queue_name,
        "priority": task.priority,
        "run_after": None if task.run_after is None else task.run_after.isoformat(),
        "backend": result.backend,
        "args": result.args,
        "kwargs": result.kwargs,
        "status": str(result.status.value),
        "errors": [
            {"exception_class_path": each.exception_class_path, "traceback": each.traceback}
            for each in result.errors
        ],
        "worker_ids": result.worker_ids,
        "return_value": result._return_value,
    }
    for name in _MOMENTS:
        moment: datetime | None = getattr(result, name)
        record[name] = None if moment is None else moment.isoformat()
    return json.dumps(record).encode()


def result_of(record: bytes) -> AnyResult:
    """Return the TaskResult of a record.

    Raises ValueError for other bytes, and ImportError where the task of the record is not in this
    program.
    """
    try:
        row = json.loads(record)
        path, moments = row["task"], {name: _moment(row[name]) for name in _MOMENTS}
        run_after = _moment(row["run_after"])
        status = TaskResultStatus(row["status"])
        errors = [TaskError(**error) for error in row["errors"]]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"no record of a task: {error!r}") from None
    known = import_string(path)
    if not isinstance(known, Task):
        raise ImportError(f"{path} is no task: it lacks the decorator")  # noqa: TRY004 - as a missing one
    task = known.using(priority=row["priority"], queue_name=row["queue_name"], run_after=run_after)
    made = TaskResult(
        task=task,
        id=row["id"],
        status=status,
        args=row["args"],
        kwargs=row["kwargs"],
        backend=row["backend"],
        errors=errors,
        worker_ids=row["worker_ids"],
        **moments,
    )
    changed(made, _return_value=row["return_value"])
    return made


def changed(result: AnyResult, **values: object) -> AnyResult:
    """Set fields of a TaskResult, which is frozen for its users, and return it."""
    for name, value in values.items():
        object.__setattr__(result, name, value)
    return result


def _moment(text: str | None) -> datetime | None:
    """Return a moment of a record; None for none."""
    return None if text is None else datetime.fromisoformat(text)
