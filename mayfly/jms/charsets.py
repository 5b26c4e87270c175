"""Character sets as JMS names them: codecs, and the values of JMS_IBM_Character_Set."""

from __future__ import annotations

import codecs

from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import CODECS
from mayfly.mqi.constants import MQCCSI_Q_MGR
from mayfly.mqi.errors import mq_error
from mayfly.mqi.properties import UTF_8

_CCSIDS = {
    codecs.lookup(name).name: ccsid
    for ccsid, name in reversed(CODECS.items())
    if ccsid not in (MQCCSI_Q_MGR, 932, 1200, 1202, 5348, 17584)
}
_CCSID_DIGITS = 5
#: UTF-16 without a byte order is big-endian, as JMS writes it.
_CCSIDS["utf-16"] = 1200


def codec_of(coded_char_set_id: int, reason: int = rc.MQRC_SOURCE_CCSID_ERROR) -> str:
    """Return the name of the codec; raises the reason code for one that is not known."""
    codec = CODECS.get(coded_char_set_id)
    if codec is None:
        raise mq_error(reason, f"CodedCharSetId {coded_char_set_id}")
    return codec


def character_set_name(coded_char_set_id: int) -> str:
    """Return the value of JMS_IBM_Character_Set: the codec's name, or the number as text."""
    if coded_char_set_id == UTF_8:
        return "UTF-8"
    codec = CODECS.get(coded_char_set_id)
    return str(coded_char_set_id) if codec is None else codec


def ccsid_named(name: str) -> int:
    """Return the CodedCharSetId that JMS_IBM_Character_Set names, by name or by number.

    Raises MQRC_TARGET_CCSID_ERROR for one that is not known.
    """
    if name.isdecimal() and len(name) <= _CCSID_DIGITS:
        # Data that is no text may pass through in a character set that is not known here.
        return int(name)
    try:
        ccsid = _CCSIDS.get(codecs.lookup(name).name)
    except LookupError:
        ccsid = None
    if ccsid is None:
        raise mq_error(rc.MQRC_TARGET_CCSID_ERROR, f"character set {name!r}")
    return ccsid
