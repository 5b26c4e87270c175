"""MQOPEN on an OD, and the arguments that pymqi's verbs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi.errors import mqmi_error
from mayfly.pymqi.structures import MD, OD, PMO, Fields
from mayfly.pymqi.verbs import padded_name

if TYPE_CHECKING:
    from mayfly.engine.core import Core
    from mayfly.engine.handles import Handle
    from mayfly.engine.session import Session

_Options = TypeVar("_Options")
_VERSIONS = (c.MQOD_VERSION_1, c.MQOD_VERSION_2, c.MQOD_VERSION_3, c.MQOD_VERSION_4)


def open_object(session: Session, core: Core, queue: str | bytes | OD, options: int) -> Handle:
    """MQOPEN; an OD gets the name of a dynamic queue made and, from version 3 on, what it led to.

    Raises MQMIError MQRC_OD_ERROR, MQRC_OBJECT_TYPE_ERROR, MQRC_UNKNOWN_REMOTE_Q_MGR and the reason
    codes of Session.open.
    """
    od = od_of(queue)
    fields = vars(od)
    try:
        name = _name_in(fields, core.name)
        dynamic_name = text_of(fields["DynamicQName"])
        handle = session.open(name, options, dynamic_name=dynamic_name)
    except MQError as error:
        raise mqmi_error(error) from error
    if handle.owns_queue:
        fields["ObjectName"] = padded_name(handle.queue_name)
        fields["ObjectQMgrName"] = padded_name(core.name)
    if fields["Version"] >= c.MQOD_VERSION_3:
        fields["ResolvedQName"] = padded_name(handle.queue_name)
        fields["ResolvedQMgrName"] = padded_name(core.name)
    return handle


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


def _name_in(fields: Fields, manager_name: str) -> str:
    """Return the queue name in an OD's fields."""
    if fields["StrucId"] != c.MQOD_STRUC_ID or fields["Version"] not in _VERSIONS:
        raise mq_error(
            rc.MQRC_OD_ERROR, f"StrucId {fields['StrucId']!r}, Version {fields['Version']}"
        )
    if fields["ObjectType"] != c.MQOT_Q:
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {fields['ObjectType']} is no queue")
    other = text_of(fields["ObjectQMgrName"])
    if other not in ("", manager_name):
        raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, f"no transmission queue leads to {other!r}")
    return text_of(fields["ObjectName"])
