"""Which text codec a CodedCharSetId stands for, and back from what JMS_IBM_Character_Set says."""

from __future__ import annotations

import codecs

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCCSI_Q_MGR
from mayfly.mqi.errors import mq_error
from mayfly.mqi.properties import UTF_8

_CODECS = {
    MQCCSI_Q_MGR: "utf-8",  # this queue manager's own
    37: "cp037",
    273: "cp273",
    437: "cp437",
    500: "cp500",
    813: "iso8859-7",
    819: "iso8859-1",
    850: "cp850",
    852: "cp852",
    855: "cp855",
    857: "cp857",
    858: "cp858",
    912: "iso8859-2",
    915: "iso8859-5",
    916: "iso8859-8",
    920: "iso8859-9",
    923: "iso8859-15",
    932: "cp932",
    943: "cp932",
    949: "cp949",
    950: "cp950",
    954: "euc_jp",
    970: "euc_kr",
    1089: "iso8859-6",
    1140: "cp1140",
    1200: "utf-16-be",
    UTF_8: "utf-8",
    1250: "cp1250",
    1251: "cp1251",
    1252: "cp1252",
    1253: "cp1253",
    1254: "cp1254",
    1255: "cp1255",
    1256: "cp1256",
    1257: "cp1257",
    1381: "gb2312",
    1386: "gbk",
    5348: "cp1252",
    5488: "gb18030",
    13488: "utf-16-be",
    17584: "utf-16-be",
}
_CCSIDS = {
    codecs.lookup(name).name: ccsid
    for ccsid, name in reversed(_CODECS.items())
    if ccsid not in (MQCCSI_Q_MGR, 932, 1200, 5348, 17584)
}
_CCSID_DIGITS = 5
#: What a program may mean by UTF-16: big-endian, as JMS writes it.
_CCSIDS["utf-16"] = 1200


def codec_of(coded_char_set_id: int) -> str:
    """Return the name of the codec; raises MQRC_SOURCE_CCSID_ERROR for one that is not known."""
    codec = _CODECS.get(coded_char_set_id)
    if codec is None:
        raise mq_error(rc.MQRC_SOURCE_CCSID_ERROR, f"CodedCharSetId {coded_char_set_id}")
    return codec


def character_set_name(coded_char_set_id: int) -> str:
    """Return what JMS_IBM_Character_Set shows: the codec's name, or the number as text."""
    if coded_char_set_id == UTF_8:
        return "UTF-8"
    codec = _CODECS.get(coded_char_set_id)
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
