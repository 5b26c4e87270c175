"""The broker for taskiq: tasks that wait are delayed messages (docs/TASKS.md)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from mayfly.client.aio.client import AsyncClient, connect
from mayfly.client.aio.outcomes import AwaitableVerbs
from mayfly.client.client import connected
from mayfly.client.connection import Connection, Settlement
from mayfly.client.connection.routes import ConnectOptions
from mayfly.integrations.queues import define_queue, mq_name_of, msg_id_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery
from mayfly.verbs.schedule import Receipt, key_id

_LOG: Final = logging.getLogger("mayfly.taskiq")
_GET_OPTIONS: Final = c.MQGMO_PROPERTIES_FORCE_MQRFH2 | c.MQGMO_WAIT


class MayflyBroker(AsyncBroker):
    """A broker whose queue is a queue of a queue manager; each message is held until it is acked.

    ============== ==============================================================================
    label          meaning
    ============== ==============================================================================
    ``delay``      seconds until the task is delivered, as taskiq's retry middlewares set it
    ``expires``    seconds after which nobody gets it; counted from now, so longer than the delay
    ``priority``   0 to 9, 9 comes first
    ``key``        only one task with the key waits for its delivery time
    ``if_exists``  what becomes of another one: ``refuse`` (MQRC_OBJECT_ALREADY_EXISTS), ``replace``
    ============== ==============================================================================
    """

    def __init__(
        self,
        name: str,
        *,
        queue: str = "taskiq",
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        """Name a queue manager, by its name or a URL as in ``mayfly.connect``, and the queue.

        Nothing is connected before ``startup``, which defines the queue where it is missing.
        ``user`` None is the user that runs the program.
        """
        super().__init__()
        self._name, self._user, self._password = name, user, password
        self.queue = mq_name_of(queue)
        self._started: AsyncClient | None = None
        #: The deliveries of this worker that are not acknowledged.
        self._unacked: set[int] = set()

    @property
    def _client(self) -> AsyncClient:
        """The client; raises MQRC_HCONN_ERROR before ``startup`` and after ``shutdown``."""
        if self._started is None:
            raise mq_error(rc.MQRC_HCONN_ERROR, "the broker is not started: await startup()")
        return self._started

    async def startup(self) -> None:
        """Connect, and define the queue where it is missing; raises the errors of both."""
        self._started = await connect(self._name, user=self._user, password=self._password)
        await self._client.run(partial(define_queue, queue=self.queue))
        await super().startup()

    async def shutdown(self) -> None:
        """Disconnect."""
        await super().shutdown()
        if self._started is not None:
            await self._started.close()
            self._started = None

    async def kick(self, message: BrokerMessage) -> None:
        """Put a task; it is durable when this returns. Raises MQError, ValueError for a label."""
        labels = message.labels
        key = labels.get("key")
        await self._client.put(
            self.queue,
            message.message,
            delay_ms=_duration(labels, "delay") or timedelta(0),
            time_to_live_ms=_duration(labels, "expires"),
            priority=int(labels.get("priority", 0)),
            persistent=True,
            msg_id=None if key else msg_id_of(message.task_id),
            correl_id=msg_id_of(message.task_id),
            key=key,
            if_exists=str(labels.get("if_exists", "refuse")),
        )

    async def cancel(self, task_id: str) -> bool:
        """Take a task that waits for its delivery time off the schedule.

        Returns True if it is cancelled, now or before; False if it was delivered, has expired, or
        is not known. A task with a key has no other id: see :meth:`cancel_key`.
        """
        receipt = await self._client.schedule.cancel(msg_id_of(task_id))
        return receipt == Receipt.CANCELLED

    async def cancel_key(self, key: str) -> bool:
        """Take the task that waits under a key off the schedule; the result is as for an id."""
        receipt = await self._client.schedule.cancel(key_id(self.queue, key))
        return receipt == Receipt.CANCELLED

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Yield the tasks of the queue as they come; ``ack`` ends one.

        Messages that are not acknowledged when the generator ends go back to the queue uncounted.
        After a kill they go back, and their backout counts rise. A task that was backed out
        BOTHRESH times goes to the dead-letter queue. Raises the MQError that ends the get.
        """
        held = await self._client.run(lambda _connection: self._connect())
        verbs = AwaitableVerbs(held)
        try:
            opened = await verbs.call(ask.Open(self.queue, c.MQOO_INPUT_SHARED))
            rule = await verbs.call(ask.AskBackoutRule(opened.handle))
            begin = partial(held.begin, ask.GetAny([opened.handle], _GET_OPTIONS))
            while True:
                delivery = await verbs.delivery(begin)
                if 0 < rule.threshold <= delivery.result.message.backout_count:
                    await self._set_aside(verbs, delivery)
                    continue
                self._unacked.add(delivery.number)
                yield AckableMessage(
                    data=delivery.result.message.data,
                    ack=partial(self._ack, held, verbs, delivery.number),
                )
        finally:
            await verbs.end(partial(self._give_back, held))

    async def _ack(self, held: Connection, verbs: AwaitableVerbs, number: int) -> None:
        """End a delivery; it is durably gone when this returns."""
        self._unacked.discard(number)
        settle = ask.Settle([number], Settlement.TAKEN)
        await verbs.finished(partial(held.begin, settle))

    async def _set_aside(self, verbs: AwaitableVerbs, delivery: Delivery) -> None:
        """Move a delivery to the dead-letter queue; where none takes it, it stays held."""
        message = delivery.result.message
        name = message.msg_id.hex()
        _LOG.error("task %s was backed out %d times: it is set aside", name, message.backout_count)
        reason = rc.MQRC_BACKOUT_THRESHOLD_REACHED
        try:
            await verbs.call(ask.Settle([delivery.number], Settlement.DEAD_LETTERED, reason))
        except ConnectionBroken:
            raise
        except MQError as error:
            _LOG.error("no dead-letter queue takes task %s: %s", name, error)

    def _connect(self) -> Connection:
        """Return a connection that holds what this worker has not acknowledged."""
        return connected(
            self._name, ConnectOptions(), user=self._user, password=self._password, tls=None
        )

    def _give_back(self, held: Connection) -> None:
        """Give back what is not acknowledged, and disconnect."""
        with suppress(MQError):
            if self._unacked:
                held.call(ask.Settle(sorted(self._unacked), Settlement.RETURNED))
        self._unacked.clear()
        held.close()


def _duration(labels: Mapping[str, Any], name: str) -> timedelta | None:
    """Return the duration of a label in seconds, None without it; ValueError for another value."""
    value = labels.get(name)
    if value is None:
        return None
    try:
        seconds = float(value)
        if seconds < 0:
            raise ValueError
        return timedelta(seconds=seconds)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"label {name} {value!r} is no number of seconds from 0 on") from None
