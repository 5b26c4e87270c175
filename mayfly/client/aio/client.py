"""The client for asyncio: the verbs, open objects and schedule of a connection as coroutines."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar, Unpack

from mayfly.client.aio.outcomes import AwaitableVerbs
from mayfly.client.arguments import (
    MessageOptions,
    Outcome,
    PutOptions,
    SubscribeOptions,
    get_options,
    id_of,
    keyed,
    msg_ids_of,
    put_all,
    put_options,
    resumed,
    subscribed,
)
from mayfly.client.client import TlsWanted, connected
from mayfly.client.connection import Administration, Connection, Schedule
from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.poison import check_move_poison, poison_moves
from mayfly.client.connection.routes import ConnectOptions
from mayfly.client.open_objects import (
    LOOK_MS,
    MAX_OPEN,
    OUTDATED,
    ObjectToOpen,
    from_queue,
    to_browse,
    to_queue,
    to_topic,
)
from mayfly.lifetime.moments import Until
from mayfly.lifetime.times import SECOND_MS, ms_of_duration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import (
    MAX_BYTES,
    Delay,
    Duration,
    Identifier,
    Life,
    Moment,
    bytes_of,
    check_max_messages,
    delay_from,
    plain_descriptor,
    times_of_put,
)
from mayfly.verbs.facts import MqscResult, SubscriptionFacts
from mayfly.verbs.messages import Message, PutResult
from mayfly.verbs.requests import Subscribed
from mayfly.verbs.schedule import EVERYTHING, AuditEntry, Receipt, Scheduled, ScheduleFilter

#: Gets from the queue of a handle, with a wait interval in ms.
Get: TypeAlias = Callable[[int, int], Awaitable[Message | None]]


class AsyncSubscription:
    """A subscription and the queue of its publications, for tasks of one event loop."""

    def __init__(self, verbs: AwaitableVerbs, opened: Subscribed, get: Get) -> None:
        """Take an open subscription, the verbs of its client, and its client's function ``get``."""
        self._verbs, self._opened, self._get = verbs, opened, get

    @property
    def facts(self) -> SubscriptionFacts:
        """Name, topic, queue, CorrelId and other attributes, as they were at opening."""
        return self._opened.facts

    async def get(self, *, wait_ms: Duration = c.MQWI_UNLIMITED) -> Message | None:
        """Get the next publication, None when none comes within ``wait_ms`` (-1: no limit).

        In a transacted client the publication belongs to the unit of work. Otherwise it is gone
        from its queue when this returns. Raises the reason codes of MQGET.
        """
        return await self._get(self._opened.handle, ms_of_duration(wait_ms))

    async def messages(self, *, wait_ms: Duration = c.MQWI_UNLIMITED) -> AsyncIterator[Message]:
        """Yield publications until none comes within ``wait_ms`` (-1: no limit).

        Each publication is got when the iteration asks for it, as by :meth:`get`.
        """
        while (message := await self.get(wait_ms=wait_ms)) is not None:
            yield message

    async def request_retained(self) -> int:
        """Request the retained publications (MQSUBRQ) and return their number.

        They are put on the queue of the subscription, from which :meth:`get` returns them. Raises
        MQRC_NO_RETAINED_MSG (2437) when there is none.
        """
        return await self._verbs.call(ask.RequestRetained(self._opened.number))

    async def close(self, *, remove: bool = False) -> None:
        """Close the subscription.

        A durable one still collects publications, unless ``remove`` deletes it. One that is not
        durable ends. Raises MQRC_HOBJ_ERROR when it is already closed, and MQRC_SUBSCRIPTION_IN_USE
        when others share one to be removed.
        """
        await self._verbs.close(ask.CloseSubscription(self._opened.number, remove))


_T = TypeVar("_T")


class AsyncClient:
    """One connection of one user, for all tasks of one event loop; they share its unit of work.

    Verbs, parameters and errors are those of :class:`mayfly.client.Client`. Cancelling a get loses
    no message: one on its way goes back to its queue, and its backout count stays as it was.
    Cancelling a put or commit does not stop it.
    """

    def __init__(
        self, connection: Connection, *, transacted: bool = False, move_poison: bool = False
    ) -> None:
        """Use a connection in the running event loop; closing the client closes the connection.

        With ``transacted``, puts and gets belong to the unit of work until a commit or backout.
        Otherwise each takes effect at once. ``move_poison`` is that of ``mayfly.connect``.
        """
        self._connection = connection
        self._poison = poison_moves(connection, transacted=transacted, move_poison=move_poison)
        self._verbs = AwaitableVerbs(connection)
        self._objects = AsyncOpenObjects(self._verbs)
        self._put_option = c.MQPMO_SYNCPOINT if transacted else c.MQPMO_NO_SYNCPOINT
        #: The conversation whose unit of work takes what is got, 0 for none.
        self._within = connection.number if transacted else 0
        self._is_closed = False
        #: The delayed messages: list, show, cancel, reschedule and release them. Changes of a
        #: transacted client are part of its unit of work.
        self.schedule = AsyncSchedule(self._verbs, Schedule(connection.call, in_unit=transacted))

    async def put(
        self,
        queue: str,
        body: bytes,
        **keywords: Unpack[PutOptions],
    ) -> bytes:
        """Put a message and return its MsgId; keywords are those of ``Client.put``.

        Puts that several tasks await at the same time share a disk sync. Cancelling the task does
        not stop a put that has begun. Raises MQRC_RESOURCE_PROBLEM when 10,000 puts are waiting for
        the disk.
        """
        described, more = put_options(**keywords)
        options = self._put_option | keyed(
            queue, more, key=keywords.get("key"), if_exists=keywords.get("if_exists", "refuse")
        )
        result = await self._put_to(to_queue(queue), body, described, options, more)
        return result.msg_id

    async def put_many(
        self,
        queue: str,
        bodies: Sequence[bytes],
        *,
        time_to_live_ms: Life = None,
        delay_ms: Delay = 0,
        priority: int | None = None,
        persistent: bool | None = None,
    ) -> list[bytes]:
        """Put messages in order and return their MsgIds; they share network frames and disk syncs.

        The keywords are those of ``Client.put_many`` and apply to every message. If the queue
        refuses one message, the others are still put; errors are those of ``Client.put_many``. A
        cancelled task does not wait for the outcomes; puts that have begun continue.
        """
        described = plain_descriptor(priority, persistent, c.MQRO_NONE, "", c.MQMT_DATAGRAM, "")
        life_ms, delay_or_end_ms = times_of_put(time_to_live_ms, delay_ms)
        if type(delay_or_end_ms) is Until:
            now_ms = await self._verbs.run(self._connection.now_ms)
            delay_or_end_ms = delay_from(now_ms, delay_or_end_ms)
        plain = [bytes_of(body) for body in bodies]

        async def verb(handle: int) -> list[Outcome]:
            work = partial(
                put_all,
                self._connection,
                handle,
                plain,
                described,
                self._put_option,
                time_to_live_ms=life_ms,
                delay_ms=delay_or_end_ms,
            )
            return await self._verbs.run(work)

        return msg_ids_of(await self._objects.use(to_queue(queue), verb))

    async def get(
        self,
        queue: str,
        *,
        wait_ms: Duration = 0,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
        selector: str | None = None,
    ) -> Message | None:
        """Get the next message, None when none comes within ``wait_ms`` (-1: no limit).

        ``msg_id``, ``correl_id`` and ``selector`` say which message is wanted; None allows any. If
        not transacted, the message is gone when this returns. Otherwise a backout returns it to its
        queue. Errors are those of ``Client.get``.
        """
        verb = partial(
            self._get_by,
            wait_ms=ms_of_duration(wait_ms),
            msg_id=id_of(msg_id, "msg_id"),
            correl_id=id_of(correl_id, "correl_id"),
        )
        return await self._objects.use(from_queue(queue, selector), verb)

    async def get_many(
        self, queue: str, max_messages: int, *, wait_ms: Duration = 0
    ) -> list[Message]:
        """Get up to ``max_messages`` messages; waits up to ``wait_ms`` for the first one only.

        Returns [] when none comes. A cancellation of the task ends the wait. A cancellation while
        messages are taken is deferred: the messages are returned, and the next verb of the task
        raises CancelledError. Transactions and errors are those of ``Client.get_many``.
        """
        check_max_messages(max_messages)
        self._verbs.raise_deferred_cancel()
        wait_ms = ms_of_duration(wait_ms)
        verb = partial(self._get_many_by, max_messages=max_messages, wait_ms=wait_ms)
        return await self._objects.use(from_queue(queue, None), verb)

    async def messages(
        self,
        queue: str,
        *,
        wait_ms: Duration = c.MQWI_UNLIMITED,
        selector: str | None = None,
    ) -> AsyncIterator[Message]:
        """Get and yield messages until none comes within ``wait_ms`` (-1: no limit).

        Each message is got when the iteration asks for it, as by :meth:`get`. ``selector`` says
        which messages are wanted; None allows any.
        """
        while (message := await self.get(queue, wait_ms=wait_ms, selector=selector)) is not None:
            yield message

    async def browse(
        self,
        queue: str,
        *,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
        selector: str | None = None,
    ) -> AsyncIterator[Message]:
        """Yield the messages of a queue in get order without removing them.

        ``msg_id``, ``correl_id`` and ``selector`` say which messages are wanted; None allows any.
        Each message is read when the iteration asks for it. The iteration ends at the last message
        and does not wait. Raises MQRC_UNKNOWN_OBJECT_NAME and the other reason codes of MQOPEN and
        MQGET.
        """
        run, connection = self._verbs.run, self._connection
        handle = await run(partial(to_browse(queue, selector).open, connection))
        step = partial(
            connection.get,
            handle,
            c.MQGMO_BROWSE_NEXT | get_options(0),
            msg_id=id_of(msg_id, "msg_id"),
            correl_id=id_of(correl_id, "correl_id"),
        )
        try:
            while True:
                yield (await run(step)).message
        except NoMessage:
            return
        finally:
            if connection.is_open and not connection.is_broken:
                await self._verbs.close(ask.CloseObject(handle))

    async def publish(
        self,
        topic: str,
        body: bytes,
        *,
        retain: bool = False,
        warn_if_no_subscribers: bool = False,
        topic_object: str = "",
        **keywords: Unpack[MessageOptions],
    ) -> PutResult:
        """Publish to all current subscribers and return the result.

        Keywords and errors are those of ``Client.publish``.
        """
        options = self._put_option | (c.MQPMO_RETAIN if retain else 0)
        options |= c.MQPMO_WARN_IF_NO_SUBS_MATCHED if warn_if_no_subscribers else 0
        described, more = put_options(msg_type=c.MQMT_DATAGRAM, **keywords)
        return await self._put_to(to_topic(topic, topic_object), body, described, options, more)

    async def subscribe(
        self, topic: str = "", **keywords: Unpack[SubscribeOptions]
    ) -> AsyncSubscription:
        """Subscribe to a topic string with ``+`` and ``#`` and return the subscription.

        Keywords and errors are those of ``Client.subscribe``.
        """
        work = partial(subscribed, self._connection, topic, **keywords)
        opened = await self._verbs.run(work)
        return AsyncSubscription(self._verbs, opened, self._get_by)

    async def resume(self, name: str) -> AsyncSubscription:
        """Reopen a durable subscription, which has collected publications meanwhile.

        Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE, MQRC_IDENTITY_MISMATCH.
        """
        opened = await self._verbs.run(partial(resumed, self._connection, name))
        return AsyncSubscription(self._verbs, opened, self._get_by)

    async def unsubscribe(self, name: str) -> None:
        """Remove a durable subscription and the messages on its managed queue.

        Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE, MQRC_IDENTITY_MISMATCH.
        """
        await (await self.resume(name)).close(remove=True)

    async def commit(self) -> None:
        """Commit the unit of work; verbs called while this waits belong to the next one.

        Errors are those of ``Client.commit``.
        """
        if self._poison is not None:
            self._poison.check_commit()
        await self._verbs.finished(partial(self._connection.begin, ask.Commit()))

    async def backout(self) -> None:
        """Back out the unit of work: puts vanish, gets return to their queues.

        The backout counts of those messages rise.
        """
        if self._poison is not None:
            self._poison.forget()
        await self._verbs.call(ask.Backout())

    async def mqsc(self, script: str) -> MqscResult:
        """Close the objects that no task uses, run MQSC commands and return their replies.

        A wrong command sets ``ok`` of the result to False. Raises MQRC_NOT_AUTHORIZED for a user
        with limited authority.
        """
        await self._objects.close()
        return await self.run(lambda connection: Administration(connection.call).mqsc(script))

    async def run(self, work: Callable[[Connection], _T]) -> _T:
        """Run blocking ``work`` on the client's thread, for verbs without a coroutine.

        Returns the result of ``work`` and raises its error. ``lambda connection:
        Administration(connection.call).counts("Q1")`` counts the messages of a queue.
        """
        return await self._verbs.run(partial(work, self._connection))

    async def close(self, *, commit: bool = True) -> None:
        """Disconnect: commit the unit of work, or back it out with ``commit`` False.

        A commit raises the errors of :meth:`commit`. A second call does nothing. Waiting gets raise
        MQRC_HCONN_ERROR (2018).
        """
        if not self._is_closed:
            self._is_closed = True
            # Its thread closes behind the verbs before, and one of them may wait for a server.
            self._connection.reconnect_no_more()
            self._objects.end()
            failure = None if self._poison is None or not commit else self._poison.failure
            is_committed = commit and failure is None
            end = self._verbs.end(partial(self._connection.close, commit=is_committed))
            # The connection ends also when the task that closes it is cancelled.
            await asyncio.shield(asyncio.ensure_future(end))
            if failure is not None:
                raise failure

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        return self._connection.name

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit or, after an exception, back out; then disconnect."""
        await self.close(commit=kind is None)

    async def _put_to(
        self,
        opening: ObjectToOpen,
        body: bytes,
        descriptor: Descriptor,
        options: int,
        more: ask.MessageMore,
    ) -> PutResult:
        """Put a message to an object, which stays open, and return the result.

        ``opening`` names the object. ``options`` are MQPMO options. ``more`` has fields of the
        message that ``descriptor`` lacks, such as ``delay_ms``. Raises the errors of the open and
        of the put.
        """
        if type(more["delay_ms"]) is Until:
            now_ms = await self._verbs.run(self._connection.now_ms)
            more["delay_ms"] = delay_from(now_ms, more["delay_ms"])

        async def verb(handle: int) -> PutResult:
            request = ask.Put.of(handle, bytes_of(body), descriptor, options, **more)
            result: PutResult | None = await self._verbs.put(
                partial(self._connection.begin, request)
            )
            # Only a put with MQPMO_ASYNC_RESPONSE ends with nothing.
            assert result is not None
            return result

        return await self._objects.use(opening, verb)

    async def _get_many_by(self, handle: int, max_messages: int, wait_ms: int) -> list[Message]:
        """Get messages from the queue of an open handle and return them; [] when none comes.

        Waits up to ``wait_ms`` for the first one only; see :meth:`get_many`.
        """
        options = get_options(0) | (c.MQGMO_SYNCPOINT if self._within else c.MQGMO_NO_SYNCPOINT)

        def there(max_messages: int) -> list[Message]:
            return self._connection.call(ask.GetMany(handle, options, max_messages, MAX_BYTES))

        while found := await self._verbs.run_to_end(partial(there, max_messages)):
            if self._poison is None:
                return found
            left = await self._verbs.run_to_end(partial(self._poison.without, handle, found))
            if left:
                return left
        if not wait_ms:
            return []
        first = await self._get_by(handle, wait_ms)
        if first is None or max_messages == 1:
            return [] if first is None else [first]
        try:
            more = await self._verbs.run_to_end(partial(there, max_messages - 1))
        except MQError:
            # The first one is got, whatever becomes of others.
            return [first]
        if self._poison is not None:
            more = await self._verbs.run_to_end(partial(self._poison.without, handle, more))
        return [first, *more]

    async def _get_by(
        self, handle: int, wait_ms: int, *, msg_id: bytes = b"", correl_id: bytes = b""
    ) -> Message | None:
        """Get a message from the queue of an open handle; None when none comes within ``wait_ms``.

        The message is held as a delivery and then settled, so that a cancellation loses nothing. A
        delivery that was lost in a reconnect is got again; a transacted client raises
        MQRC_BACKED_OUT instead.
        """
        until_ms: int | None = None
        if self._poison is not None and wait_ms > 0:
            until_ms = await self._verbs.run(self._connection.now_ms) + wait_ms
        while True:
            request = ask.GetAny(
                [handle], get_options(wait_ms), wait_ms, msg_id=msg_id, correl_id=correl_id
            )
            try:
                delivery = await self._verbs.delivery(partial(self._connection.begin, request))
            except NoMessage:
                return None
            try:
                await self._verbs.settle_taken(delivery, self._within)
            except MQError as error:
                # The delivery was lost in a reconnect.
                if error.reason != rc.MQRC_BACKED_OUT:
                    raise
                self._verbs.give_back(delivery)
                if self._within:
                    raise
            else:
                message = delivery.result.message
                if self._poison is None:
                    return message
                moved = partial(self._poison.is_moved, handle, message)
                if not await self._verbs.run_to_end(moved):
                    return message
                if until_ms is not None:
                    wait_ms = max(until_ms - await self._verbs.run(self._connection.now_ms), 0)


def connect(
    name: str,
    *,
    user: str | None = None,
    password: str | None = None,
    tls: TlsWanted = None,
    transacted: bool = False,
    reconnect: Reconnect | None = None,
    move_poison: bool = False,
) -> Connecting:
    """Connect to a queue manager: ``async with connect("QM1") as client``, or ``await`` it.

    Parameters and errors are those of ``mayfly.connect``. The client belongs to the event loop in
    which this is awaited.
    """
    wanted = ConnectOptions(reconnect=reconnect, may_reconnect=True)
    made = partial(connected, name, wanted, user=user, password=password, tls=tls)
    check_move_poison(transacted=transacted, move_poison=move_poison)
    return Connecting(made, transacted=transacted, move_poison=move_poison)


class Connecting:
    """A client before it is connected; ``await`` or ``async with`` connects."""

    def __init__(
        self, connect: Callable[[], Connection], *, transacted: bool, move_poison: bool
    ) -> None:
        """Take the function that connects, which is not called yet.

        ``transacted`` and ``move_poison`` are those of the :class:`AsyncClient`.
        """
        self._connect, self._transacted, self._move_poison = connect, transacted, move_poison
        self._client: AsyncClient | None = None

    def __await__(self) -> Generator[Any, None, AsyncClient]:
        """Connect and return the client."""
        return self._connected().__await__()

    async def __aenter__(self) -> AsyncClient:
        """Connect and return the client."""
        self._client = await self._connected()
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit or, after an exception, back out; then disconnect."""
        if self._client is not None:
            await self._client.__aexit__(kind, value, traceback)

    async def _connected(self) -> AsyncClient:
        """Connect on another thread and return the client; raises the MQError of the connect."""
        made = await asyncio.to_thread(self._connect)
        return AsyncClient(made, transacted=self._transacted, move_poison=self._move_poison)


class AsyncSchedule:
    """The delayed messages, as coroutines that run one after the other on the client's thread.

    Operations, parameters, results and errors are those of ``Client.schedule``.
    """

    def __init__(self, verbs: AwaitableVerbs, schedule: Schedule) -> None:
        """Take the verbs of a client, and the blocking schedule of its connection."""
        self._verbs, self._schedule = verbs, schedule

    def at(self, position: int) -> AsyncSchedule:
        """Return a schedule whose changes apply to the one message at a schedule position."""
        return AsyncSchedule(self._verbs, self._schedule.at(position))

    async def list(
        self,
        where: ScheduleFilter | str = EVERYTHING,
        *,
        limit: int = 20,
        after: int | None = None,
    ) -> builtins.list[Scheduled]:
        """Return up to ``limit`` delayed messages that match a filter, or are for a queue."""
        return await self._verbs.run(partial(self._schedule.list, where, limit=limit, after=after))

    async def show(self, msg_id: bytes | str) -> Scheduled | None:
        """Return the delayed message with a MsgId, the next due of several; None without one."""
        return await self._verbs.run(partial(self._schedule.show, msg_id))

    async def count(self, queue: str | None = None) -> int:
        """Return the number of delayed messages, of all queues or of one."""
        return await self._verbs.run(partial(self._schedule.count, queue))

    async def cancel(self, msg_id: bytes | str) -> Receipt:
        """Remove the delayed messages with a MsgId; the receipt says how many, or why none."""
        return await self._verbs.run(partial(self._schedule.cancel, msg_id))

    async def reschedule(
        self,
        msg_id: bytes | str,
        *,
        delay_ms: Duration | None = None,
        deliver_at_ms: Moment | None = None,
    ) -> Receipt:
        """Give the delayed messages with a MsgId another delivery time; return a receipt."""
        work = partial(
            self._schedule.reschedule, msg_id, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms
        )
        return await self._verbs.run(work)

    async def release(self, msg_id: bytes | str) -> Receipt:
        """Make the delayed messages with a MsgId due now; the receipt says how many."""
        return await self._verbs.run(partial(self._schedule.release, msg_id))

    def cancel_all(self, where: ScheduleFilter) -> AsyncIterator[int]:
        """Cancel all delayed messages that match a filter; yield the number so far after a step."""
        return self._steps(self._schedule.cancel_all(where))

    def reschedule_all(
        self,
        where: ScheduleFilter,
        *,
        delay_ms: Duration | None = None,
        deliver_at_ms: Moment | None = None,
        by_ms: Duration | None = None,
    ) -> AsyncIterator[int]:
        """Give all messages that match a filter another delivery time; yield the number so far."""
        return self._steps(
            self._schedule.reschedule_all(
                where, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms, by_ms=by_ms
            )
        )

    def release_all(self, where: ScheduleFilter) -> AsyncIterator[int]:
        """Make all messages that match a filter due now; yield the number so far after a step."""
        return self._steps(self._schedule.release_all(where))

    async def audit(self, limit: int = 20) -> builtins.list[AuditEntry]:
        """Return the latest ``limit`` changes of the schedule, newest first; [] without any."""
        return await self._verbs.run(partial(self._schedule.audit, limit))

    async def audit_before(self, number: int, limit: int) -> builtins.list[tuple[int, AuditEntry]]:
        """Return up to ``limit`` changes before change ``number``, newest first, with numbers."""
        return await self._verbs.run(partial(self._schedule.audit_before, number, limit))

    async def now_ms(self) -> int:
        """Return the time of the schedule: ms since 1970, UTC."""
        return await self._verbs.run(self._schedule.now_ms)

    async def _steps(self, steps: Iterator[int]) -> AsyncIterator[int]:
        """Run the steps of a bulk change one by one on the client's thread, as they are awaited."""
        while (done_count := await self._verbs.run(partial(next, steps, None))) is not None:
            yield done_count


class _Shared:
    """A handle that is open or being opened, and the number of tasks that use it."""

    def __init__(self, handle: asyncio.Future[int]) -> None:
        """Begin without users; ``handle`` is the handle of the object once it is open."""
        self.handle = handle
        self.users = 0
        self.is_dropped = False
        #: The look before which it was used last.
        self.look = 0

    @property
    def is_open(self) -> bool:
        """True if the object is open: opening it has ended without an error."""
        return (
            self.handle.done() and not self.handle.cancelled() and self.handle.exception() is None
        )


class AsyncOpenObjects:
    """The handles that a client keeps open: at most MAX_OPEN, or more if tasks use all of them."""

    def __init__(self, verbs: AwaitableVerbs) -> None:
        """Begin with nothing open; ``verbs`` runs the verbs of the client."""
        self._verbs = verbs
        self._shared: dict[ObjectToOpen, _Shared] = {}
        self._look = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Future[None]] = set()

    async def use(self, opening: ObjectToOpen, verb: Callable[[int], Awaitable[_T]]) -> _T:
        """Await ``verb`` with the handle of an object and return its result.

        Opens the object if it is not open. If the object has changed since then, ``verb`` has done
        nothing, and is awaited once more with a new handle. Raises the errors of the open and of
        ``verb``.
        """
        was_open = opening in self._shared
        shared = self._find(opening)
        shared.users += 1
        try:
            # The task that opens it may be cancelled; other tasks still wait for the handle.
            return await verb(await asyncio.shield(shared.handle))
        except MQError as error:
            is_open = shared.is_open
            if not is_open or error.reason in OUTDATED:
                self._drop(opening, shared)
            if not (is_open and was_open and error.reason in OUTDATED):
                raise
        finally:
            shared.users -= 1
            shared.look = self._look
            self._watch()
            if shared.is_dropped and not shared.users:
                await self._close(shared)
        return await self.use(opening, verb)

    async def close(self) -> None:
        """Close the handles that no task uses, so that the objects can be altered and deleted."""
        idle = [opening for opening, shared in self._shared.items() if not shared.users]
        for opening in idle:
            await self._close(self._shared.pop(opening))

    def end(self) -> None:
        """Forget all handles and check them no more; the close of the connection closes them."""
        if self._timer is not None:
            self._timer.cancel()
        self._shared.clear()

    def _watch(self) -> None:
        """Schedule the next check for idle handles in half a second, unless one is scheduled."""
        if self._timer is None and self._shared:
            self._timer = asyncio.get_running_loop().call_later(LOOK_MS / SECOND_MS, self._tick)

    def _tick(self) -> None:
        """Close the handles that no task has used for two checks; then schedule the next check."""
        self._timer = None
        self._look += 1
        for opening, shared in list(self._shared.items()):
            if not shared.users and shared.look < self._look - 1:
                del self._shared[opening]
                closing = asyncio.ensure_future(self._close(shared))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
        self._watch()

    def _find(self, opening: ObjectToOpen) -> _Shared:
        """Return the shared handle of an object; begin to open the object if it is not open."""
        shared = self._shared.pop(opening, None)
        if shared is None:
            shared = _Shared(asyncio.ensure_future(self._open(opening)))
        # In again at the end: the first is the one that was longest not used.
        self._shared[opening] = shared
        return shared

    def _drop(self, opening: ObjectToOpen, shared: _Shared) -> None:
        """Forget the handle ``shared`` of a changed object, so that a new one is opened.

        The last task that still uses the old handle closes it.
        """
        shared.is_dropped = True
        if self._shared.get(opening) is shared:
            del self._shared[opening]

    async def _open(self, opening: ObjectToOpen) -> int:
        """Open an object and return its handle; raises the MQError of the open.

        If MAX_OPEN handles are open, the least recently used idle one is closed.
        """
        if len(self._shared) >= MAX_OPEN:
            idle = next((key for key, shared in self._shared.items() if not shared.users), None)
            if idle is not None:
                await self._close(self._shared.pop(idle))
        return await self._verbs.run(partial(opening.open, self._verbs.connection))

    async def _close(self, shared: _Shared) -> None:
        """Close a handle; an MQError is ignored, for example of a handle that is already closed."""
        # A handle that its queue manager knows no more is closed.
        with suppress(MQError):
            handle = await shared.handle
            await self._verbs.close(ask.CloseObject(handle))
