"""Verbs on pymqi's structures, MQOPEN, MQPUT, MQGET and MQSUB: they check and update these.

In this order: OD and MQOPEN, with common arguments; conversion between the MD and the queue
manager's descriptor; MQPUT and MQGET; SD and MQSUB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, TypedDict, TypeVar

from mayfly.client.connection import Connection
from mayfly.lifetime.times import put_date, put_time
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi import structures
from mayfly.mqi.code_pages import MANAGER_CCSID
from mayfly.mqi.descriptor import MD_NAMES, Descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import is_big_endian
from mayfly.pymqi.converting import Coding, converted
from mayfly.pymqi.errors import mqmi_error, raises_mqmi, warning
from mayfly.pymqi.message_handle import handle_of_get, note_put, properties_of_put
from mayfly.pymqi.structures import (
    GMO,
    MD,
    OD,
    PMO,
    SD,
    Fields,
    check_structure,
    return_string,
    string_in,
)
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import stored_id
from mayfly.verbs.facts import SubscriptionFacts
from mayfly.verbs.messages import GetResult, token_of
from mayfly.verbs.requests import Opened, Subscribed

_Options = TypeVar("_Options")
_SELECTING = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE | c.MQOO_BROWSE
#: Objects that are neither queue nor topic.
DEFINITIONS = (c.MQOT_PROCESS, c.MQOT_Q_MGR)
_OD_VERSIONS = (c.MQOD_VERSION_1, c.MQOD_VERSION_2, c.MQOD_VERSION_3, c.MQOD_VERSION_4)


@raises_mqmi
def open_object(connection: Connection, od: OD, options: int) -> Opened:
    """Open an object (MQOPEN), set the resolved names in the OD, and return what was opened.

    The OD gets the name of a new dynamic queue, and from version 3 on the resolved queue. Raises
    MQMIError with MQRC_OD_ERROR, MQRC_RECS_PRESENT_ERROR, MQRC_OBJECT_TYPE_ERROR,
    MQRC_SELECTOR_INVALID_FOR_TYPE and the reason codes of ``requests.Open``.
    """
    fields = vars(od)
    opened = connection.call(_open_request(fields, options))
    if opened.kind in (c.MQOT_Q, c.MQOT_TOPIC):
        _fill_in_od(fields, opened, connection.name)
    return opened


def _fill_in_od(fields: Fields, opened: Opened, manager_name: str) -> None:
    """Set the fields of an OD that describe the opened object, as far as its version has them.

    ``manager_name`` is the connected queue manager.
    """
    version, is_queue = fields["Version"], opened.kind == c.MQOT_Q
    if opened.made:
        fields["ObjectName"] = padded_name(opened.made)
        fields["ObjectQMgrName"] = padded_name(manager_name)
    if version >= c.MQOD_VERSION_2:
        is_here = opened.manager == manager_name
        fields["KnownDestCount"] = int(is_queue and is_here)
        fields["UnknownDestCount"] = int(is_queue and not is_here)
        fields["InvalidDestCount"] = 0
    if version >= c.MQOD_VERSION_3:
        resolved = (opened.queue, opened.manager) if is_queue else ("", manager_name)
        fields["ResolvedQName"], fields["ResolvedQMgrName"] = map(padded_name, resolved)
    if version >= c.MQOD_VERSION_4:
        fields["ResolvedType"] = opened.kind
        if not is_queue:
            return_string(fields, "ResObjectString", opened.topic)


def od_of(queue: str | bytes | OD) -> OD:
    """Return the OD for a queue name or an OD; raises TypeError for any other value."""
    if isinstance(queue, OD):
        return queue
    if isinstance(queue, (str, bytes)):
        return OD(ObjectName=queue)
    raise TypeError(f"a queue is a name or an OD, not {type(queue).__name__}")


def body_and_options(
    msg: str | bytes, opts: tuple[Any, ...], encoding: str, ccsid: int
) -> tuple[bytes, MD, PMO]:
    """Return body, MD and PMO of a put; ``opts`` are MD and PMO, missing ones are new.

    A ``str`` is encoded in ``encoding``; Format MQSTR and ``ccsid`` are set in the MD. Raises
    TypeError for another body or other options.
    """
    md, pmo = md_and(PMO, opts)
    if isinstance(msg, str):
        md.CodedCharSetId = ccsid
        md.Format = c.MQFMT_STRING
        return msg.encode(encoding), md, pmo
    if not isinstance(msg, bytes):
        raise TypeError(f"a message is bytes or str, not {type(msg).__name__}")
    return msg, md, pmo


def md_and(kind: type[_Options], opts: tuple[Any, ...]) -> tuple[MD, _Options]:
    """Return the MD and the options structure, a GMO or PMO, that are arguments of a verb.

    None or a missing argument becomes a new structure. Raises TypeError for more than two arguments
    or another class.
    """
    if len(opts) > 2:
        raise TypeError(f"MD and {kind.__name__}, not {len(opts)} arguments")
    md = opts[0] if opts else None
    options = opts[1] if len(opts) == 2 else None
    md = MD() if md is None else md
    options = kind() if options is None else options
    if not isinstance(md, MD):
        raise TypeError(f"MD expected, not {type(md).__name__}")
    if not isinstance(options, kind):
        raise TypeError(f"{kind.__name__} expected, not {type(options).__name__}")
    return md, options


def text_of(value: str | bytes) -> str:
    """Return a str, or bytes as Latin-1, up to its first NUL and without trailing blanks."""
    text = value if isinstance(value, str) else value.decode("latin-1")
    return text.partition("\0")[0].rstrip(" ")


def padded_attribute(attribute: int, value: int | str) -> int | bytes:
    """Return the value of an attribute as MQINQ does: a number, or text padded with blanks."""
    # A program of another process that does not inquire loads no engine: half of its start.
    from mayfly.engine import text_length

    return value if isinstance(value, int) else value.encode().ljust(text_length(attribute))


def _open_request(fields: Fields, options: int) -> ask.Open:
    """Return the open request for the fields of an OD and MQOO options.

    Raises MQRC_OD_ERROR, MQRC_RECS_PRESENT_ERROR, MQRC_OBJECT_TYPE_ERROR, MQRC_TOPIC_STRING_ERROR,
    MQRC_SELECTION_STRING_ERROR, MQRC_SELECTOR_INVALID_FOR_TYPE.
    """
    _check_od(fields)
    version, kind = fields["Version"], fields["ObjectType"]
    if kind not in (c.MQOT_Q, c.MQOT_TOPIC, *DEFINITIONS):
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {kind} is no queue and no topic")
    if kind == c.MQOT_TOPIC and version < c.MQOD_VERSION_4:
        raise mq_error(rc.MQRC_OD_ERROR, f"Version {version}: a topic needs version 4 of MQOD")
    topic = ""
    if kind == c.MQOT_TOPIC:
        topic = string_in(fields, "ObjectString", rc.MQRC_TOPIC_STRING_ERROR)
    return ask.Open(
        text_of(fields["ObjectName"]),
        options,
        kind=kind,
        manager=text_of(fields["ObjectQMgrName"]),
        topic=topic,
        dynamic_name=text_of(fields["DynamicQName"]),
        selector=None if kind in DEFINITIONS else _selector_in(fields, options),
        alternate_user=text_of(fields["AlternateUserId"]),
    )


def _check_od(fields: Fields) -> None:
    """Raise MQRC_OD_ERROR for a wrong OD, MQRC_RECS_PRESENT_ERROR for a distribution list."""
    check_structure(fields, c.MQOD_STRUC_ID, _OD_VERSIONS, rc.MQRC_OD_ERROR)
    if fields["Version"] >= c.MQOD_VERSION_2 and fields["RecsPresent"]:
        text = f"RecsPresent {fields['RecsPresent']}: distribution lists are not supported"
        raise mq_error(rc.MQRC_RECS_PRESENT_ERROR, text)


def _selector_in(fields: Fields, options: int) -> str | None:
    """Return the SelectionString of an OD, None without one or below version 4.

    Raises MQRC_SELECTOR_INVALID_FOR_TYPE for anything but a queue opened for input or browse.
    """
    if fields["Version"] < c.MQOD_VERSION_4:
        return None
    selector = string_in(fields, "SelectionString", rc.MQRC_SELECTION_STRING_ERROR)
    if selector and (fields["ObjectType"] != c.MQOT_Q or not options & _SELECTING):
        text = f"SelectionString {selector!r} with open options {options:#x}"
        raise mq_error(rc.MQRC_SELECTOR_INVALID_FOR_TYPE, text)
    return selector or None


_MD_VERSIONS = (c.MQMD_VERSION_1, c.MQMD_VERSION_2)
_VERSION_2_FIELDS = ("GroupId", "MsgSeqNumber", "Offset", "MsgFlags", "OriginalLength")
#: The fields that say what the data are, and those that the queue manager fills in for a putter.
_OF_DATA = ("Report", "MsgType", "Feedback", "Encoding", "CodedCharSetId")
_RESOLVED = (
    "Format",
    "Priority",
    "Persistence",
    "ReplyToQ",
    "ReplyToQMgr",
    "UserIdentifier",
    "AccountingToken",
    "ApplIdentityData",
    "PutApplType",
    "PutApplName",
    "ApplOriginData",
)
_VERSION_1_FIELDS = (*_OF_DATA, *_RESOLVED)
_TEXTS = frozenset(field.name for field in structures.MD.fields if field.kind == "char")
#: The fields that a put reads, beside ids, Expiry, and date and time of an origin context.
_READ_BY_PUT = ("StrucId", "Version", *_VERSION_1_FIELDS, *_VERSION_2_FIELDS)
_read_by_put: Callable[[Fields], tuple[Any, ...]] = itemgetter(*_READ_BY_PUT)


def descriptor_of(fields: Fields, context_option: int) -> Descriptor:
    """Return the descriptor for the MD fields of a put.

    ``context_option`` MQPMO_SET_ALL_CONTEXT also takes PutDate and PutTime from the MD. Raises
    MQRC_MD_ERROR for a wrong StrucId or Version.
    """
    descriptor = _descriptor(_read_by_put(fields))
    if context_option != c.MQPMO_SET_ALL_CONTEXT:
        return descriptor
    # Blank, not empty: empty is the moment of the put.
    return descriptor._replace(
        put_date=_unpadded(fields["PutDate"]) or " ", put_time=_unpadded(fields["PutTime"]) or " "
    )


@lru_cache(maxsize=4096)
def fields_of(descriptor: Descriptor, version: int) -> Fields:
    """Return the MD fields that a get returns in an MQMD of this version, padded.

    The result is shared: the caller must not change it.
    """
    later = _VERSION_2_FIELDS if version >= c.MQMD_VERSION_2 else ()
    fields = _fields(descriptor, (*_VERSION_1_FIELDS, *later))
    if fields["CodedCharSetId"] == c.MQCCSI_Q_MGR:
        fields["CodedCharSetId"] = MANAGER_CCSID
    return fields


@lru_cache(maxsize=4096)
def put_fields_of(descriptor: Descriptor, version: int) -> Fields:
    """Return the MD fields that a put returns in an MQMD of this version, padded.

    MsgFlags are not among them: they stay those of the program. The result is shared: the caller
    must not change it.
    """
    later = ("GroupId", "MsgSeqNumber", "Offset") if version >= c.MQMD_VERSION_2 else ()
    return _fields(descriptor, (*_RESOLVED, *later))


def _fields(descriptor: Descriptor, names: Iterable[str]) -> Fields:
    """Return the named MD fields of a descriptor, padded to their length."""
    return {name: _padded(name, getattr(descriptor, MD_NAMES[name])) for name in names}


def put_moment(descriptor: Descriptor, put_ms: int) -> tuple[bytes, bytes]:
    """Return PutDate and PutTime as MD fields: those that the program set, else of the put.

    ``put_ms`` is the time of the put, ms since 1970.
    """
    if descriptor.put_date or descriptor.put_time:
        return _padded("PutDate", descriptor.put_date), _padded("PutTime", descriptor.put_time)
    return _moment(put_ms)


@lru_cache(maxsize=1024)
def _moment(put_ms: int) -> tuple[bytes, bytes]:
    """Return PutDate and PutTime, UTC, of a time in ms since 1970."""
    return put_date(put_ms).encode(), put_time(put_ms).encode()


@lru_cache(maxsize=4096)
def _descriptor(values: tuple[Any, ...]) -> Descriptor:
    """Return the descriptor for the values of the _READ_BY_PUT fields of an MD.

    Raises MQRC_MD_ERROR for a wrong StrucId or Version. The result is cached.
    """
    fields = dict(zip(_READ_BY_PUT, values, strict=True))
    check_structure(fields, c.MQMD_STRUC_ID, _MD_VERSIONS, rc.MQRC_MD_ERROR)
    later = _VERSION_2_FIELDS if fields["Version"] >= c.MQMD_VERSION_2 else ()
    named: dict[str, Any] = {
        MD_NAMES[name]: _unpadded(fields[name]) if name in _TEXTS else fields[name]
        for name in (*_VERSION_1_FIELDS, *later)
    }
    return Descriptor(version=fields["Version"], **named)


def _unpadded(raw: Any) -> str:
    """Return a character field up to its first NUL, without trailing blanks.

    Bytes that are not UTF-8 are decoded as Latin-1.
    """
    text: bytes = raw.partition(b"\0")[0].rstrip(b" ")
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _padded(name: str, value: Any) -> Any:
    """Return a value as MD field: text padded with blanks, bytes with NUL, a number unchanged.

    Text that is too long is cut.
    """
    if isinstance(value, int):
        return value
    length = MD.members[name].length
    if isinstance(value, bytes):
        return value.ljust(length, b"\0")
    raw = value.encode()
    # Text that fits its field as Latin-1 only was read from it as Latin-1.
    fitting = raw if len(raw) <= length else value.encode("latin-1", "replace")
    return fitting[:length].ljust(length)


#: The Format of data that begin with an MQMDE.
EXTENSION_FORMAT: Final = "MQHMDE"
_PLAIN: Final = Descriptor()


def with_extension_applied(requested: Descriptor, body: bytes) -> tuple[Descriptor, bytes]:
    """Return descriptor and data of a put after moving an MQMDE into the descriptor.

    Data without an MQMDE at their start are returned unchanged. So are those with a big-endian
    MQMDE, and those after a version 2 MQMD that sets groups or segments. Raises MQRC_MDE_ERROR for
    a damaged MQMDE.
    """
    if (
        requested.format != EXTENSION_FORMAT
        or is_big_endian(requested.encoding)
        or _is_extended(requested)
    ):
        return requested, body
    extension = structures.MDE.unpack(body)
    fields: dict[str, Any] = {MD_NAMES[k]: v for k, v in extension.items() if k in MD_NAMES}
    return requested._replace(version=c.MQMD_VERSION_2, **fields), body[structures.MDE.length(2) :]


def _is_extended(requested: Descriptor) -> bool:
    """Return True if a descriptor sets any field of a version 2 MQMD, for groups and segments."""
    return requested != requested._replace(
        group_id=requested.group_id if not requested.group_id.strip(b"\0") else b"",
        msg_seq_number=_PLAIN.msg_seq_number,
        offset=_PLAIN.offset,
        msg_flags=_PLAIN.msg_flags,
        original_length=_PLAIN.original_length,
    )


_GMO_VERSIONS = (c.MQGMO_VERSION_1, c.MQGMO_VERSION_2, c.MQGMO_VERSION_3, c.MQGMO_VERSION_4)
_PMO_VERSIONS = (c.MQPMO_VERSION_1, c.MQPMO_VERSION_2, c.MQPMO_VERSION_3)
_MATCH_IDS = c.MQMO_MATCH_MSG_ID | c.MQMO_MATCH_CORREL_ID
_MATCH_GROUP = c.MQMO_MATCH_GROUP_ID | c.MQMO_MATCH_MSG_SEQ_NUMBER | c.MQMO_MATCH_OFFSET
_NO_ID = bytes(24)
_NAME_BYTES = 48
_BLANK = ord(" ")


class MatchArguments(TypedDict, total=False):
    """The keyword arguments of ``Connection.get`` that select a message."""

    msg_id: bytes
    correl_id: bytes
    token: bytes
    group_id: bytes
    sequence_number: int
    offset: int


def put_message(connection: Connection, opened: Opened, body: bytes, md: MD, pmo: PMO) -> None:
    """Put a message to a queue or topic (MQPUT); updates MD and PMO.

    Raises MQMIError, also for a warning: the message is then put or published. With
    MQPMO_ASYNC_RESPONSE, MQSTAT reports the errors of the queue instead. If the queue refuses the
    message, MD and PMO stay unchanged.
    """
    fields, given = vars(md), vars(pmo)
    options = given["Options"]
    try:
        _check_pmo(given)
        requested = descriptor_of(fields, options & c.MQPMO_SET_ALL_CONTEXT)
        given_format = requested.format
        requested, body = with_extension_applied(requested, body)
        properties = properties_of_put(given, publishes=opened.kind == c.MQOT_TOPIC)
        result = connection.put(
            opened.handle,
            body,
            requested,
            ask.response_of_mqi(options),
            msg_id=stored_id(fields["MsgId"]),
            correl_id=stored_id(fields["CorrelId"]),
            expiry_tenths=fields["Expiry"],
            properties=properties,
            context=given["Context"],
        )
    except MQError as error:
        raise mqmi_error(error) from error
    if result is None:
        return
    final = result.descriptor
    if properties:
        note_put(given, properties)
    if final.format != given_format:
        # The MD describes the data in the form that the program gave.
        final = final._replace(format=given_format)
    if not options & c.MQPMO_MD_FOR_OUTPUT_ONLY:
        fields.update(put_fields_of(final, fields["Version"]))
        fields["MsgId"] = result.msg_id
        fields["CorrelId"] = result.correl_id or _NO_ID
        moment = put_moment(result.descriptor, result.window.put_ms)
        fields["PutDate"], fields["PutTime"] = moment
    given.update(destination_of(result.queue, result.manager, connection.name))
    if result.warning:
        raise warning(result.warning)


def get_message(
    connection: Connection, handle: int, max_length: int | None, md: MD, gmo: GMO
) -> bytes:
    """Get a message (MQGET) and return its body; ``max_length`` is in bytes, None is no limit.

    MD and GMO are updated. Raises MQMIError, also for a warning: it then holds the body, and MD and
    GMO are updated. Warnings are MQRC_TRUNCATED_MSG_ACCEPTED, MQRC_TRUNCATED_MSG_FAILED (the
    message stays on the queue), those of MQGMO_CONVERT such as MQRC_NOT_CONVERTED, and
    MQRC_NO_MSG_LOCKED for an unlock.
    """
    fields, given = vars(md), vars(gmo)
    options = given["Options"]
    try:
        check_structure(given, c.MQGMO_STRUC_ID, _GMO_VERSIONS, rc.MQRC_GMO_ERROR)
        check_structure(fields, c.MQMD_STRUC_ID, _MD_VERSIONS, rc.MQRC_MD_ERROR)
        if options & c.MQGMO_UNLOCK:
            return _unlock(connection, handle, options)
        if max_length is not None and max_length < 0:
            raise mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"length {max_length} is negative")
        result = connection.call(get_request(handle, max_length, md, gmo))
    except MQError as error:
        raise mqmi_error(error) from error
    return filled_in(result, md, gmo, max_length)


def get_request(handle: int, max_length: int | None, md: MD, gmo: GMO) -> ask.Get:
    """Return the request of an MQGET with these structures; raises MQError for wrong ones."""
    fields, given = vars(md), vars(gmo)
    return ask.Get(
        handle,
        given["Options"],
        wait_ms=given["WaitInterval"],
        max_length=max_length,
        in_handle=handle_of_get(given) is not None,
        with_extension=fields["Version"] < c.MQMD_VERSION_2,
        **_match(fields, given),
    )


def filled_in(result: GetResult, md: MD, gmo: GMO, max_length: int | None) -> bytes:
    """Update MD and GMO with what a get returned, and return the body.

    Raises MQMIError for a warning, as :func:`get_message` does.
    """
    fields, given = vars(md), vars(gmo)
    options, target = given["Options"], handle_of_get(given)
    message, length, reason = result.message, result.data_length, result.warning
    body, descriptor = message.body, message.descriptor
    if options & c.MQGMO_CONVERT:
        wanted = Coding.of(fields["Encoding"], fields["CodedCharSetId"])
        body, descriptor, length, reason = converted(result, wanted, max_length, options)
    if target is not None and result.content is not None:
        target.fill(*result.content, message)
    fields.update(fields_of(descriptor, fields["Version"]))
    fields["Expiry"] = message.remaining_tenths
    fields["BackoutCount"] = message.backout_count
    fields["MsgId"], fields["CorrelId"] = message.msg_id, message.correl_id
    fields["PutDate"], fields["PutTime"] = put_moment(descriptor, message.put_ms)
    given["ResolvedQName"] = padded_name(message.queue)
    if given["Version"] >= c.MQGMO_VERSION_2:
        fill_in_status(given, descriptor.msg_flags, len(body))
    if given["Version"] >= c.MQGMO_VERSION_3:
        given["MsgToken"] = token_of(message)
    if reason:
        raise warning(reason, body, length)
    return body


def _check_pmo(given: Fields) -> None:
    """Raise MQRC_PMO_ERROR for a wrong PMO, MQRC_RECS_PRESENT_ERROR for a distribution list."""
    check_structure(given, c.MQPMO_STRUC_ID, _PMO_VERSIONS, rc.MQRC_PMO_ERROR)
    if given["RecsPresent"] and given["Version"] >= c.MQPMO_VERSION_2:
        text = f"RecsPresent {given['RecsPresent']}: distribution lists are not supported"
        raise mq_error(rc.MQRC_RECS_PRESENT_ERROR, text)


@lru_cache(maxsize=4096)
def destination_of(queue: str, manager: str, own_manager: str) -> Fields:
    """Return the PMO fields for the resolved queue; a publication has an empty ``queue``.

    ``manager`` is the resolved queue manager, ``own_manager`` is the connected queue manager. The
    result is shared: the caller must not change it.
    """
    is_here = manager == own_manager
    return {
        "ResolvedQName": padded_name(queue),
        "ResolvedQMgrName": padded_name(manager),
        "KnownDestCount": int(is_here and bool(queue)),
        "UnknownDestCount": int(not is_here),
        "InvalidDestCount": 0,
    }


@lru_cache(maxsize=4096)
def padded_name(name: str) -> bytes:
    """Return an object name as bytes, padded with blanks to 48."""
    return name.encode().ljust(_NAME_BYTES)


def _match(fields: Fields, given: Fields) -> MatchArguments:
    """Return the ids and numbers by which a get selects a message, from MD and GMO fields.

    MatchOptions select them; a GMO of version 1 matches MsgId and CorrelId. Raises
    MQRC_MATCH_OPTIONS_ERROR, MQRC_WRONG_GMO_VERSION or MQRC_WRONG_MD_VERSION.
    """
    version, wanted = given["Version"], given["MatchOptions"]
    if given["Options"] & c.MQGMO_LOGICAL_ORDER:
        _check_knows_groups(fields["Version"], version, "MQGMO_LOGICAL_ORDER")
    if wanted & ~_MATCH_IDS:
        _check_match_options(fields["Version"], version, wanted)
    if version == c.MQGMO_VERSION_1:
        wanted = _MATCH_IDS
    if wanted == _MATCH_IDS:
        return {"msg_id": stored_id(fields["MsgId"]), "correl_id": stored_id(fields["CorrelId"])}
    match: MatchArguments = {}
    if wanted & c.MQMO_MATCH_MSG_ID:
        match["msg_id"] = stored_id(fields["MsgId"])
    if wanted & c.MQMO_MATCH_CORREL_ID:
        match["correl_id"] = stored_id(fields["CorrelId"])
    if wanted & c.MQMO_MATCH_MSG_TOKEN:
        match["token"] = given["MsgToken"]
    if wanted & c.MQMO_MATCH_GROUP_ID:
        match["group_id"] = stored_id(fields["GroupId"])
    if wanted & c.MQMO_MATCH_MSG_SEQ_NUMBER:
        match["sequence_number"] = fields["MsgSeqNumber"]
    if wanted & c.MQMO_MATCH_OFFSET:
        match["offset"] = fields["Offset"]
    return match


def _check_match_options(md_version: int, gmo_version: int, wanted: int) -> None:
    """Raise an error for match options that MD and GMO versions do not allow.

    MQRC_MATCH_OPTIONS_ERROR for unknown options, MQRC_WRONG_GMO_VERSION, MQRC_WRONG_MD_VERSION for
    too low versions.
    """
    if wanted & ~(_MATCH_IDS | _MATCH_GROUP | c.MQMO_MATCH_MSG_TOKEN):
        raise mq_error(rc.MQRC_MATCH_OPTIONS_ERROR, f"GMO.MatchOptions {wanted:#x}")
    what = f"MatchOptions {wanted:#x}"
    if wanted & c.MQMO_MATCH_MSG_TOKEN:
        _check_gmo_version(gmo_version, c.MQGMO_VERSION_3, what)
    if wanted & _MATCH_GROUP:
        _check_knows_groups(md_version, gmo_version, what)


def _check_knows_groups(md_version: int, gmo_version: int, what: str) -> None:
    """Raise an error unless GMO and MD have version 2, which groups need.

    MQRC_WRONG_GMO_VERSION or MQRC_WRONG_MD_VERSION; ``what`` is the option for the text.
    """
    _check_gmo_version(gmo_version, c.MQGMO_VERSION_2, what)
    if md_version < c.MQMD_VERSION_2:
        raise mq_error(rc.MQRC_WRONG_MD_VERSION, f"{what} needs MD.Version 2")


def _check_gmo_version(version: int, needed: int, what: str) -> None:
    """Raise MQRC_WRONG_GMO_VERSION unless the GMO version is at least ``needed``."""
    if version < needed:
        raise mq_error(rc.MQRC_WRONG_GMO_VERSION, f"{what} needs GMO.Version {needed}")


def _unlock(connection: Connection, handle: int, options: int) -> bytes:
    """Unlock the browsed message of a handle (MQGMO_UNLOCK), and return an empty body.

    Raises MQMIError, a warning, with MQRC_NO_MSG_LOCKED if none is locked.
    """
    reason = connection.call(ask.Unlock(handle, options))
    if reason:
        raise warning(reason)
    return b""


def fill_in_status(given: Fields, flags: int, returned_length: int) -> None:
    """Set the group and segment status fields of a GMO of version 2, ReturnedLength of version 3.

    ``flags`` are the MQMF_* of the message, ``returned_length`` is in bytes.
    """
    given["GroupStatus"] = given["SegmentStatus"] = given["Segmentation"] = _BLANK
    if flags & c.MQMF_LAST_MSG_IN_GROUP:
        given["GroupStatus"] = c.MQGS_LAST_MSG_IN_GROUP[0]
    elif flags & c.MQMF_MSG_IN_GROUP:
        given["GroupStatus"] = c.MQGS_MSG_IN_GROUP[0]
    if flags & c.MQMF_LAST_SEGMENT:
        given["SegmentStatus"] = c.MQSS_LAST_SEGMENT[0]
    elif flags & c.MQMF_SEGMENT:
        given["SegmentStatus"] = c.MQSS_SEGMENT[0]
    if flags & c.MQMF_SEGMENTATION_ALLOWED:
        given["Segmentation"] = c.MQSEG_ALLOWED[0]
    if given["Version"] >= c.MQGMO_VERSION_3:
        given["ReturnedLength"] = returned_length


_USERS: Final = c.MQSO_FIXED_USERID | c.MQSO_ANY_USERID


def subscribe(
    connection: Connection, sd: SD, queue: int, *, altered: Subscribed | None, held: int
) -> Subscribed:
    """Subscribe (MQSUB), update the SD and return the subscription with the handle of its queue.

    ``queue`` is the handle for a subscription that is not managed. ``altered`` is the caller's open
    subscription, which may be altered, and ``held`` the handle of its queue. MQHO_NONE (0) is no
    handle. Raises MQError with MQRC_SD_ERROR for a wrong StrucId or Version, and with the reason
    codes of MQSUB.
    """
    fields = vars(sd)
    options = fields["Options"]
    check_structure(fields, c.MQSD_STRUC_ID, (c.MQSD_VERSION_1,), rc.MQRC_SD_ERROR)
    correl_id: bytes | None = b""
    if options & c.MQSO_SET_CORREL_ID:
        correl_id = stored_id(fields["SubCorrelId"]) or None
    subscribed = connection.call(
        ask.Subscribe(
            options,
            name=string_in(fields, "SubName", rc.MQRC_SUB_NAME_ERROR),
            topic=string_in(fields, "ObjectString", rc.MQRC_TOPIC_STRING_ERROR),
            topic_object=text_of(fields["ObjectName"]),
            queue=queue,
            selector=string_in(fields, "SelectionString", rc.MQRC_SELECTION_STRING_ERROR),
            user_data=string_in(fields, "SubUserData", rc.MQRC_SUB_USER_DATA_ERROR),
            correl_id=correl_id,
            expiry_tenths=fields["SubExpiry"],
            priority=fields["PubPriority"],
            altered=0 if altered is None else altered.number,
            held=held,
        )
    )
    _fill_in_sd(fields, subscribed.facts)
    return subscribed


def _fill_in_sd(fields: Fields, facts: SubscriptionFacts) -> None:
    """Set the fields of the SD from the current attributes of the subscription."""
    options = fields["Options"] & ~(_USERS | c.MQSO_DURABLE | c.MQSO_MANAGED)
    options |= c.MQSO_DURABLE * facts.is_durable | c.MQSO_MANAGED * facts.is_managed
    options |= c.MQSO_FIXED_USERID if facts.user_is_fixed else c.MQSO_ANY_USERID
    if facts.on_request:
        options |= c.MQSO_PUBLICATIONS_ON_REQUEST
    fields["Options"] = options
    fields["SubCorrelId"] = facts.correl_id or _NO_ID
    fields["SubExpiry"] = facts.expiry_tenths
    fields["PubPriority"] = facts.priority
    return_string(fields, "SubUserData", facts.user_data)
    return_string(fields, "SelectionString", facts.selector)
    return_string(fields, "ResObjectString", facts.topic)
