"""Queues of other queue managers: resolution of their names, and messages on transmission queues.

A name may include a queue manager, as in ``ORDERS@QM2``; the name of an object never has an ``@``.
A message on a transmission queue is wrapped in an MQXQH.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from mayfly.engine.attributes import (
    QALIAS,
    QLOCAL,
    QMODEL,
    QREMOTE,
    ManagerDefinition,
    QueueDefinition,
)
from mayfly.engine.descriptors import Context, Prepared, prepare
from mayfly.engine.settings import Settings
from mayfly.lifetime.times import put_date, put_time, tenths_of_ms
from mayfly.lifetime.transmission import EXPIRY_END, counted_down, embedded_expiry
from mayfly.lifetime.window import Window, life_ms_of_expiry, remaining_tenths
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import (
    MQAT_QMGR,
    MQCCSI_Q_MGR,
    MQEI_UNLIMITED,
    MQENC_NATIVE,
    MQFB_XMIT_Q_MSG_ERROR,
    MQFMT_MD_EXTENSION,
    MQMF_NONE,
    MQOL_UNDEFINED,
    MQOO_BROWSE,
    MQOO_INPUT_AS_Q_DEF,
    MQOO_INPUT_EXCLUSIVE,
    MQOO_INPUT_SHARED,
    MQOO_INQUIRE,
    MQOO_SET,
    MQOT_TOPIC,
    MQPMO_SET_ALL_CONTEXT,
    MQRO_ACCEPT_UNSUP_IF_XMIT_MASK,
    MQUS_TRANSMISSION,
)
from mayfly.mqi.descriptor import MD_NAMES, Descriptor, pack_descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.structures import MDE, XQH
from mayfly.store.units import StoredMessage

_Find: TypeAlias = Callable[[str], QueueDefinition | None]
_NAME_BYTES = 48
_READS = MQOO_INPUT_AS_Q_DEF | MQOO_INPUT_SHARED | MQOO_INPUT_EXCLUSIVE | MQOO_BROWSE


class Remote(NamedTuple):
    """A queue of another queue manager, as the MQXQH names it."""

    queue: str
    manager: str


class Resolution(NamedTuple):
    """The objects on the way from a name to its queue; the last one holds the messages.

    ``remote`` is None for a queue here; else it is the queue of another queue manager.
    """

    objects: list[QueueDefinition]
    remote: Remote | None


def full_name(queue: str, manager: str, own_manager: str) -> str:
    """Return the name of a queue, with its queue manager if that is another one.

    ``("Q", "QM2", "QM1")`` -> ``"Q@QM2"``; ``("Q", "QM1", "QM1")`` -> ``"Q"``.
    """
    return queue if manager in ("", own_manager) else f"{queue}@{manager}"


def route(find: _Find, queue_manager: ManagerDefinition, name: str) -> Resolution:
    """Return the objects that a name leads to; the last one holds the messages (C1, C2).

    ``find`` returns the definition of a name, None without one. Raises MQRC_UNKNOWN_OBJECT_NAME,
    MQRC_UNKNOWN_ALIAS_BASE_Q, MQRC_ALIAS_BASE_Q_TYPE_ERROR; MQRC_OPTION_NOT_VALID_FOR_TYPE for the
    alias of a topic; MQRC_OBJECT_NAME_ERROR and MQRC_OBJECT_Q_MGR_NAME_ERROR for a remote name that
    is empty or does not fit an MQXQH; MQRC_REMOTE_Q_NAME_ERROR for an incomplete remote definition;
    and the reasons of :func:`_transmission_queue`.
    """
    own_name = queue_manager.name
    queue, _, manager = name.partition("@")
    passed: list[QueueDefinition] = []
    transmission = ""
    if manager not in ("", own_name):
        alias = find(manager)
        if alias is not None and alias.kind == QREMOTE and not alias.rname:
            passed.append(alias)
            manager, transmission = alias.rqmname, alias.xmitq
    if manager in ("", own_name):
        passed += _walk(find, queue)
        last = passed[-1]
        if last.kind == QLOCAL:
            return Resolution(passed, None)
        queue, manager, transmission = last.rname, last.rqmname, last.xmitq
        if not queue or manager in ("", own_name):
            raise mq_error(
                rc.MQRC_REMOTE_Q_NAME_ERROR,
                f"{last.name}: RNAME({queue}) RQMNAME({manager}) name no queue elsewhere",
            )
    _check_elsewhere(queue, rc.MQRC_OBJECT_NAME_ERROR)
    _check_elsewhere(manager, rc.MQRC_OBJECT_Q_MGR_NAME_ERROR)
    default = queue_manager.defxmitq
    passed.append(_transmission_queue(find, transmission, manager, default))
    return Resolution(passed, Remote(queue, manager))


def check_remote_open(name: str, options: int) -> None:
    """Raise MQRC_OPTION_NOT_VALID_FOR_TYPE for open options not allowed on a remote queue (C3).

    These are input and browse. Inquire and set are allowed on its remote definition here, but not
    on a name with ``@``.
    """
    if options & _READS or ("@" in name and options & (MQOO_INQUIRE | MQOO_SET)):
        text = f"open options {options:#x}: {name} is a queue of another queue manager"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)


def reply_address(find: _Find, queue: str) -> tuple[str, str] | None:
    """Return queue and queue manager of the remote definition that ReplyToQ names (P4).

    ``find`` returns the definition of a name. None when ReplyToQ names no remote definition.
    """
    definition = find(queue)
    if definition is None or definition.kind != QREMOTE:
        return None
    return definition.rname or queue, definition.rqmname


def _walk(find: _Find, name: str) -> Iterator[QueueDefinition]:
    """Yield the object with this name and, for an alias, its target.

    ``find`` returns the definition of a name, None without one. Raises MQRC_UNKNOWN_OBJECT_NAME,
    MQRC_UNKNOWN_ALIAS_BASE_Q, MQRC_ALIAS_BASE_Q_TYPE_ERROR, and MQRC_OPTION_NOT_VALID_FOR_TYPE for
    the alias of a topic.
    """
    definition = find(name)
    if definition is None or definition.kind == QMODEL:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"queue {name!r} is not defined")
    yield definition
    if definition.kind == QALIAS:
        target = definition.target
        if definition.targtype == MQOT_TOPIC:
            raise mq_error(
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
                f"alias {name} leads to topic {target}: it can only be put to",
            )
        base = find(target)
        if base is None:
            raise mq_error(
                rc.MQRC_UNKNOWN_ALIAS_BASE_Q, f"alias {name}: TARGET {target!r} is not defined"
            )
        if base.kind not in (QLOCAL, QREMOTE):
            raise mq_error(
                rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR, f"alias {name}: TARGET {target} is {base.kind}"
            )
        yield base


def _check_elsewhere(name: str, reason: int) -> None:
    """Raise ``reason`` unless a name has 1 to 48 ASCII characters, without NUL and ``@``."""
    if not 0 < len(name) <= _NAME_BYTES or not name.isascii() or "\0" in name or "@" in name:
        raise mq_error(reason, f"{name!r} is no name of 1 to {_NAME_BYTES} characters")


def _transmission_queue(find: _Find, named: str, manager: str, default: str) -> QueueDefinition:
    """Return the transmission queue that leads to the queue manager ``manager``.

    ``find`` returns the definition of a name, None without one. The result is the queue ``named``
    (XMITQ) if that is not empty, else the queue with the name of the queue manager, else
    ``default`` (DEFXMITQ). Raises MQRC_UNKNOWN_REMOTE_Q_MGR when there is none of the three. For an
    unusable queue, raises MQRC_UNKNOWN_XMIT_Q, MQRC_XMIT_Q_TYPE_ERROR or MQRC_XMIT_Q_USAGE_ERROR;
    for the default one MQRC_UNKNOWN_DEF_XMIT_Q, MQRC_DEF_XMIT_Q_TYPE_ERROR or
    MQRC_DEF_XMIT_Q_USAGE_ERROR.
    """
    if named or find(manager) is not None:
        name, unknown = named or manager, rc.MQRC_UNKNOWN_XMIT_Q
        wrong_type, wrong_usage = rc.MQRC_XMIT_Q_TYPE_ERROR, rc.MQRC_XMIT_Q_USAGE_ERROR
    elif default:
        name, unknown = default, rc.MQRC_UNKNOWN_DEF_XMIT_Q
        wrong_type, wrong_usage = rc.MQRC_DEF_XMIT_Q_TYPE_ERROR, rc.MQRC_DEF_XMIT_Q_USAGE_ERROR
    else:
        raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"no transmission queue leads to {manager!r}")
    definition = find(name)
    if definition is None:
        raise mq_error(unknown, f"transmission queue {name!r} is not defined")
    if definition.kind != QLOCAL:
        raise mq_error(wrong_type, f"transmission queue {name} is a {definition.kind}")
    if definition.usage != MQUS_TRANSMISSION:
        raise mq_error(wrong_usage, f"{name} is not USAGE(XMITQ)")
    return definition


TRANSMISSION_FORMAT = "MQXMIT"
_EXTENSION_FORMAT = "MQHMDE"
#: How the data of a message in transit begin.
TRANSMISSION_MARK: Final = b"XQH "
_HEADER_BYTES = XQH.length(1)
_EXTENSION_BYTES = MDE.length(2)
_EMBEDDED = "MsgDesc."
_EXTENDED = ("GroupId", "MsgSeqNumber", "Offset", "MsgFlags", "OriginalLength")
_OF_DATA = ("Encoding", "CodedCharSetId", "Format")
_LATER = ("PutDate", "PutTime", *_EXTENDED)
_FIRST_VERSION = [k for k in MD_NAMES if k not in _LATER]
_EXPIRY = XQH.offset_of("MsgDesc.Expiry")
_MSG_ID, _CORREL_ID = XQH.offset_of("MsgDesc.MsgId"), XQH.offset_of("MsgDesc.CorrelId")
_PUT_DATE, _PUT_TIME = XQH.offset_of("MsgDesc.PutDate"), XQH.offset_of("MsgDesc.PutTime")
_FORMAT = XQH.offset_of("MsgDesc.Format")
_NOBODY = Context("", MQAT_QMGR, "", "")
_ID_BYTES, _NUMBER_BYTES, _TIME_BYTES, _FORMAT_BYTES = 24, 4, 8, 8


class Wrapped(NamedTuple):
    """A message as put on a transmission queue: outer descriptor, CorrelId, and data with MQXQH."""

    prepared: Prepared
    correl_id: bytes
    body: bytes


class Embedded(NamedTuple):
    """The message behind an MQXQH: ids of 24 bytes, data without the headers of transit.

    ``expiry_tenths`` is the embedded Expiry in tenths of a second.
    """

    remote: Remote
    descriptor: Descriptor
    msg_id: bytes
    correl_id: bytes
    expiry_tenths: int
    body: bytes


def header_bytes(descriptor: Descriptor) -> int:
    """Return the length in bytes of the headers that a transmission queue adds to a message."""
    return _HEADER_BYTES + (_EXTENSION_BYTES if _needs_extension(descriptor) else 0)


def wrapped(
    manager_name: str,
    remote: Remote,
    prepared: Prepared,
    window: Window,
    msg_id: bytes,
    correl_id: bytes,
    body: bytes,
) -> Wrapped:
    """Return a message in the form in which it is put on a transmission queue, with an MQXQH.

    ``manager_name`` is the queue manager that sends, ``remote`` the queue that it is for.
    ``prepared`` is its checked descriptor. ``window`` has its put time and deadline: both Expiry
    fields are the time to live left at the put. The embedded MQMD is version 1; an MQMDE follows
    when the message is in a group or a segment. Raises MQRC_MD_ERROR for a field that does not fit
    an MQMD.
    """
    descriptor = prepared.descriptor
    inner, extension = descriptor, b""
    if _needs_extension(descriptor):
        inner, extension = extended(descriptor)
    header = _packed(
        {
            "RemoteQName": remote.queue,
            "RemoteQMgrName": remote.manager,
            **_embedded_fields(inner),
            f"{_EMBEDDED}Expiry": remaining_tenths(window.expire_at_ms, window.put_ms),
            f"{_EMBEDDED}MsgId": msg_id,
            f"{_EMBEDDED}CorrelId": correl_id or bytes(24),
            f"{_EMBEDDED}PutDate": descriptor.put_date or put_date(window.put_ms),
            f"{_EMBEDDED}PutTime": descriptor.put_time or put_time(window.put_ms),
        }
    )
    outer = _outer(prepared, manager_name)
    return Wrapped(outer, msg_id, header + extension + body)


def unwrapped(body: bytes, encoding: int) -> Embedded:
    """Return the message after an MQXQH; ``encoding`` is that of the outer descriptor.

    Raises MQRC_XQH_ERROR, and MQRC_MDE_ERROR for a damaged MQMDE.
    """
    header = XQH.unpack(body, big_endian=is_big_endian(encoding))
    fields = {k.removeprefix(_EMBEDDED): v for k, v in header.items() if k.startswith(_EMBEDDED)}
    data = body[_HEADER_BYTES:]
    if fields["Format"] == _EXTENSION_FORMAT:
        inner_encoding = fields["Encoding"]
        assert isinstance(inner_encoding, int)
        extension = MDE.unpack(data, big_endian=is_big_endian(inner_encoding))
        fields |= {k: v for k, v in extension.items() if k in _EXTENDED or k in _OF_DATA}
        data = data[_EXTENSION_BYTES:]
    remote = Remote(str(header["RemoteQName"]), str(header["RemoteQMgrName"]))
    msg_id, correl_id, expiry = fields["MsgId"], fields["CorrelId"], fields["Expiry"]
    assert isinstance(msg_id, bytes)
    assert isinstance(correl_id, bytes)
    assert isinstance(expiry, int)
    known: dict[str, Any] = {MD_NAMES[k]: v for k, v in fields.items() if k in MD_NAMES}
    descriptor = Descriptor(**known, version=2 if _EXTENDED[0] in fields else 1)
    return Embedded(remote, descriptor, msg_id, correl_id, expiry, data)


def seen_in_transit(row: StoredMessage, now_ms: int) -> StoredMessage:
    """Return a row as a get sees it now: the Expiry in an MQXQH is counted down (E24).

    A row without an MQXQH is returned as it is.
    """
    if row.body[:4] != TRANSMISSION_MARK:
        return row
    descriptor = unpack_descriptor(row.descriptor)
    if descriptor.format != TRANSMISSION_FORMAT:
        return row
    big_endian = is_big_endian(descriptor.encoding)
    return row._replace(body=counted_down(row.body, now_ms - row.put_ms, big_endian=big_endian))


def embedded_or_none(body: bytes | None, descriptor: Descriptor) -> Embedded | None:
    """Return the message after the MQXQH of a message in transit, None without a valid MQXQH."""
    if body is None or descriptor.format != TRANSMISSION_FORMAT:
        return None
    try:
        return unwrapped(body, descriptor.encoding)
    except MQError:
        return None


def _packed(fields: dict[str, object]) -> bytes:
    """Return an MQXQH with these fields.

    Raises MQRC_MD_ERROR for a value that does not fit its field.
    """
    try:
        return XQH.pack(fields)
    except ValueError as error:
        raise mq_error(rc.MQRC_MD_ERROR, f"it cannot travel: {error}") from None


def _needs_extension(descriptor: Descriptor) -> bool:
    """Return True if a descriptor has values that an MQMD of version 1 does not have."""
    return (
        descriptor.msg_flags != MQMF_NONE
        or descriptor.original_length != MQOL_UNDEFINED
        or bool(descriptor.group_id.strip(b"\0"))
        or descriptor.msg_seq_number != 1
        or descriptor.offset != 0
    )


@lru_cache(maxsize=1024)
def extended(descriptor: Descriptor) -> tuple[Descriptor, bytes]:
    """Return a version 1 descriptor whose Format is MQHMDE, and the MQMDE that follows it."""
    extension = MDE.pack(
        {
            "Encoding": descriptor.encoding,
            "CodedCharSetId": descriptor.coded_char_set_id,
            "Format": descriptor.format,
            "GroupId": descriptor.group_id,
            "MsgSeqNumber": descriptor.msg_seq_number,
            "Offset": descriptor.offset,
            "MsgFlags": descriptor.msg_flags,
            "OriginalLength": descriptor.original_length,
        }
    )
    announcing = descriptor._replace(
        format=_EXTENSION_FORMAT, encoding=MQENC_NATIVE, coded_char_set_id=MQCCSI_Q_MGR
    )
    return announcing, extension


@lru_cache(maxsize=1024)
def _embedded_fields(descriptor: Descriptor) -> dict[str, object]:
    """Return the fields of a descriptor by their names in an MQXQH, such as ``MsgDesc.Report``."""
    return {f"{_EMBEDDED}{name}": getattr(descriptor, MD_NAMES[name]) for name in _FIRST_VERSION}


@lru_cache(maxsize=1024)
def _outer(prepared: Prepared, manager_name: str) -> Prepared:
    """Return the descriptor of a message in transit, as put by the queue manager.

    Report options that would confirm arrival or delivery on the way are removed.
    """
    descriptor = prepared.descriptor
    outer = descriptor._replace(
        report=descriptor.report & ~MQRO_ACCEPT_UNSUP_IF_XMIT_MASK,
        encoding=MQENC_NATIVE,
        coded_char_set_id=MQCCSI_Q_MGR,
        format=TRANSMISSION_FORMAT,
        put_appl_type=MQAT_QMGR,
        put_appl_name=manager_name[:28],
        put_date="",
        put_time="",
        appl_origin_data="",
        version=1,
        group_id=b"",
        msg_seq_number=1,
        offset=0,
        msg_flags=MQMF_NONE,
        original_length=MQOL_UNDEFINED,
    )
    return prepared._replace(descriptor=outer, packed=pack_descriptor(outer))


def out_of_transit(row: StoredMessage, now_ms: int) -> Embedded:
    """Return the message after the MQXQH of a row, with the embedded Expiry as it is now (E24).

    Raises MQError with reason MQFB_XMIT_Q_MSG_ERROR for a message that no channel can send: without
    a valid MQXQH, or for a queue whose name is invalid.
    """
    descriptor = unpack_descriptor(row.descriptor)
    try:
        if descriptor.format != TRANSMISSION_FORMAT:
            raise mq_error(rc.MQRC_XQH_ERROR, f"Format {descriptor.format!r} is not MQXMIT")
        embedded = _unwrapped(seen_in_transit(row, now_ms).body, descriptor.encoding)
        remote = embedded.remote
        # No name has it, and behind it that of another queue manager would be looked for.
        if "@" in remote.queue or "@" in remote.manager:
            raise mq_error(rc.MQRC_XQH_ERROR, f"{remote.queue!r}, {remote.manager!r}: no names")
    except MQError as error:
        raise MQError(MQFB_XMIT_Q_MSG_ERROR, str(error)) from error
    return embedded


def _unwrapped(body: bytes, encoding: int) -> Embedded:
    """Return the message after an MQXQH, checked; cache the parts that messages have in common.

    ``encoding`` is that of the outer descriptor. Raises MQRC_XQH_ERROR, MQRC_MDE_ERROR, and the
    MQError of a descriptor that no queue accepts.
    """
    if len(body) < _HEADER_BYTES:
        return _checked(unwrapped(body, encoding))
    ids_end, times_end = _CORREL_ID + _ID_BYTES, _PUT_TIME + _TIME_BYTES
    shared = b"".join(
        (
            body[:_EXPIRY],
            bytes(_NUMBER_BYTES),
            body[_EXPIRY + _NUMBER_BYTES : _MSG_ID],
            bytes(2 * _ID_BYTES),
            body[ids_end:_PUT_DATE],
            bytes(2 * _TIME_BYTES),
            body[times_end:_HEADER_BYTES],
        )
    )
    like = _like(shared, encoding)
    if like is None:
        return _checked(unwrapped(body, encoding))
    big_endian = is_big_endian(encoding)
    return like._replace(
        descriptor=like.descriptor._replace(
            put_date=body[_PUT_DATE:_PUT_TIME].decode("latin-1").rstrip(" \0"),
            put_time=body[_PUT_TIME:times_end].decode("latin-1").rstrip(" \0"),
        ),
        msg_id=body[_MSG_ID:_CORREL_ID],
        correl_id=body[_CORREL_ID:ids_end],
        expiry_tenths=embedded_expiry(body, big_endian=big_endian),
        body=body[_HEADER_BYTES:],
    )


@lru_cache(maxsize=1024)
def _like(header: bytes, encoding: int) -> Embedded | None:
    """Return the message in an MQXQH without its ids and times, to be filled in by the caller.

    None when an MQMDE follows the MQXQH, so that nothing can be cached. ``encoding`` is that of the
    outer descriptor.
    """
    format_name = header[_FORMAT : _FORMAT + _FORMAT_BYTES]
    return None if format_name == MQFMT_MD_EXTENSION else _checked(unwrapped(header, encoding))


def _checked(embedded: Embedded) -> Embedded:
    """Return the message; raises MQError when no queue could take it, not even a dead-letter queue.

    Report options are not checked: the receiver sends the reports.
    """
    descriptor = embedded.descriptor._replace(report=0)
    prepare(descriptor, 0, 0, _NOBODY, MQPMO_SET_ALL_CONTEXT)
    return embedded


def check_direct_put(
    settings: Settings, descriptor: Descriptor, body: bytes, life_ms: int | None
) -> None:
    """Check format, header and both Expiry values of a put to a transmission queue.

    ``life_ms`` is the outer Expiry in ms, None for unlimited, before any CAPEXPRY shortens it.
    Raises MQRC_XQH_ERROR when the format is not MQXMIT, the data do not begin with an MQXQH, or are
    too short for the embedded Expiry. Raises MQRC_EXPIRY_ERROR when the embedded Expiry is invalid
    or conflicts with the outer one. The settings ``xqh.*`` turn these checks on.
    """
    big_endian = is_big_endian(descriptor.encoding)
    if settings.enforces_xqh:
        if descriptor.format != TRANSMISSION_FORMAT:
            raise mq_error(
                rc.MQRC_XQH_ERROR,
                f"Format {descriptor.format!r} on a transmission queue is not MQXMIT",
            )
        XQH.unpack(body, big_endian=big_endian)
    if descriptor.format != TRANSMISSION_FORMAT:
        return
    if len(body) < EXPIRY_END:
        if settings.checks_embedded:
            raise mq_error(
                rc.MQRC_XQH_ERROR, f"{len(body)} bytes are too short for an embedded Expiry"
            )
        return
    embedded = embedded_expiry(body, big_endian=big_endian)
    if settings.checks_embedded:
        life_ms_of_expiry(
            embedded,
            enforce_maximum=settings.is_maximum_enforced,
            refuse_zero=settings.is_zero_refused,
        )
    rule = settings.expiry_conflict
    outer = MQEI_UNLIMITED if life_ms is None else tenths_of_ms(life_ms)
    one_is_unlimited = (embedded == MQEI_UNLIMITED) != (outer == MQEI_UNLIMITED)
    if (rule == "consistent" and one_is_unlimited) or (rule == "reject" and embedded != outer):
        raise mq_error(
            rc.MQRC_EXPIRY_ERROR,
            f"Expiry {outer}, but {embedded} in the MQXQH (xqh.expiry_conflict={rule})",
        )
