"""MQOPEN on an OD, and the arguments that pymqi's verbs share."""

from __future__ import annotations

from typing import Any, TypeVar

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi.errors import mqmi_error
from mayfly.pymqi.structures import MD, OD, PMO
from mayfly.pymqi.variable_strings import Fields, return_string, string_in
from mayfly.pymqi.verbs import padded_name
from mayfly.verbs.requests import Opened

_Options = TypeVar("_Options")
_SELECTING = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE | c.MQOO_BROWSE
#: Objects that are neither queue nor topic.
DEFINITIONS = (c.MQOT_PROCESS, c.MQOT_Q_MGR)
_VERSIONS = (c.MQOD_VERSION_1, c.MQOD_VERSION_2, c.MQOD_VERSION_3, c.MQOD_VERSION_4)


def open_object(connection: Connection, od: OD, options: int) -> Opened:
    """MQOPEN; the OD gets the name of a dynamic queue made and, from version 3 on, what it led to.

    Raises MQMIError MQRC_OD_ERROR, MQRC_RECS_PRESENT_ERROR, MQRC_OBJECT_TYPE_ERROR,
    MQRC_SELECTOR_INVALID_FOR_TYPE and the reason codes of Connection.open.
    """
    fields = vars(od)
    try:
        opened = _open(connection, fields, options)
    except MQError as error:
        raise mqmi_error(error) from error
    if opened.kind == c.MQOT_TOPIC:
        _say(fields, ("", connection.name), c.MQOT_TOPIC, known_count=0, unknown_count=0)
        if fields["Version"] >= c.MQOD_VERSION_4:
            return_string(fields, "ResObjectString", opened.topic)
    elif opened.kind == c.MQOT_Q:
        if opened.made:
            fields["ObjectName"] = padded_name(opened.made)
            fields["ObjectQMgrName"] = padded_name(connection.name)
        is_here = opened.manager == connection.name
        _say(
            fields,
            (opened.queue, opened.manager),
            c.MQOT_Q,
            known_count=int(is_here),
            unknown_count=int(not is_here),
        )
    return opened


def _say(
    fields: Fields, resolved: tuple[str, str], kind: int, *, known_count: int, unknown_count: int
) -> None:
    """Say in an OD what was opened, as far as its version has room for it."""
    if fields["Version"] >= c.MQOD_VERSION_2:
        fields["KnownDestCount"], fields["UnknownDestCount"] = known_count, unknown_count
        fields["InvalidDestCount"] = 0
    if fields["Version"] >= c.MQOD_VERSION_3:
        fields["ResolvedQName"], fields["ResolvedQMgrName"] = map(padded_name, resolved)
    if fields["Version"] >= c.MQOD_VERSION_4:
        fields["ResolvedType"] = kind


def od_of(queue: str | bytes | OD) -> OD:
    """Return the OD of a queue given by name or by OD."""
    if isinstance(queue, OD):
        return queue
    if isinstance(queue, (str, bytes)):
        return OD(ObjectName=queue)
    raise TypeError(f"a queue is a name or an OD, not {type(queue).__name__}")


def body_and_options(
    msg: str | bytes, opts: tuple[Any, ...], encoding: str, ccsid: int
) -> tuple[bytes, MD, PMO]:
    """Return body, MD and PMO of a put; a ``str`` is encoded, and the MD says how."""
    md, pmo = two_of(opts, MD, PMO)
    if isinstance(msg, str):
        md.CodedCharSetId = ccsid
        md.Format = c.MQFMT_STRING
        return msg.encode(encoding), md, pmo
    if not isinstance(msg, bytes):
        raise TypeError(f"a message is bytes or str, not {type(msg).__name__}")
    return msg, md, pmo


def two_of(opts: tuple[Any, ...], first: type[MD], second: type[_Options]) -> tuple[MD, _Options]:
    """Return descriptor and options of a verb, new ones for those left out or None."""
    if len(opts) > 2:
        raise TypeError(f"{first.__name__} and {second.__name__}, not {len(opts)} arguments")
    md = opts[0] if opts else None
    options = opts[1] if len(opts) == 2 else None
    md = first() if md is None else md
    options = second() if options is None else options
    if not isinstance(md, first):
        raise TypeError(f"{first.__name__} expected, not {type(md).__name__}")
    if not isinstance(options, second):
        raise TypeError(f"{second.__name__} expected, not {type(options).__name__}")
    return md, options


def text_of(value: str | bytes) -> str:
    """Return a name given as text or as a padded field."""
    text = value if isinstance(value, str) else value.decode("latin-1")
    return text.partition("\0")[0].rstrip(" ")


def _open(connection: Connection, fields: Fields, options: int) -> Opened:
    _check_structure(fields)
    version, kind = fields["Version"], fields["ObjectType"]
    if kind not in (c.MQOT_Q, c.MQOT_TOPIC, *DEFINITIONS):
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {kind} is no queue and no topic")
    if kind == c.MQOT_TOPIC and version < c.MQOD_VERSION_4:
        raise mq_error(rc.MQRC_OD_ERROR, f"Version {version}: a topic needs version 4 of MQOD")
    topic = ""
    if kind == c.MQOT_TOPIC:
        topic = string_in(fields, "ObjectString", rc.MQRC_TOPIC_STRING_ERROR)
    return connection.open(
        text_of(fields["ObjectName"]),
        options,
        kind=kind,
        manager=text_of(fields["ObjectQMgrName"]),
        topic=topic,
        dynamic_name=text_of(fields["DynamicQName"]),
        selector=None if kind in DEFINITIONS else _selector_in(fields, options),
        alternate_user=text_of(fields["AlternateUserId"]),
    )


def _check_structure(fields: Fields) -> None:
    """Raise MQRC_OD_ERROR, and MQRC_RECS_PRESENT_ERROR for a distribution list: there are none."""
    version = fields["Version"]
    if fields["StrucId"] != c.MQOD_STRUC_ID or version not in _VERSIONS:
        raise mq_error(rc.MQRC_OD_ERROR, f"StrucId {fields['StrucId']!r}, Version {version}")
    if version >= c.MQOD_VERSION_2 and fields["RecsPresent"]:
        said = f"RecsPresent {fields['RecsPresent']}: distribution lists are not supported"
        raise mq_error(rc.MQRC_RECS_PRESENT_ERROR, said)


def _selector_in(fields: Fields, options: int) -> str | None:
    if fields["Version"] < c.MQOD_VERSION_4:
        return None
    selector = string_in(fields, "SelectionString", rc.MQRC_SELECTION_STRING_ERROR)
    if selector and (fields["ObjectType"] != c.MQOT_Q or not options & _SELECTING):
        said = f"SelectionString {selector!r} with open options {options:#x}"
        raise mq_error(rc.MQRC_SELECTOR_INVALID_FOR_TYPE, said)
    return selector or None
