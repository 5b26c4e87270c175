"""The arguments of client verbs as requests: puts, gets of many messages, and subscriptions.

Both clients use them, the blocking one and that for asyncio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, TypedDict, Unpack

from mayfly.client.connection import Connection
from mayfly.client.connection.interface import OnDone
from mayfly.client.open_objects import OUTDATED, from_queue
from mayfly.lifetime.times import ms_of_duration, tenths_of_ms
from mayfly.lifetime.window import check_life_ms
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import LostAnswer, MQError, NoMessage, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import (
    MAX_BYTES,
    Delay,
    Identifier,
    Life,
    check_max_messages,
    plain_descriptor,
    stored_id,
    times_of_put,
)
from mayfly.verbs.messages import Message, PutResult
from mayfly.verbs.properties.folders import properties_of_mapping
from mayfly.verbs.requests import Subscribed
from mayfly.verbs.schedule import IF_EXISTS, check_key, key_id


def id_of(identifier: Identifier | None, name: str) -> bytes:
    """Return a MsgId or CorrelId padded to 24 bytes, empty for None.

    Raises MQRC_MD_ERROR for a wrong id; its text names the argument ``name``.
    """
    return stored_id(identifier, name) if identifier else b""


class MessageOptions(TypedDict, total=False):
    """Keywords of a put and of a publication, as ``Session.put`` explains them."""

    time_to_live_ms: Life
    delay_ms: Delay
    priority: int | None
    persistent: bool | None
    msg_id: Identifier | None
    correl_id: Identifier | None
    report: int
    reply_to_q: str
    format_name: str
    properties: Mapping[str, object] | None


class PutOptions(MessageOptions, total=False):
    """Keywords of a put."""

    msg_type: int
    key: str | None
    if_exists: str


def keyed(
    queue: str, more: ask.MessageMore, *, key: str | None = None, if_exists: str = "refuse"
) -> int:
    """Set the MsgId in ``more`` for a put with a key to ``queue``; return its put options.

    Without a key nothing is set, and the options are 0. :func:`put_options` has checked the key.
    """
    if key is None:
        return 0
    more["msg_id"] = key_id(queue, key)
    return IF_EXISTS[if_exists]


def put_options(
    *,
    time_to_live_ms: Life = None,
    delay_ms: Delay = 0,
    priority: int | None = None,
    persistent: bool | None = None,
    msg_id: Identifier | None = None,
    correl_id: Identifier | None = None,
    report: int = c.MQRO_NONE,
    reply_to_q: str = "",
    msg_type: int = c.MQMT_DATAGRAM,
    format_name: str = "",
    properties: Mapping[str, object] | None = None,
    key: str | None = None,
    if_exists: str = "refuse",
) -> tuple[Descriptor, ask.MessageMore]:
    """Return the descriptor and the other fields of a message, from the keywords of a put.

    The keywords are explained at ``Client.put``; the two positions of the result are the MQMD and
    the fields that it lacks, such as ``delay_ms``, which is an ``Until`` for a datetime. The put
    takes ``key`` and ``if_exists`` by :func:`keyed`. Raises
    MQRC_MD_ERROR for a wrong id, MQRC_EXPIRY_ERROR for a wrong time to live,
    MQRC_PROPERTY_NAME_ERROR, ValueError for a datetime without a time zone, and TypeError for a
    value of a wrong type.
    """
    descriptor = plain_descriptor(priority, persistent, report, reply_to_q, msg_type, format_name)
    check_key(key, if_exists, msg_id)
    life_ms, delay_or_end_ms = times_of_put(time_to_live_ms, delay_ms)
    return descriptor, ask.MessageMore(
        msg_id=id_of(msg_id, "msg_id"),
        correl_id=id_of(correl_id, "correl_id"),
        time_to_live_ms=life_ms,
        delay_ms=delay_or_end_ms,
        properties=properties_of_mapping(properties) if properties else (),
    )


def get_options(wait_ms: int) -> int:
    """Return the MQGMO options of a get, which waits unless ``wait_ms`` is 0.

    Message properties come as an MQRFH2 before the data.
    """
    waits = c.MQGMO_WAIT if wait_ms else c.MQGMO_NO_WAIT
    return waits | c.MQGMO_PROPERTIES_FORCE_MQRFH2


#: Puts that may be under way at a time.
MAX_UNDER_WAY = 1_000
Outcome: TypeAlias = PutResult | MQError | None


def put_all(
    connection: Connection,
    handle: int,
    bodies: Sequence[bytes],
    descriptor: Descriptor,
    options: int,
    **more: Unpack[ask.MessageMore],
) -> list[Outcome]:
    """Put messages in order, wait for all, and return the outcome of each: a result or an MQError.

    ``handle`` is that of the open queue and ``options`` are MQPMO options. ``more`` has fields of
    all messages, such as ``delay_ms``. If every put fails because the object has changed since it
    was opened, the first error is raised.
    """

    def begin(body: bytes, on_done: OnDone[PutResult | None]) -> object:
        return connection.begin(ask.Put.of(handle, body, descriptor, options, **more), on_done)

    outcomes: list[Outcome] = []
    left = iter(bodies)
    while part := list(islice(left, MAX_UNDER_WAY)):
        outcomes += _put_part(connection, part, begin)
    errors = [outcome for outcome in outcomes if isinstance(outcome, MQError)]
    if errors and len(errors) == len(outcomes) and errors[0].reason in OUTDATED:
        raise errors[0]
    return outcomes


def msg_ids_of(outcomes: Sequence[Outcome]) -> list[bytes]:
    """Return the MsgIds of the outcomes when all messages are put.

    Otherwise raises the first error with its reason code. Its text says which message failed and
    how many are put. A LostAnswer is raised unchanged.
    """
    found = [outcome.msg_id for outcome in outcomes if isinstance(outcome, PutResult)]
    for number, outcome in enumerate(outcomes, 1):
        if isinstance(outcome, LostAnswer):
            raise outcome
        if isinstance(outcome, MQError):
            text = f"message {number} of {len(outcomes)} is refused, {len(found)} are put"
            raise mq_error(outcome.reason, f"{text}: {outcome.detail}") from outcome
    return found


def get_all(
    connection: Connection, handle: int, options: int, max_messages: int, wait_ms: int
) -> list[Message]:
    """Get up to ``max_messages`` messages; waits up to ``wait_ms`` for the first one only.

    ``options`` are the MQGMO options without MQGMO_WAIT. Returns [] when none comes. Raises
    MQRC_OPTIONS_ERROR for a wrong ``max_messages``, and the errors of a get, but none once a first
    message is got.
    """
    check_max_messages(max_messages)
    found = connection.call(ask.GetMany(handle, options, max_messages, MAX_BYTES))
    if found or not wait_ms:
        return found
    try:
        first = connection.get(handle, options | c.MQGMO_WAIT, wait_ms=wait_ms).message
    except NoMessage:
        return []
    if max_messages == 1:
        return [first]
    try:
        return [first, *connection.call(ask.GetMany(handle, options, max_messages - 1, MAX_BYTES))]
    except MQError:
        # The first one is got, whatever becomes of others.
        return [first]


def _put_part(
    connection: Connection,
    bodies: Sequence[bytes],
    begin: Callable[[bytes, OnDone[PutResult | None]], object],
) -> list[Outcome]:
    """Begin the puts of some messages together, wait for all, and return their outcomes.

    The outcomes have the order of ``bodies``. ``begin`` begins one put of a body; the outcome of
    that put goes to the callback that is passed to ``begin``.
    """
    outcomes: list[Outcome] = [None] * len(bodies)
    reported_count = 0
    is_done = connection.runtime.event()

    def done(place: int, outcome: Outcome) -> None:
        # Callbacks of a queue manager come one at a time.
        nonlocal reported_count
        outcomes[place] = outcome
        reported_count += 1
        if reported_count == len(bodies):
            is_done.set()

    with connection.together():
        for place, body in enumerate(bodies):
            begin(body, lambda outcome, place=place: done(place, outcome))  # type: ignore[misc]  # bound here
    is_done.wait()
    return outcomes


class SubscribeOptions(TypedDict, total=False):
    """Keywords of a subscription, as ``Session.subscribe`` explains them."""

    name: str
    durable: bool
    shared: bool
    no_local: bool
    queue: str
    selector: str
    time_to_live_ms: Life
    correl_id: Identifier | None
    retained: bool
    topic_object: str
    on_request: bool


def subscribed(
    connection: Connection,
    topic: str,
    *,
    name: str = "",
    durable: bool = False,
    shared: bool = False,
    no_local: bool = False,
    queue: str = "",
    selector: str = "",
    time_to_live_ms: Life = None,
    correl_id: Identifier | None = b"",
    retained: bool = True,
    topic_object: str = "",
    on_request: bool = False,
) -> Subscribed:
    """Make a subscription (MQSUB) and return its number, queue handle and attributes.

    ``selector`` chooses publications. They arrive on ``queue``, or on a managed queue if that is
    empty. A ``durable`` subscription needs a ``name``. It expires after ``time_to_live_ms``; None
    is never. ``correl_id`` is set in all publications; b"" takes a new id, None that of the
    publisher. With ``retained`` the matching retained publications come at once. With
    ``on_request`` publications come only on MQSUBRQ. The topic string of ``topic_object`` comes
    before ``topic``. ``shared`` and ``no_local`` are explained at ``Client.subscribe``. Raises
    MQRC_TOPIC_STRING_ERROR, MQRC_SUB_ALREADY_EXISTS, MQRC_NOT_AUTHORIZED and the other reason codes
    of MQSUB, and ValueError for options that ``shared`` or ``no_local`` exclude.
    """
    life_ms = ms_of_duration(time_to_live_ms)
    check_life_ms(life_ms)
    if shared or no_local:
        others = topic_object, queue, correl_id, on_request, life_ms, not retained
        if any(others) or correl_id is None:
            raise ValueError("shared and no_local go with name, durable and selector alone")
        return connection.call(
            ask.JoinSubscription(topic, name, durable, shared, no_local, selector)
        )
    options = c.MQSO_CREATE | (0 if queue else c.MQSO_MANAGED)
    options |= c.MQSO_DURABLE if durable else c.MQSO_NON_DURABLE
    options |= 0 if retained else c.MQSO_NEW_PUBLICATIONS_ONLY
    options |= c.MQSO_PUBLICATIONS_ON_REQUEST if on_request else 0
    life = c.MQEI_UNLIMITED if life_ms is None else tenths_of_ms(life_ms)
    handle = from_queue(queue, None).open(connection) if queue else c.MQHO_NONE
    try:
        return connection.call(
            ask.Subscribe(
                options,
                topic=topic,
                topic_object=topic_object,
                name=name,
                queue=handle,
                selector=selector,
                correl_id=None if correl_id is None else stored_id(correl_id, "correl_id"),
                expiry_tenths=life,
            )
        )
    except MQError:
        if handle:
            connection.call(ask.CloseObject(handle))
        raise


def resumed(connection: Connection, name: str) -> Subscribed:
    """Open an existing durable subscription; return its number, queue handle and attributes.

    Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE, MQRC_IDENTITY_MISMATCH.
    """
    return connection.call(
        ask.Subscribe(c.MQSO_RESUME | c.MQSO_MANAGED | c.MQSO_DURABLE, name=name)
    )
