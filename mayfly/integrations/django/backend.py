"""The backend of Django Tasks: a task is a message, its result a record on a queue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

from django.apps import apps
from django.core import checks
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.module_loading import import_string

from mayfly.client.client import Client, connected
from mayfly.client.connection import Connection
from mayfly.client.connection.routes import ConnectOptions
from mayfly.integrations.django.framework import (
    BaseTaskBackend,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from mayfly.integrations.queues import define_queue, mq_name_of, ms_from_now, msg_id_of
from mayfly.mqi.errors import ConnectionBroken, LostAnswer
from mayfly.runtime import Runtime
from mayfly.verbs.schedule import Receipt

_R = TypeVar("_R")
_OPTIONS: Final = ("URL", "USER", "PASSWORD", "RESULT_SECONDS")
_WEEK_SECONDS: Final = 7 * 24 * 3600
_ID_DIGITS, _ID_LENGTH = "0123456789abcdef", 32
_APP: Final = "mayfly.integrations.django"


class BrokerAddress(NamedTuple):
    """A queue manager, by its name or URL as in ``mayfly.connect``, and who connects."""

    url: str
    user: str | None
    password: str | None


class _SharedClient:
    """The client of a process to one place; its threads use it one after the other."""

    _of_place: ClassVar[dict[BrokerAddress, _SharedClient]] = {}
    _lock: ClassVar = Runtime().lock("django-clients")

    def __init__(self, place: BrokerAddress) -> None:
        """Name the place; nothing is connected."""
        self._place = place
        self._used = Runtime().lock("django-client")
        self._client: Client | None = None
        self._mq: Connection
        self._defined: set[str] = set()

    @classmethod
    def to(cls, place: BrokerAddress) -> _SharedClient:
        """Return the client of this process to a place."""
        with cls._lock:
            return cls._of_place.setdefault(place, cls(place))

    @classmethod
    def close_all(cls) -> None:
        """Disconnect all clients of the process; the next use connects again."""
        with cls._lock:
            clients = list(cls._of_place.values())
        for client in clients:
            with client._used:
                client._end()

    def use(self, work: Callable[[Client], _R], queues: Iterable[str]) -> _R:
        """Return the result of ``work`` with the client, whose unit of work it commits.

        ``queues`` are defined where they are missing. A connection that is found broken is made
        again, once; after a LostAnswer nobody knows whether the work is done, so it is raised.
        """
        with self._used:
            is_new = self._client is None
            try:
                return self._work(work, queues)
            except LostAnswer:
                self._end()
                raise
            except ConnectionBroken:
                self._end()
                if is_new:
                    raise
            return self._work(work, queues)

    def _work(self, work: Callable[[Client], _R], queues: Iterable[str]) -> _R:
        """Connect if need be, run ``work`` and commit; back out after an error."""
        if self._client is None:
            url, user, password = self._place
            mq = connected(url, ConnectOptions(), user=user, password=password, tls=None)
            self._mq, self._client = mq, Client(mq, transacted=True)
        for queue in queues:
            if queue not in self._defined:
                define_queue(self._mq, queue)
                self._defined.add(queue)
        try:
            result = work(self._client)
            self._client.commit()
        except ConnectionBroken:
            raise
        except BaseException:
            self._client.backout()
            raise
        return result

    def _end(self) -> None:
        """Forget the client, after a disconnect if it still works."""
        client, self._client = self._client, None
        self._defined.clear()
        if client is not None:
            client.close(commit=False)


def close_clients() -> None:
    """Disconnect what this process has connected for tasks, at its end or in a test."""
    _SharedClient.close_all()


class MayflyBackend(BaseTaskBackend):
    """A backend of TASKS whose OPTIONS name a queue manager.

    ================== ==========================================================================
    option             meaning
    ================== ==========================================================================
    ``URL``            a name or URL as in ``mayfly.connect``
    ``USER``           who connects; without it the user that runs the program
    ``PASSWORD``       the password
    ``RESULT_SECONDS`` how long the result of a finished task is kept; a week without it
    ================== ==========================================================================

    A task is durable when ``enqueue`` returns. It is no part of a transaction of the database: one
    that is rolled back leaves the task, so enqueue in ``transaction.on_commit``.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        """Take an entry of TASKS; nothing is connected before the first task."""
        super().__init__(alias, params)
        self.alias, self.options = alias, params.get("OPTIONS", {})

    @property
    def place(self) -> BrokerAddress:
        """The queue manager that OPTIONS name."""
        options = self.options
        return BrokerAddress(options.get("URL", ""), options.get("USER"), options.get("PASSWORD"))

    @property
    def result_life(self) -> timedelta:
        """How long the result of a finished task is kept."""
        return timedelta(seconds=self.options.get("RESULT_SECONDS", _WEEK_SECONDS))

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> AnyResult:
        """Put a task and its record, both or none, and return its TaskResult.

        Raises the errors of ``validate_task``, of JSON for the arguments, and MQError: LostAnswer
        where nobody knows whether the task is put.
        """
        self.validate_task(task)
        result = TaskResult(
            task=task,
            id=get_random_string(_ID_LENGTH, _ID_DIGITS),
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        record, msg_id = record_of(result), msg_id_of(result.id)
        queue, delay_ms = queue_of(task.queue_name), _delay_ms(task.run_after)

        def put_both(client: Client) -> None:
            client.put(results_queue(), record, correl_id=msg_id, persistent=True)
            client.put(
                queue,
                record,
                msg_id=msg_id,
                delay_ms=delay_ms,
                priority=mq_priority_of(task.priority),
                persistent=True,
            )

        _SharedClient.to(self.place).use(put_both, (results_queue(), queue))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> AnyResult:
        """Return the present TaskResult of a task.

        Raises TaskResultDoesNotExist for an id that is not known, or whose result has expired.
        """

        def latest(client: Client) -> list[bytes]:
            found = client.browse(results_queue(), correl_id=msg_id_of(result_id))
            return [message.data for message in found][-1:]

        records = _SharedClient.to(self.place).use(latest, (results_queue(),))
        if not records:
            raise TaskResultDoesNotExist(result_id)
        return result_of(records[0])

    def cancel(self, result_id: str) -> bool:
        """Take a task that waits for ``run_after`` off the schedule; its record goes as well.

        Returns True if it is cancelled; False if it was delivered or is not known.
        """
        msg_id = msg_id_of(result_id)

        def cancel_both(client: Client) -> bool:
            is_cancelled = client.schedule.cancel(msg_id) == Receipt.CANCELLED
            if is_cancelled:
                client.get(results_queue(), correl_id=msg_id)
            return is_cancelled

        return _SharedClient.to(self.place).use(cancel_both, (results_queue(),))

    def check(self, **_options: Any) -> Iterable[checks.CheckMessage]:
        """Yield what is wrong with the settings; nothing is connected."""
        name = f"TASKS[{self.alias!r}]['OPTIONS']"
        if not self.options.get("URL"):
            text = f"{name} has no URL: the name or URL of a queue manager"
            yield checks.Error(text, id="mayfly.E001")
        for option in self.options:
            if option not in _OPTIONS:
                text = f"{name}[{option!r}] is none of {', '.join(_OPTIONS)}"
                yield checks.Error(text, id="mayfly.E002")
        if not apps.is_installed(_APP):
            text = f"{_APP} is not in INSTALLED_APPS: manage.py has no mayfly_worker"
            yield checks.Warning(text, id="mayfly.W001")


def changed_status(result: AnyResult, status: str, **values: object) -> AnyResult:
    """Set the status of a TaskResult and other fields, and return it."""
    return changed(result, status=TaskResultStatus(status), **values)


def _delay_ms(run_after: Any) -> int:
    """Return the delay of a task that runs after a moment; 0 for none and for a past one."""
    if run_after is None:
        return 0
    aware = timezone.make_aware(run_after) if timezone.is_naive(run_after) else run_after
    return max(ms_from_now(aware, "run_after"), 0)


# Records of tasks: a TaskResult of Django as the JSON of a message, and back


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
