"""The rows of the wire: the order in which fields of messages, results and other values travel.

A row is the form of a named tuple in a frame. It is no stored row: each may change without the
other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mayfly.contracts.columns import Kind as ColumnKind
from mayfly.contracts.ledger import COLUMNS as LEDGER_COLUMNS
from mayfly.contracts.wire_fields import (
    Kind,
    Row,
    WrongFrame,
    WrongValue,
    flag,
    identifier,
    long_text,
    many,
    maybe,
    packed,
    raw,
    scalar,
    text,
    unpacked,
    whole,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error

_DESCRIPTOR_BYTES: Final = 4_096
#: The 13 numbers, nine texts and two tokens of a descriptor.
_DESCRIPTOR = Row(
    "descriptor",
    **{
        name: whole if number < 13 else text if number < 22 else raw
        for number, name in enumerate(Descriptor._fields)
    },
)


@lru_cache(maxsize=1_024)
def packed_descriptor(descriptor: Descriptor) -> bytes:
    """Return a descriptor as it travels: a msgpack array of its own; most messages share one.

    Raises MQRC_MD_ERROR for one that cannot travel.
    """
    try:
        return packed(descriptor)
    except (ValueError, TypeError) as error:
        raise mq_error(rc.MQRC_MD_ERROR, f"the descriptor: {error}") from None


@lru_cache(maxsize=1_024)
def _descriptor_of(data: bytes) -> Descriptor:
    return Descriptor._make(_DESCRIPTOR.of(unpacked(data)))


def descriptor(value: object) -> Descriptor:
    """A descriptor that travelled as :func:`packed_descriptor`."""
    if type(value) is not bytes or len(value) > _DESCRIPTOR_BYTES:
        raise WrongValue(f"a descriptor is made of at most {_DESCRIPTOR_BYTES} bytes")
    try:
        return _descriptor_of(value)
    except WrongFrame as wrong:
        raise WrongValue(str(wrong)) from None


#: Pairs of names and values in the CONNECT of a client and in its answer. The other fields of both
#: are the same in all versions. New abilities of a client or a server are announced by ``more``.
_MORE = many(Row("more", name=text, value=scalar))
CONNECT: Final = Row(
    "connect",
    channel=text,
    queue_manager=text,
    user=text,
    password=text,
    application=text,
    heartbeat_ms=whole,
    more=_MORE,
)
CONNECTED: Final = Row(
    "connected",
    queue_manager=text,
    number=whole,
    user=text,
    heartbeat_ms=whole,
    share_conversations=whole,
    max_message_bytes=whole,
    more=_MORE,
)
MESSAGE: Final = Row(
    "message",
    queue=text,
    seen_ms=whole,
    position=whole,
    put_ms=whole,
    deliver_at_ms=maybe(whole),
    expire_at_ms=maybe(whole),
    backout_count=whole,
    msg_id=identifier,
    correl_id=identifier,
    descriptor=descriptor,
    topic=maybe(text),
    body=raw,
)
PROPERTY: Final = Row(
    "property",
    name=text,
    dt=text,
    value=scalar,
    support=whole,
    context=whole,
    copy_options=whole,
)
FAILURE: Final = Row("failure", error_class=text, reason=whole, detail=long_text)
HANDED: Final = Row("handed", properties=many(PROPERTY), original=MESSAGE)
GET_RESULT: Final = Row(
    "result",
    message=MESSAGE,
    warning=whole,
    data_length=whole,
    handed=maybe(HANDED),
    failure=maybe(FAILURE),
)
#: Request and answer of a get of many messages that are there.
GET_MANY: Final = (
    Row("get_many", handle=whole, options=whole, most=whole, most_bytes=whole),
    many(MESSAGE),
)
DELIVERY: Final = Row("delivery", number=whole, result=GET_RESULT, handle=whole)
WINDOW: Final = Row("window", put_ms=whole, deliver_at_ms=whole, expire_at_ms=maybe(whole))
PUT_RESULT: Final = Row(
    "result",
    msg_id=identifier,
    correl_id=identifier,
    descriptor=descriptor,
    window=WINDOW,
    warning=whole,
    queue=text,
    manager=text,
)
#: One of several puts, without the fields that are the same for all of them.
PUT_MESSAGE: Final = Row(
    "put",
    body=raw,
    msg_id=identifier,
    correl_id=identifier,
    expiry_tenths=whole,
    time_to_live_ms=maybe(whole),
    delay_ms=whole,
    properties=many(PROPERTY),
)
_FAILED_PUT = Row("failed", place=whole, failure=FAILURE)
#: The results of several puts in their order, none with MQPMO_ASYNC_RESPONSE, and which of them
#: failed.
PUTS_RESULT: Final = Row("puts", results=many(maybe(PUT_RESULT)), failed=many(_FAILED_PUT))
OPENED: Final = Row(
    "opened",
    handle=whole,
    kind=whole,
    queue=text,
    manager=text,
    made=text,
    topic=text,
    definition_type=whole,
)
STATUS: Final = Row(
    "status",
    comp=whole,
    reason=whole,
    success_count=whole,
    warning_count=whole,
    failure_count=whole,
    object_type=whole,
    object_name=text,
    queue=text,
    manager=text,
)
BACKOUT_RULE: Final = Row("backout_rule", threshold=whole, queue_name=text)
INQUIRY: Final = Row("inquiry", values=many(scalar), warning=whole)
FACTS: Final = Row(
    "facts",
    name=text,
    topic=text,
    queue=text,
    is_durable=flag,
    is_managed=flag,
    user_is_fixed=flag,
    on_request=flag,
    correl_id=identifier,
    expiry_tenths=whole,
    priority=whole,
    user_data=text,
    selector=text,
)
SUBSCRIBED: Final = Row("subscribed", number=whole, handle=whole, facts=FACTS)

#: A queue that the get with the number ``request`` cannot get from.
REFUSAL: Final = Row("refusal", request=whole, handle=whole, failure=FAILURE)

_PAIR = Row("pair", name=text, value=text)
FILTER: Final = Row(
    "where",
    queue=maybe(text),
    sender=maybe(text),
    properties=many(_PAIR),
    due_from_ms=maybe(whole),
    due_before_ms=maybe(whole),
)
SCHEDULED: Final = Row(
    "scheduled",
    position=whole,
    msg_id=identifier,
    correl_id=identifier,
    target=text,
    put_ms=whole,
    deliver_at_ms=whole,
    expire_at_ms=maybe(whole),
    priority=whole,
    persistent=flag,
    body_bytes=whole,
    user_identifier=text,
)
RECEIPT: Final = Row("receipt", receipt=text, message_count=whole)
AUDIT_ENTRY: Final = Row(
    "audit",
    at_ms=whole,
    user=text,
    action=text,
    msg_id=identifier,
    detail=long_text,
    receipt=text,
    message_count=whole,
)
COUNTS: Final = Row(
    "counts", staged=whole, live=whole, uncommitted=whole, locked=whole, expired_present=whole
)
VERIFICATION: Final = Row(
    "verification", ok=flag, problems=many(long_text), queues=whole, messages=whole
)
STEP: Final = Row(
    "step",
    at_ms=whole,
    what=text,
    queue=text,
    text=long_text,
    queue_manager=text,
    user=text,
    program=text,
)
STAY: Final = Row(
    "stay",
    relation=text,
    state=text,
    queue=text,
    msg_id=identifier,
    correl_id=identifier,
    put_ms=whole,
    deliver_at_ms=whole,
    expire_at_ms=maybe(whole),
    ended_ms=maybe(whole),
    reason=whole,
    target=text,
    holder=text,
    hindrance=text,
    persistent=flag,
    body_bytes=whole,
    report=whole,
    reply_to_q=text,
    backout_count=whole,
    user_identifier=text,
    program=text,
    topic=text,
    queue_manager=text,
    capped_by=text,
    met_by=text,
    ended_by=text,
    ended_program=text,
)
WHEREABOUTS: Final = Row(
    "whereabouts",
    asked_id=identifier,
    at_ms=whole,
    sentence=long_text,
    steps=many(STEP),
    stays=many(STAY),
    is_cut=flag,
    ledger_position=maybe(whole),
    ledger_ms=maybe(whole),
    queue_manager=text,
    notes=many(long_text),
)
#: Question and answer: the stories of messages with a property.
STORIES: Final = (
    Row(
        "stories", name=text, value=text, from_ms=maybe(whole), before_ms=maybe(whole), limit=whole
    ),
    Row("stories_found", stories=many(WHEREABOUTS), is_cut=flag, notes=many(long_text)),
)
OWN_TIME: Final = Row(
    "own_time",
    own_ms=whole,
    wall_ms=whole,
    step_count=whole,
    expiring_count=whole,
    due_count=whole,
    expired_count=whole,
    put_ahead_count=whole,
    waiting_count=whole,
)
_KINDS: Final[dict[ColumnKind, Kind]] = {
    ColumnKind.TEXT: text,
    ColumnKind.BYTES: raw,
    ColumnKind.INT8: whole,
    ColumnKind.INT32: whole,
    ColumnKind.INT64: whole,
    # As it is stored.
    ColumnKind.COUNTS: text,
}
#: The columns of the ledger itself; the columns before them name its queue manager.
LEDGER_ROW: Final = Row(
    "ledger_row",
    **{
        column.name: maybe(_KINDS[column.kind]) if column.is_nullable else _KINDS[column.kind]
        for column in LEDGER_COLUMNS[2:]
    },
)
CONSUMER: Final = Row(
    "consumer",
    consumer=text,
    queue=text,
    epoch=whole,
    closed=whole,
    last=whole,
    message_count=whole,
    oldest_claimed_ms=maybe(whole),
)
REPLY: Final = Row(
    "reply", code=text, text=long_text, body=long_text, reason=whole, line=whole, column=whole
)
_VALUE = Row("value", keyword=text, value=scalar)
COMMAND: Final = Row(
    "command",
    number=whole,
    command=long_text,
    messages=many(REPLY),
    rows=many(many(_VALUE)),
)
MQSC_RESULT: Final = Row("mqsc", text=long_text, commands=many(COMMAND))
