"""``…/queues/{queue}/messages``: messages where they lie, their content, and acts on them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta, Struct

from mayfly.admin.security.roles import Role
from mayfly.engine import Engine, PutRequest, Session
from mayfly.engine.api.operating import (
    ContentFilter,
    PresentMessage,
    Receipts,
    copy_messages,
    delete_messages,
    list_messages,
    look_at,
    move_messages,
    undo_moves,
    with_properties,
)
from mayfly.lifetime.dead_letters import is_letter, read_letter
from mayfly.lifetime.times import read_duration, spelled_moment
from mayfly.lifetime.window import LATEST_DUE_MS
from mayfly.mqi import constants as c
from mayfly.mqi.code_pages import codec_name
from mayfly.mqi.constants import report_names
from mayfly.mqi.descriptor import MD_NAMES, Descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.properties import FORMAT as RFH2_FORMAT
from mayfly.mqi.reasons import cause_name, reason_text
from mayfly.mqi.structures import HeaderChain, HeaderRead, read_headers
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, Next, NoQuery, Operation
from mayfly.verbs.checks import plain_descriptor, stored_id
from mayfly.verbs.properties.folders import Parts, parts_of, properties_of_mapping

_TEXT_FORMAT: Final = "MQSTR"
_UTF_8: Final = 1208
_MAX_PLACES: Final = 1_000
_MAX_BYTES: Final = 2**20
_Moment = Annotated[int, Meta(ge=0, le=LATEST_DUE_MS, description="ms since 1970, UTC")]
_Place = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{32}$",
        title="a place of a message",
        description="``place`` of a message in a list",
    ),
]
_State = Literal["live", "staged", "uncommitted", "locked", "expired_present", "claimed"]


class MessageListing(Struct, forbid_unknown_fields=True, rename={"property_name": "property"}):
    """Query parameters of the messages of a queue; a message must match all that are given."""

    state: Annotated[_State | None, Meta(description="where they stand")] = None
    id: Annotated[
        str | None, Meta(description="their MsgId or CorrelId, 1 to 24 bytes in hexadecimal")
    ] = None
    sender: Annotated[str | None, Meta(description="their UserIdentifier")] = None
    put_from_ms: Annotated[_Moment | None, Meta(description="put at this time or later")] = None
    put_before_ms: Annotated[_Moment | None, Meta(description="put before this time")] = None
    property_name: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="the name of a message property; needs ``value`` and BROWSE"),
    ] = None
    value: Annotated[str | None, Meta(description="its value as text")] = None
    text: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="a text in the first MiB of their data; needs BROWSE"),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="the most messages of a page")] = 20
    after: Annotated[
        str,
        Meta(
            pattern="^([qsc]-?[0-9]{1,19})?$",
            title="a place in the list",
            description="``next`` of the page before",
        ),
    ] = ""


class MessageOnQueue(Struct):
    """A message on a queue, without its content; times are ms since 1970, UTC.

    ``queue`` is the queue where it lies: SYSTEM.DDELAY.LOCAL.QUEUE for a delayed one, whose queue
    is then ``target``. ``holder`` names what has locked it, ``hindrance`` what keeps gets from it.
    ``reason``, ``reason_name``, ``reason_text`` and ``meant_for`` are those of a dead letter, else
    null.
    """

    place: str
    queue: str
    state: str
    holder: str
    hindrance: str
    msg_id: str
    correl_id: str
    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    remaining_ms: int | None
    age_ms: int
    priority: int
    persistent: bool
    backout_count: int
    user_identifier: str
    program: str
    format: str
    body_bytes: int
    target: str | None
    topic: str | None
    capped_by: str | None
    reason: int | None
    reason_name: str | None
    reason_text: str | None
    meant_for: str | None


class MessagesOnQueue(Struct):
    """Messages of a queue in the order of gets, then those that are delayed for it.

    A page looks at 20,000 messages at most, and into the contents of 2,000 or 32 MiB: it may be
    short, or empty, and still have a ``next``.
    """

    queue: Annotated[str, Meta(description="the name in the path")]
    now_ms: Annotated[int, Meta(description="the time of the queue manager")]
    messages: list[MessageOnQueue]
    notes: Annotated[list[str], Meta(description="what was not searched")]
    next: Next


class ContentAsked(Struct, forbid_unknown_fields=True):
    """Query parameters of one message: how its data is read, and which part of it."""

    ccsid: Annotated[
        Annotated[int, Meta(ge=1, le=65_535)] | None,
        Meta(description="the character set of the text; that of the message unless it is given"),
    ] = None
    from_byte: Annotated[int, Meta(ge=0, le=2**31, description="the first byte of the data")] = 0
    max_bytes: Annotated[
        int, Meta(ge=0, le=_MAX_BYTES, description="the most bytes of the data")
    ] = 65_536


class DataContent(Struct):
    """Data of a message behind its headers: ``base64`` is the part from ``from_byte`` on.

    ``text`` is that part in the character set ``ccsid``, null if that is not known here;
    ``is_exact`` is false if some bytes are none of its characters. ``data_bytes`` is the length of
    all data.
    """

    data_bytes: int
    from_byte: int
    base64: str
    text: str | None
    is_exact: bool
    ccsid: int
    codec: str | None
    format: str


class MessageContent(Struct):
    """A message with its content: MQMD, headers, properties and data.

    ``damage`` says which header cannot be read, empty for none.
    """

    message: MessageOnQueue
    descriptor: list[NamedField]
    headers: list[HeaderContent]
    properties: list[PropertyContent]
    damage: str
    data: DataContent


class MessageToPut(Struct, forbid_unknown_fields=True):
    """A message to put: its data as ``text`` or ``base64``, and when it may be got.

    ``delay`` and ``lives`` are durations in words, as ``in 3 days``, ``1 h 30 min`` or ``20s``.
    """

    text: Annotated[str | None, Meta(description="data in UTF-8, Format MQSTR")] = None
    base64: Annotated[str | None, Meta(description="data as it is, in base64")] = None
    delay: Annotated[str, Meta(description="until its delivery time; empty for none")] = ""
    lives: Annotated[str, Meta(description="until it expires; empty for ever")] = ""
    properties: Annotated[dict[str, str], Meta(description="message properties, as text")] = {}
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    persistent: bool | None = None
    correl_id: Annotated[str, Meta(description="CorrelId in hexadecimal")] = ""
    reply_to_q: Annotated[str, Meta(max_length=48)] = ""
    dry_run: Annotated[bool, Meta(description="the times are told, and the message is not put")] = (
        False
    )


class PutMessage(Struct):
    """The times of a message that was put, or would be; ``msg_id`` is null for a dry run."""

    msg_id: str | None
    queue: str
    put_ms: int
    deliver_at_ms: int
    expire_at_ms: int | None
    dry_run: bool


class ToDelete(Struct, forbid_unknown_fields=True):
    """The messages that are to be deleted, and their number, which must be the same."""

    places: Annotated[list[_Place], Meta(min_length=1, max_length=_MAX_PLACES)]
    count: Annotated[int, Meta(description="how many messages are meant")]


class ToMove(Struct, forbid_unknown_fields=True):
    """The messages that are to be moved or copied, and the queue where they are to go."""

    places: Annotated[list[_Place], Meta(min_length=1, max_length=_MAX_PLACES)]
    to: Annotated[str, Meta(min_length=1, description="a queue, or ``QUEUE@MANAGER``")]


class MessageReceipts(Struct):
    """The outcomes for messages, by receipt, and the id of an undo; null where there is none.

    ``moved``, ``copied``, ``deleted`` and ``restored`` were changed. ``locked``, ``uncommitted``,
    ``delayed``, ``expired``, ``gone`` and ``replaced`` were left as they were.
    """

    receipts: dict[str, int]
    undo: str | None


def listed(call: Call[MessageListing, None]) -> MessagesOnQueue:
    """List the messages of a queue, in every state, without their contents.

    ``property`` and ``text`` search in contents: that needs BROWSE on the queue, and is audited. A
    page may be short and still have a ``next``. 404 if no such local queue exists.
    """
    asked, name = call.query, call.names["queue"]
    if (asked.property_name is None) != (asked.value is None):
        raise HttpError(HTTPStatus.BAD_REQUEST, "property and value are given together, or neither")
    where = ContentFilter(
        asked.state,
        None if asked.id is None else _id(asked.id),
        asked.sender,
        asked.put_from_ms,
        asked.put_before_ms,
        None
        if asked.property_name is None or asked.value is None
        else (asked.property_name, asked.value),
        asked.text,
    )
    engine = call.manager.engine
    with call.authenticated.connection() as connection:
        page = list_messages(engine, connection.session, name, where, asked.limit, asked.after)
    now_ms = engine.now_ms()
    messages = [_on_queue(message, now_ms) for message in page.messages]
    return MessagesOnQueue(name, now_ms, messages, page.notes, page.after)


def shown(call: Call[ContentAsked, None]) -> MessageContent:
    """Show one message with descriptor, properties, headers and data; the look is audited.

    It needs BROWSE on the queue; for a delayed message on SYSTEM.DDELAY.LOCAL.QUEUE, unless it is
    the user's own. The data of an uncommitted message is not shown. 404 if it has left.
    """
    asked, engine = call.query, call.manager.engine
    with call.authenticated.connection() as connection:
        found = look_at(
            engine, connection.session, call.names["queue"], _place(call.names["place"])
        )
    content = content_of(found.descriptor, found.row.body, found)
    chain = content.chain
    data = found.row.body[chain.data_offset :]
    part = data[asked.from_byte : asked.from_byte + asked.max_bytes]
    ccsid = asked.ccsid or chain.coded_char_set_id
    codec = codec_name(ccsid, chain.encoding)
    text, is_exact = _decoded(part, codec)
    return MessageContent(
        _on_queue(found, engine.now_ms()),
        descriptor_fields(found.descriptor),
        content.headers,
        content.properties,
        chain.damage,
        DataContent(
            len(data),
            asked.from_byte,
            base64.b64encode(part).decode(),
            text,
            is_exact,
            ccsid,
            codec,
            chain.format_name,
        ),
    )


def put(call: Call[NoQuery, MessageToPut]) -> PutMessage:
    """Put a message, with delay and lifetime in words; needs PUT on the queue.

    With ``dry_run`` it is put and backed out: the answer has its times, or why it is refused.
    """
    asked, name = call.body, call.names["queue"]
    delay_ms = _duration("delay", asked.delay) or 0
    life_ms = _duration("lives", asked.lives)
    descriptor = plain_descriptor(
        asked.priority,
        asked.persistent,
        c.MQRO_NONE,
        asked.reply_to_q,
        c.MQMT_DATAGRAM,
        "" if asked.text is None else _TEXT_FORMAT,
    )
    if asked.text is not None:
        descriptor = descriptor._replace(coded_char_set_id=_UTF_8)
    correl_id = stored_id(asked.correl_id, "correl_id") if asked.correl_id else b""
    body = _body(asked)
    with call.authenticated.connection() as connection:
        session = connection.session
        if asked.properties:
            given = properties_of_mapping(asked.properties)
            descriptor, body = with_properties(session.core, descriptor, body, given)
        request = PutRequest(descriptor, b"", correl_id, life_ms, delay_ms)
        handle = session.open(name, c.MQOO_OUTPUT)
        # A dry run is a put that is backed out: it meets all that would refuse the message.
        option = c.MQPMO_SYNCPOINT if asked.dry_run else c.MQPMO_NO_SYNCPOINT
        result = handle.put(body, request, option)
        if asked.dry_run:
            session.unit_of_work.backout()
    msg_id = None if asked.dry_run else result.msg_id.hex()
    return PutMessage(msg_id, result.queue, *result.window[:3], asked.dry_run)


def moved(call: Call[NoQuery, ToMove]) -> MessageReceipts:
    """Move messages to another queue, with their ids, context and deadlines.

    Needs the role operate, GET and BROWSE on the queue and PUT on the target. A CAPEXPRY of the
    target may shorten lives. ``undo`` is for ten minutes, null for a target elsewhere.
    """
    found = _changed(call, partial(move_messages, target=call.body.to))
    undo = None
    if found.moved:
        messages = found.moved

        def run(engine: Engine, session: Session) -> Receipts:
            return undo_moves(engine, session, messages)

        undo = call.service.undos.add(call.manager.name, _user(call), run)
    return MessageReceipts(dict(found.counts), undo)


def copied(call: Call[NoQuery, ToMove]) -> MessageReceipts:
    """Copy messages to another queue; a copy has the same MsgId and deadline, and owes no reports.

    Needs the role operate, BROWSE on the queue and PUT on the target.
    """
    return MessageReceipts(
        dict(_changed(call, partial(copy_messages, target=call.body.to)).counts), None
    )


def deleted(call: Call[NoQuery, ToDelete]) -> MessageReceipts:
    """Delete messages; their number is asked for as well, and there is no undo.

    Needs the role operate and GET on the queue. 400 if ``count`` is not the number of places.
    """
    places = len(set(call.body.places))
    if places != call.body.count:
        text = f"count is {call.body.count}, and places are {places}"
        raise HttpError(HTTPStatus.BAD_REQUEST, text)
    return MessageReceipts(dict(_changed(call, delete_messages).counts), None)


def undone(call: Call[NoQuery, None]) -> MessageReceipts:
    """Undo a move or a cancel that the user has made in the last ten minutes, once.

    404 if it can no longer be undone.
    """
    number = call.names["undo"]
    found = call.service.undos.take(number, call.manager.name, _user(call))
    if found is None:
        text = f"change {number!r} can no longer be undone: it is older than ten minutes or undone"
        raise HttpError(HTTPStatus.NOT_FOUND, text)
    engine = call.manager.engine
    with call.authenticated.connection() as connection:
        return MessageReceipts(dict(found.run(engine, connection.session).counts), None)


def _changed(
    call: Call[NoQuery, ToMove] | Call[NoQuery, ToDelete], change: Callable[..., Receipts]
) -> Receipts:
    """Run a change of the messages that a body names, with the authority of the user."""
    places = [_place(each) for each in call.body.places]
    with call.authenticated.connection() as connection:
        return change(call.manager.engine, connection.session, call.names["queue"], places)


def _id(text: str) -> bytes:
    """Return an id of 24 bytes; MQRC_MD_ERROR for a wrong text, HttpError (400) for zeros."""
    found = stored_id(text, "id")
    if not found:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"id {text!r} has no byte but zeros")
    return found


def _place(text: str) -> bytes:
    """Return a place as MsgToken; raises HttpError (404) for a text that is none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise HttpError(HTTPStatus.NOT_FOUND, f"{text!r} is no place of a message") from None


def _user(call: Call[Any, Any]) -> str:
    """Return the name of the user of a request."""
    return call.authenticated.admitted.user


def _duration(name: str, text: str) -> int | None:
    """Return a duration in words in ms, None for an empty text; HttpError (400) for another."""
    if not text.strip():
        return None
    try:
        return read_duration(text)
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"{name}: {error}") from error


def _body(asked: MessageToPut) -> bytes:
    """Return the data of a new message; HttpError (400) unless it is text or base64, not both."""
    if (asked.text is None) == (asked.base64 is None):
        raise HttpError(HTTPStatus.BAD_REQUEST, "the data is either text or base64")
    if asked.text is not None:
        return asked.text.encode()
    try:
        return base64.b64decode(asked.base64 or "", validate=True)
    except binascii.Error as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"base64: {error}") from error


def _decoded(data: bytes, codec: str | None) -> tuple[str | None, bool]:
    """Return data as text, None without a codec, and whether all of it could be read."""
    if codec is None:
        return None, False
    try:
        return data.decode(codec), True
    except UnicodeDecodeError:
        return data.decode(codec, "replace"), False


def _on_queue(found: PresentMessage, now_ms: int) -> MessageOnQueue:
    """Return a message on a queue as the API shows it, without its content."""
    row, descriptor = found.row, found.descriptor
    letter = _letter_of(descriptor, row.body)
    return MessageOnQueue(
        place=found.place.hex(),
        queue=found.queue,
        state=found.state,
        holder=found.holder,
        hindrance=found.hindrance,
        msg_id=row.msg_id.hex(),
        correl_id=(row.correl_id or bytes(24)).hex(),
        put_ms=row.put_ms,
        deliver_at_ms=row.put_ms if row.deliver_at_ms is None else row.deliver_at_ms,
        expire_at_ms=row.expire_at_ms,
        remaining_ms=None if row.expire_at_ms is None else max(row.expire_at_ms - now_ms, 0),
        age_ms=max(now_ms - row.put_ms, 0),
        priority=descriptor.priority,
        persistent=bool(found.persistence),
        backout_count=row.backout_count,
        user_identifier=descriptor.user_identifier.strip(),
        program=descriptor.put_appl_name.strip(),
        format=descriptor.format.strip(),
        body_bytes=found.body_bytes,
        target=row.target,
        topic=row.topic,
        capped_by=row.capped_by,
        **letter,
    )


def _letter_of(descriptor: Descriptor, body: bytes) -> dict[str, Any]:
    """Return reason and queue of a dead letter by the names of the fields; None for others."""
    none = dict.fromkeys(("reason", "reason_name", "reason_text", "meant_for"))
    if not is_letter(descriptor):
        return none
    try:
        header = read_letter(descriptor, body).header
    except MQError:
        return none
    reason = header["Reason"]
    assert isinstance(reason, int)
    return {
        "reason": reason,
        "reason_name": cause_name(reason),
        "reason_text": reason_text(reason),
        "meant_for": str(header["DestQName"]).strip(),
    }


_PATH: Final = f"{OF_MANAGER}/queues/{{queue}}/messages"
_NO_QUEUE: Final = {HTTPStatus.NOT_FOUND: "no local queue has this name"}
_LEFT: Final = {HTTPStatus.NOT_FOUND: "there is no such queue, or the message has left it"}
_OVER: Final = {HTTPStatus.NOT_FOUND: "it is undone already, or ten minutes are over"}
OPERATIONS: Final = (
    Operation("GET", _PATH, listed, Role.LOOK, problems=_NO_QUEUE),
    Operation("POST", _PATH, put, Role.LOOK, problems=_NO_QUEUE),
    Operation("GET", f"{_PATH}/{{place}}", shown, Role.LOOK, problems=_LEFT),
    Operation("POST", f"{_PATH}/move", moved, Role.OPERATE, problems=_NO_QUEUE),
    Operation("POST", f"{_PATH}/copy", copied, Role.OPERATE, problems=_NO_QUEUE),
    Operation("POST", f"{_PATH}/delete", deleted, Role.OPERATE, problems=_NO_QUEUE),
    Operation("POST", f"{OF_MANAGER}/undo/{{undo}}", undone, Role.OPERATE, problems=_OVER),
)


# The content of a message for operators: MQMD, headers and properties, values with their words


_RFH2: Final = "MQRFH2"
#: Fields whose numbers have names in MQI, by the beginning of these names.
_NAMED: Final = {
    "MsgType": "MQMT_",
    "Persistence": "MQPER_",
    "PutApplType": "MQAT_",
}


class NamedField(Struct):
    """A field of an MQ structure: its value as text, and what that means; null if it is plain.

    Bytes are hexadecimal; padding is left out.
    """

    name: str
    value: str
    meaning: str | None = None


class HeaderContent(Struct):
    """A header before the data: the name of its structure, its place, length and fields.

    ``sentence`` says in words what the header tells, empty for nothing. ``folders`` are the XML
    texts of an MQRFH2.
    """

    name: str
    offset: int
    length_bytes: int
    sentence: str
    fields: list[NamedField]
    folders: list[str]


class PropertyContent(Struct):
    """A message property: its name, its type as in an MQRFH2 (``string``, ``i4`` …), its value."""

    name: str
    type: str
    value: str | None


class ContentParts(NamedTuple):
    """Headers and properties of a message, and the chain by which its data is found."""

    chain: HeaderChain
    headers: list[HeaderContent]
    properties: list[PropertyContent]


def content_of(descriptor: Descriptor, body: bytes, found: PresentMessage) -> ContentParts:
    """Return headers and properties of a message; damaged ones end the chain.

    A delayed message is stored without its delay header, which comes from ``found`` then.
    """
    chain = read_headers(descriptor.format, descriptor.encoding, descriptor.coded_char_set_id, body)
    headers, properties = list[HeaderContent](), list[PropertyContent]()
    if found.row.target is not None:
        headers.append(_delay_header(found))
    for header in chain.headers:
        folders = list[str]()
        if header.name == _RFH2:
            parts = _parts(header, body)
            if parts is not None:
                folders = parts.others
                properties += [
                    PropertyContent(each.name, each.typed.dt, _text_of(each.typed.value))
                    for each in parts.properties
                ]
        headers.append(
            HeaderContent(
                header.name,
                header.offset,
                header.length_bytes,
                _sentence(header),
                list(_fields(header.fields)),
                folders,
            )
        )
    return ContentParts(chain, headers, properties)


def descriptor_fields(descriptor: Descriptor) -> list[NamedField]:
    """Return the fields of an MQMD under their MQI names, with words for numbers."""
    return list(_fields({name: getattr(descriptor, own) for name, own in MD_NAMES.items()}))


def _parts(header: HeaderRead, body: bytes) -> Parts | None:
    """Return folders and properties of one MQRFH2; None if they cannot be read."""
    announced = Descriptor(
        format=RFH2_FORMAT,
        encoding=header.encoding,
        coded_char_set_id=header.coded_char_set_id,
    )
    end = header.offset + header.length_bytes
    try:
        return parts_of(announced, body[header.offset : end])
    except MQError:
        return None


def _delay_header(found: PresentMessage) -> HeaderContent:
    """Return what the delay header of a delayed message says; the queue shows it to programs."""
    row = found.row
    due_ms = row.put_ms if row.deliver_at_ms is None else row.deliver_at_ms
    fields = [
        NamedField("TargetQName", row.target or ""),
        NamedField("DueTime", str(due_ms), f"{spelled_moment(due_ms)} UTC"),
        NamedField("OriginalMsgId", row.msg_id.hex()),
        NamedField("OriginalCorrelId", (row.correl_id or bytes(24)).hex()),
    ]
    sentence = f"It waits for {spelled_moment(due_ms)} UTC, and then goes to {row.target}."
    return HeaderContent("DDH", 0, 0, sentence, fields, [])


def _sentence(header: HeaderRead) -> str:
    """Return in words what a header says: why a letter is dead, where a message goes."""
    fields = {name: str(value).strip() for name, value in header.fields.items()}
    if header.name == "MQDLH":
        reason = header.fields["Reason"]
        assert isinstance(reason, int)
        place = f"{fields['DestQName']}@{fields['DestQMgrName']}".rstrip("@")
        return (
            f"It could not be put on {place}: {cause_name(reason)} ({reason}). "
            f"{reason_text(reason)} It was put here by {fields['PutApplName']}."
        )
    if header.name == "MQXQH":
        place = f"{fields['RemoteQName']}@{fields['RemoteQMgrName']}"
        return f"It is on its way to {place}."
    if header.name == "DDH":
        place = f"{fields['TargetQName']}@{fields['TargetQMgrName']}".rstrip("@")
        return f"It waits for its delivery time, and then goes to {place}."
    return ""


def _fields(fields: Mapping[str, object]) -> Iterator[NamedField]:
    """Yield fields with their values as text, and what numbers mean."""
    encoding = fields.get("Encoding")
    for name, value in fields.items():
        yield NamedField(name, _text_of(value) or "", _meaning(name, value, encoding))


def _text_of(value: object) -> str | None:
    """Return a value as text: bytes in hexadecimal, texts without padding; None stays None."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).rstrip(" \0")


def _meaning(name: str, value: object, encoding: object) -> str | None:
    """Return what a number in a field means, in words or as its MQI name; None if it is plain."""
    own = name.rpartition(".")[2]
    if not isinstance(value, int):
        return None
    if own == "Report":
        return ", ".join(report_names(value)) or "none"
    if own in ("Reason", "Feedback"):
        return cause_name(value) if value else "none"
    if own == "Encoding":
        return "big-endian" if is_big_endian(value) else "little-endian"
    if own == "Expiry":
        return "never" if value == c.MQEI_UNLIMITED else f"{value / 10:g} s"
    if own == "CodedCharSetId":
        return codec_name(value, encoding if isinstance(encoding, int) else c.MQENC_NATIVE)
    prefix = _NAMED.get(own)
    return None if prefix is None else _names(prefix).get(value)


@cache
def _names(prefix: str) -> Mapping[int, str]:
    """Return the names of the MQI constants that begin with a prefix, by value."""
    found: Iterable[tuple[str, object]] = vars(c).items()
    names = [(name, value) for name, value in found if name.startswith(prefix)]
    bounds = ("_FIRST", "_LAST", "_DEFAULT")
    return {
        value: name
        for name, value in reversed(names)
        if isinstance(value, int) and not name.endswith(bounds)
    }
