"""The worker of Django Tasks: gets tasks one by one, runs them and writes their records."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from functools import partial
from traceback import format_exception
from typing import Final

from django.utils import timezone
from django.utils.crypto import get_random_string

from mayfly.client.client import Client, connected
from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.routes import ConnectOptions
from mayfly.client.connection.waits import Wait
from mayfly.integrations.django.backend import (
    AnyResult,
    MayflyBackend,
    changed,
    changed_status,
    queue_of,
    record_of,
    result_of,
    results_queue,
)
from mayfly.integrations.django.framework import (
    TaskContext,
    TaskError,
    task_finished,
    task_started,
)
from mayfly.integrations.queues import define_queue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, Settlement

_LOG: Final = logging.getLogger("mayfly.django")
_GET_OPTIONS: Final = c.MQGMO_PROPERTIES_FORCE_MQRFH2 | c.MQGMO_WAIT
#: The MsgId of records of tasks that run. The CorrelId of a record is the id of its task.
_RUNNING: Final = b"running".ljust(c.MQ_MSG_ID_LENGTH, b"\0")
#: Longer than a task runs. A worker that is killed before it removes such a record leaves it, which
#: therefore has an end.
_RUNNING_LIFE_MIN: Final = timedelta(weeks=1)


class TaskWorker:
    """Runs the tasks of a backend, one at a time; several processes run several.

    A task is held while it runs. Its result and its end are one unit of work: after a kill it runs
    again, in another worker, and nothing of the first run is in its record but the attempt.
    """

    def __init__(self, backend: MayflyBackend) -> None:
        """Connect to the queue manager of a backend, and open its queues; raises MQError."""
        self.id = get_random_string(32)
        self._backend = backend
        wanted = ConnectOptions(reconnect=Reconnect.YES, may_reconnect=True)
        url, user, password = backend.place
        self._mq = connected(url, wanted, user=user, password=password, tls=None)
        self._client = Client(self._mq, transacted=True)
        self._at_once = Client(self._mq)
        self._wait = Wait(self._mq.runtime)
        define_queue(self._mq, results_queue())
        self._thresholds: dict[int, int] = {}
        for name in sorted(backend.queues):
            define_queue(self._mq, queue_of(name))
            handle = self._mq.call(ask.Open(queue_of(name), c.MQOO_INPUT_SHARED)).handle
            self._thresholds[handle] = self._mq.call(ask.AskBackoutRule(handle)).threshold

    def run(self) -> None:
        """Run tasks until :meth:`stop`; raises the MQError that ends the get."""
        while self.run_next():
            pass

    def run_next(self, wait_ms: int = c.MQWI_UNLIMITED) -> bool:
        """Run the next task, waiting ``wait_ms`` for it; return False without one.

        Raises MQError when the task cannot be got, or its result cannot be written: it comes again.
        """
        request = ask.GetAny(list(self._thresholds), _GET_OPTIONS, wait_ms)
        try:
            delivery: Delivery | None = self._wait.of(partial(self._mq.begin, request))
        except MQError as error:
            if error.reason == rc.MQRC_NO_MSG_AVAILABLE:
                return False
            raise
        if delivery is None:
            return False
        self._run(delivery)
        return True

    def stop(self) -> None:
        """Let :meth:`run` return, after the task that is running; called by any thread."""
        self._wait.end()

    def close(self) -> None:
        """Disconnect; a task that is running comes again."""
        with suppress(MQError):
            self._client.close(commit=False)

    def _run(self, delivery: Delivery) -> None:
        """Run the task of a delivery, record its result and settle the delivery.

        A message that is no task, or was backed out too often, is set aside. An error of the task
        is its result; KeyboardInterrupt and SystemExit back the message out and are raised.
        """
        message = delivery.result.message
        try:
            if 0 < self._thresholds[delivery.handle] <= message.backout_count:
                raise ValueError(f"backed out {message.backout_count} times")
            # A record of an earlier attempt has its worker.
            earlier = self._latest(message.msg_id) if message.backout_count else None
            result = result_of(earlier or message.data)
        except (ValueError, ImportError) as error:
            self._set_aside(delivery, str(error))
            return
        now = timezone.now()
        changed_status(result, "RUNNING", last_attempted_at=now)
        changed(result, started_at=result.started_at or now)
        result.worker_ids.append(self.id)
        self._write_running(result, message.msg_id)
        if earlier is not None:
            self._drop_running(message.msg_id)
        task_started.send(sender=type(self._backend), task_result=result)
        try:
            _call(result)
        except (KeyboardInterrupt, SystemExit):
            self._mq.call(ask.Settle([delivery.number], Settlement.BACKED_OUT))
            raise
        self._write_end(result, message.msg_id, delivery.number)
        self._drop_running(message.msg_id)
        task_finished.send(sender=type(self._backend), task_result=result)

    def _latest(self, msg_id: bytes) -> bytes | None:
        """Return the last record of a task, None if there is none."""
        found = self._client.browse(results_queue(), correl_id=msg_id)
        records = [message.data for message in found]
        return records[-1] if records else None

    def _write_running(self, result: AnyResult, msg_id: bytes) -> None:
        """Put a record that a task runs on the result queue, after the record of its enqueueing.

        The record is non-persistent and needs no sync: a restart loses it, and the task runs again.
        """
        self._at_once.put(
            results_queue(),
            record_of(result),
            msg_id=_RUNNING,
            correl_id=msg_id,
            persistent=False,
            time_to_live_ms=max(self._backend.result_life, _RUNNING_LIFE_MIN),
        )

    def _drop_running(self, msg_id: bytes) -> None:
        """Remove the first record of a task that runs."""
        self._at_once.get(results_queue(), msg_id=_RUNNING, correl_id=msg_id)

    def _write_end(self, result: AnyResult, msg_id: bytes, delivery: int) -> None:
        """End a delivery, and replace the record of its enqueueing: one unit of work.

        A reader finds the record of the run until the last one can be seen.
        """
        self._mq.call(ask.Settle([delivery], Settlement.TAKEN, within=self._mq.number))
        self._client.get(results_queue(), correl_id=msg_id)
        self._client.put(
            results_queue(),
            record_of(result),
            correl_id=msg_id,
            persistent=True,
            time_to_live_ms=self._backend.result_life,
        )
        self._client.commit()

    def _set_aside(self, delivery: Delivery, why: str) -> None:
        """Move a message that cannot be run to the dead-letter queue, and log why.

        Without a dead-letter queue the message stays held.
        """
        name = delivery.result.message.msg_id.hex()
        _LOG.error("task %s is set aside: %s", name, why)
        try:
            self._mq.call(
                ask.Settle([delivery.number], Settlement.DEAD_LETTERED, rc.MQRC_FORMAT_ERROR)
            )
        except MQError as error:
            _LOG.error("no dead-letter queue takes task %s: %s", name, error)


def _call(result: AnyResult) -> None:
    """Call the function of a task, and set its result or its error in the TaskResult."""
    task = result.task
    context = (TaskContext(task_result=result),) if task.takes_context else ()
    try:
        value = task.call(*context, *result.args, **result.kwargs)
        changed_status(result, "SUCCESSFUL", _return_value=value, finished_at=timezone.now())
        # A value that is no JSON is the task's error.
        record_of(result)
    except Exception as error:  # noqa: BLE001 - the program's own: it is the result
        kind = type(error)
        text = "".join(format_exception(error))
        result.errors.append(
            TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=text)
        )
        changed_status(result, "FAILED", _return_value=None, finished_at=timezone.now())
