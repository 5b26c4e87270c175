"""The client: one connection to a queue manager, here or over a network, with its verbs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, Unpack

from mayfly.client import connection
from mayfly.client.arguments import (
    MessageOptions,
    Outcome,
    PutOptions,
    SubscribeOptions,
    get_all,
    get_options,
    id_of,
    keyed,
    msg_ids_of,
    put_all,
    put_options,
    resumed,
    subscribed,
)
from mayfly.client.connection import Administration, Connection, Schedule
from mayfly.client.connection.endpoint import Reconnect, Tls, endpoint_of_url, is_url
from mayfly.client.connection.poison import check_move_poison, poison_moves
from mayfly.client.connection.routes import ConnectOptions
from mayfly.client.open_objects import (
    ObjectToOpen,
    OpenObjects,
    from_queue,
    to_browse,
    to_queue,
    to_topic,
)
from mayfly.lifetime.moments import Until
from mayfly.lifetime.times import ms_of_duration
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import (
    Delay,
    Duration,
    Identifier,
    Life,
    bytes_of,
    delay_from,
    plain_descriptor,
    times_of_put,
)
from mayfly.verbs.facts import MqscResult, SubscriptionFacts
from mayfly.verbs.messages import Message, PutResult
from mayfly.verbs.requests import Subscribed

#: Gets from the queue of a handle, with a wait interval in ms.
Get: TypeAlias = Callable[[int, int], Message | None]


class ClientSubscription:
    """A subscription and the queue of its publications; only the thread of its client uses it."""

    def __init__(self, connection: Connection, opened: Subscribed, get: Get) -> None:
        """Take an open subscription, and its client's function ``get``."""
        self._connection, self._opened, self._get = connection, opened, get

    @property
    def facts(self) -> SubscriptionFacts:
        """Name, topic, queue, CorrelId and other attributes, as they were at opening."""
        return self._opened.facts

    def get(self, *, wait_ms: Duration = 0) -> Message | None:
        """Get the next publication, None when none comes within ``wait_ms`` (-1: no limit).

        In a transacted client the publication belongs to the unit of work. Otherwise it is gone
        from its queue when this returns. Raises the reason codes of MQGET.
        """
        return self._get(self._opened.handle, ms_of_duration(wait_ms))

    def request_retained(self) -> int:
        """Request the retained publications (MQSUBRQ) and return their number.

        They are put on the queue of the subscription, from which :meth:`get` returns them. Raises
        MQRC_NO_RETAINED_MSG (2437) when there is none.
        """
        return self._connection.call(ask.RequestRetained(self._opened.number))

    def close(self, *, remove: bool = False) -> None:
        """Close the subscription.

        A durable one still collects publications, unless ``remove`` deletes it. One that is not
        durable ends. Does nothing when the client is already closed.
        """
        if not self._connection.is_open:
            return
        self._connection.call(ask.CloseSubscription(self._opened.number, remove=remove))
        if self._connection.has_open(self._opened.handle):
            self._connection.call(ask.CloseObject(self._opened.handle))


class Client:
    """One connection of one user; one thread at a time uses it, and any thread may close it.

    With ``transacted``, puts and gets belong to a unit of work. Leaving the ``with`` block commits
    it, or backs it out after an exception. Queues and topics stay open for about a second after
    their last use. Verbs raise MQError with the reason code. A get from an empty queue returns
    None.
    """

    def __init__(
        self, connection: Connection, *, transacted: bool = False, move_poison: bool = False
    ) -> None:
        """Use a connection; closing the client closes the connection.

        With ``transacted``, puts and gets belong to the unit of work until a commit or backout.
        Otherwise each takes effect at once. ``move_poison`` is that of :func:`connect`.
        """
        self._connection = connection
        self._poison = poison_moves(connection, transacted=transacted, move_poison=move_poison)
        self._objects = OpenObjects(connection)
        self._put_option = c.MQPMO_SYNCPOINT if transacted else c.MQPMO_NO_SYNCPOINT
        self._get_option = c.MQGMO_SYNCPOINT if transacted else c.MQGMO_NO_SYNCPOINT
        #: The delayed messages: list, show, cancel, reschedule and release them. Changes of a
        #: transacted client are part of its unit of work.
        self.schedule: Schedule = (
            Schedule(connection.call, in_unit=True) if transacted else Schedule(connection.call)
        )

    def put(
        self,
        queue: str,
        body: bytes,
        **keywords: Unpack[PutOptions],
    ) -> bytes:
        """Put a message and return its MsgId (24 bytes).

        Keywords, as ``Session.put`` explains them: ``time_to_live_ms``, ``delay_ms``, ``priority``,
        ``persistent``, ``msg_id``, ``correl_id``, ``report``, ``reply_to_q``, ``msg_type``,
        ``format_name``, ``properties``, ``key``, ``if_exists``. ``time_to_live_ms`` and
        ``delay_ms`` may be a timedelta, and ``delay_ms`` the moment of delivery, a datetime with a
        time zone: a past one delivers at once. The queue manager's time counts; over a network,
        delivery is later by the time of the put on its way. A part of a millisecond counts as a
        whole one.

        If not transacted, a persistent message is durable on return. Raises LostAnswer when the
        connection broke and the message may or may not be put. After any other MQError nothing is
        put: MQRC_UNKNOWN_OBJECT_NAME, MQRC_Q_FULL, MQRC_NOT_AUTHORIZED and the other reason codes
        of MQPUT.
        """
        described, more = put_options(**keywords)
        options = self._put_option | keyed(
            queue, more, key=keywords.get("key"), if_exists=keywords.get("if_exists", "refuse")
        )
        return self._put_to(to_queue(queue), body, described, options, more).msg_id

    def put_many(
        self,
        queue: str,
        bodies: Sequence[bytes],
        *,
        time_to_live_ms: Life = None,
        delay_ms: Delay = 0,
        priority: int | None = None,
        persistent: bool | None = None,
    ) -> list[bytes]:
        """Put messages in order and return their MsgIds; none waits for the one before it.

        Over a network this is much faster than single puts. If not transacted, persistent messages
        are durable on return and share disk syncs. The keywords apply to every message.
        ``time_to_live_ms`` None never expires; ``delay_ms`` is the delivery delay; both may be of
        the types that :meth:`put` takes. ``priority`` and
        ``persistent`` None are the defaults of the queue. If the queue refuses one message, the
        others are still put. An MQError is then raised with the reason code of the first refused
        message; its text says how many are put.
        """
        described = plain_descriptor(priority, persistent, c.MQRO_NONE, "", c.MQMT_DATAGRAM, "")
        life_ms, delay_or_end_ms = times_of_put(time_to_live_ms, delay_ms)
        if type(delay_or_end_ms) is Until:
            delay_or_end_ms = delay_from(self._connection.now_ms(), delay_or_end_ms)
        plain = [bytes_of(body) for body in bodies]

        def verb(handle: int) -> list[Outcome]:
            return put_all(
                self._connection,
                handle,
                plain,
                described,
                self._put_option,
                time_to_live_ms=life_ms,
                delay_ms=delay_or_end_ms,
            )

        return msg_ids_of(self._objects.use(to_queue(queue), verb))

    def get(
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
        queue. Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_NOT_AUTHORIZED and the other reason codes of
        MQGET.
        """
        verb = partial(
            self._get_by,
            wait_ms=ms_of_duration(wait_ms),
            msg_id=id_of(msg_id, "msg_id"),
            correl_id=id_of(correl_id, "correl_id"),
        )
        return self._objects.use(from_queue(queue, selector), verb)

    def get_many(self, queue: str, max_messages: int, *, wait_ms: Duration = 0) -> list[Message]:
        """Get the next messages, at most ``max_messages`` (up to 10,000), without waiting for more.

        Waits up to ``wait_ms`` for a first message only; [] when none comes. A short list does not
        mean that the queue is empty: over a network it has up to 1,000 messages or 1 MiB. If not
        transacted, one transaction gets all of them, except a first one that was waited for. Raises
        the reason codes of MQGET, and MQRC_OPTIONS_ERROR for a wrong ``max_messages``.
        """
        options = get_options(0) | self._get_option
        first_wait_ms = ms_of_duration(wait_ms)

        def verb(handle: int) -> list[Message]:
            while True:
                found = get_all(self._connection, handle, options, max_messages, first_wait_ms)
                left = found if self._poison is None else self._poison.without(handle, found)
                if left or not found:
                    return left

        return self._objects.use(from_queue(queue, None), verb)

    def browse(
        self,
        queue: str,
        *,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
        selector: str | None = None,
    ) -> Iterator[Message]:
        """Yield the messages of a queue in get order without removing them.

        ``msg_id``, ``correl_id`` and ``selector`` say which messages are wanted; None allows any.
        Each message is read when the iteration asks for it. The iteration ends at the last message
        and does not wait. Raises MQRC_UNKNOWN_OBJECT_NAME and the other reason codes of MQOPEN and
        MQGET.
        """
        ids = id_of(msg_id, "msg_id"), id_of(correl_id, "correl_id")
        handle = to_browse(queue, selector).open(self._connection)
        options = c.MQGMO_BROWSE_NEXT | get_options(0)
        try:
            while True:
                result = self._connection.get(handle, options, msg_id=ids[0], correl_id=ids[1])
                yield result.message
        except NoMessage:
            return
        finally:
            if self._connection.is_open and not self._connection.is_broken:
                self._connection.call(ask.CloseObject(handle))

    def publish(
        self,
        topic: str,
        body: bytes,
        *,
        retain: bool = False,
        warn_if_no_subscribers: bool = False,
        topic_object: str = "",
        **keywords: Unpack[MessageOptions],
    ) -> PutResult:
        """Publish to all current subscribers; keywords are those of a put except ``msg_type``.

        ``retain`` keeps the publication for later subscribers. ``topic_object`` names a topic
        object, whose topic string then comes before ``topic``. With ``warn_if_no_subscribers`` the
        ``warning`` of the result is MQRC_NO_SUBS_MATCHED when nobody is subscribed. Raises
        MQRC_TOPIC_STRING_ERROR, MQRC_NOT_AUTHORIZED and the other reason codes of MQPUT.
        """
        described, more = put_options(msg_type=c.MQMT_DATAGRAM, **keywords)
        options = self._put_option | (c.MQPMO_RETAIN if retain else 0)
        options |= c.MQPMO_WARN_IF_NO_SUBS_MATCHED if warn_if_no_subscribers else 0
        return self._put_to(to_topic(topic, topic_object), body, described, options, more)

    def subscribe(
        self, topic: str = "", **keywords: Unpack[SubscribeOptions]
    ) -> ClientSubscription:
        """Subscribe to a topic string with ``+`` and ``#`` and return the subscription.

        Keywords, as ``Session.subscribe`` explains them: ``name``, ``durable``, ``shared``,
        ``no_local``, ``queue``, ``selector``, ``time_to_live_ms``, ``correl_id``, ``retained``,
        ``topic_object``, ``on_request``. Publications go to a managed queue, or to ``queue``, from
        which the program gets them. ``shared`` joins other subscribers with the same ``name``: each
        publication goes to one of them. ``no_local`` excludes publications of this client. These
        two combine only with ``name``, ``durable`` and ``selector``, else ValueError. A
        subscription that is not durable ends with the client.
        """
        opened = subscribed(self._connection, topic, **keywords)
        return ClientSubscription(self._connection, opened, self._get_by)

    def resume(self, name: str) -> ClientSubscription:
        """Reopen a durable subscription, which has collected publications meanwhile.

        Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE, MQRC_IDENTITY_MISMATCH.
        """
        return ClientSubscription(self._connection, resumed(self._connection, name), self._get_by)

    def unsubscribe(self, name: str) -> None:
        """Remove a durable subscription and the messages on its managed queue.

        Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE, MQRC_IDENTITY_MISMATCH.
        """
        self.resume(name).close(remove=True)

    def commit(self) -> None:
        """Commit the unit of work.

        Raises LostAnswer when it may or may not be committed: MQRC_CONNECTION_BROKEN, or
        MQRC_CALL_INTERRUPTED after a reconnect. Raises MQRC_BACKED_OUT when it was backed out, and
        MQRC_BACKOUT_THRESHOLD_REACHED when it has a poison message that no queue takes: it can only
        be backed out then.
        """
        if self._poison is not None:
            self._poison.check_commit()
        self._connection.call(ask.Commit())

    def backout(self) -> None:
        """Back out the unit of work: puts vanish, gets return to their queues.

        The backout counts of those messages rise.
        """
        if self._poison is not None:
            self._poison.forget()
        self._connection.call(ask.Backout())

    def mqsc(self, script: str) -> MqscResult:
        """Close the objects that the client holds open, run MQSC commands, return their replies.

        A wrong command sets ``ok`` of the result to False. Raises MQRC_NOT_AUTHORIZED for a user
        with limited authority.
        """
        self._objects.close()
        return Administration(self._connection.call).mqsc(script)

    @property
    def admin(self) -> Administration:
        """The verbs of an operator: ``counts``, ``curdepth``, ``why``, ``verify`` and others.

        For MQSC commands use :meth:`mqsc`, which first closes the objects that the client holds
        open.
        """
        return Administration(self._connection.call)

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        return self._connection.name

    def close(self, *, commit: bool = True) -> None:
        """Disconnect: commit the unit of work, or back it out with ``commit`` False.

        A commit raises the errors of :meth:`commit`. A second call does nothing.
        """
        try:
            if commit and self._poison is not None:
                self._poison.check_commit()
        except MQError:
            self._connection.close(commit=False)
            raise
        self._connection.close(commit=commit)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit or, after an exception, back out; then disconnect."""
        self.close(commit=kind is None)

    def _get_by(
        self, handle: int, wait_ms: int, *, msg_id: bytes = b"", correl_id: bytes = b""
    ) -> Message | None:
        """Get a message from the queue of an open handle; None when none comes within ``wait_ms``.

        Poison messages are moved away and passed over, if the client moves them; the wait is for
        the first other message then.
        """
        connection, moves = self._connection, self._poison
        until_ms = connection.now_ms() + wait_ms if moves is not None and wait_ms > 0 else None
        while True:
            options = get_options(wait_ms) | self._get_option
            try:
                message = connection.get(
                    handle, options, wait_ms=wait_ms, msg_id=msg_id, correl_id=correl_id
                ).message
            except NoMessage:
                return None
            if moves is None or not moves.is_moved(handle, message):
                return message
            if until_ms is not None:
                wait_ms = max(until_ms - connection.now_ms(), 0)

    def _put_to(
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
            more["delay_ms"] = delay_from(self._connection.now_ms(), more["delay_ms"])
        verb = partial(
            self._connection.put,
            body=bytes_of(body),
            descriptor=descriptor,
            options=options,
            **more,
        )
        result = self._objects.use(opening, verb)
        # Only a put with MQPMO_ASYNC_RESPONSE ends with nothing.
        assert result is not None
        return result


#: How a connection is encrypted: True trusts whom the machine trusts, a path is a PEM file of
#: certificates that are trusted.
TlsWanted: TypeAlias = Tls | str | PathLike[str] | bool | None


def connect(
    name: str,
    *,
    user: str | None = None,
    password: str | None = None,
    tls: TlsWanted = None,
    transacted: bool = False,
    reconnect: Reconnect | None = None,
    move_poison: bool = False,
) -> Client:
    """Connect to a queue manager by its name, or by a URL (docs/CLIENTS.md).

    ``connect("QM1")`` finds it as IBM MQ does: by MQSERVER, MQCCDTURL or MQCHLLIB with MQCHLTAB,
    else on this machine. ``connect("mq://host:1414/QM1?channel=DEV.APP.SVRCONN")`` names the host;
    ``mqs://`` or ``tls`` encrypt. ``tls`` True trusts the certificates of the machine, and a path
    is a PEM file of trusted certificates. ``user`` None is the user that runs the program;
    ``password`` None sends no password. With ``transacted`` puts and gets belong to a unit of work
    until a commit or backout. ``reconnect`` YES reconnects after a loss, QUEUE_MANAGER to the same
    queue manager only; None is as the channel says. With
    ``move_poison`` gets of a transacted client pass over messages that were backed out BOTHRESH
    times: each is moved to BOQNAME of its queue, or else to the dead-letter queue, in the unit of
    work.

    Raises MQRC_Q_MGR_NAME_ERROR, MQRC_Q_MGR_NOT_AVAILABLE, MQRC_HOST_NOT_AVAILABLE,
    MQRC_UNKNOWN_CHANNEL_NAME, MQRC_CHANNEL_NOT_AVAILABLE, MQRC_NOT_AUTHORIZED,
    MQRC_SSL_INITIALIZATION_ERROR, MQRC_KEY_REPOSITORY_ERROR or MQRC_CLIENT_CONN_ERROR, and
    ValueError for ``move_poison`` without ``transacted``.
    """
    wanted = ConnectOptions(reconnect=reconnect, may_reconnect=True)
    check_move_poison(transacted=transacted, move_poison=move_poison)
    made = connected(name, wanted, user=user, password=password, tls=tls)
    return Client(made, transacted=transacted, move_poison=move_poison)


def connected(
    name: str, wanted: ConnectOptions, *, user: str | None, password: str | None, tls: TlsWanted
) -> Connection:
    """Return a connection for a new client, by the name or URL of a queue manager.

    ``wanted`` has the other wishes of the program, such as reconnection. The other parameters are
    those of :func:`connect`. Raises ValueError for ``tls`` without a URL, and the errors of
    :func:`connect`.
    """
    if is_url(name):
        endpoint = endpoint_of_url(name, _tls(tls))
        wanted, name = wanted._replace(endpoint=endpoint), endpoint.queue_manager
    elif tls:
        raise ValueError(f"tls is for a URL; {name!r} is a name, whose channel says what it uses")
    program = Path(sys.argv[0]).name or "python"
    return connection.connect(name, user, password=password, program=program, wanted=wanted)


def _tls(wanted: TlsWanted) -> Tls | None:
    """Return the Tls for a ``tls`` argument; None or False means no encryption and returns None.

    True trusts the certificates of the machine; a path is a PEM file of trusted certificates.
    """
    if isinstance(wanted, Tls):
        return wanted
    if isinstance(wanted, bool) or wanted is None:
        return Tls() if wanted else None
    return Tls(authorities=Path(wanted))
