"""The names that a selector may use, and the JMS texts of ids, types and timestamps.

JMS and pymqi read and write the same texts. An error of a selector names its position.
"""

from __future__ import annotations

import re
import unicodedata

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error


def syntax_error(index: int, expected: str, found: str) -> MQError:
    """Return (not raise) MQRC_SELECTOR_SYNTAX_ERROR: ``position 1: expected …, found …``.

    ``index`` counts characters from 0, the text of the error from 1.
    """
    return mq_error(
        rc.MQRC_SELECTOR_SYNTAX_ERROR, f"position {index + 1}: expected {expected}, found {found}"
    )


_PREFIX = "ID:"
_NO_PREFIX, _TYPED = "AMQP_NO_PREFIX:", ("AMQP_ULONG:", "AMQP_UUID:", "AMQP_BINARY:")
_ID_BYTES = 24
_TIMESTAMP_DIGITS = 20
_LARGEST_TIMESTAMP = 2**63 - 1


def id_text(identifier: bytes) -> str | None:
    """Return an MQ id as JMS text: b'AMQ…' -> ``ID:414d51…``; None for an id of zeros."""
    return _PREFIX + identifier.hex() if identifier.strip(b"\0") else None


def id_bytes(text: str) -> bytes | None:
    """Return the 24 bytes of a text ``ID:414d51…``, padded with zeros; None for any other text."""
    if not text.startswith(_PREFIX):
        return None
    try:
        raw = bytes.fromhex(text.removeprefix(_PREFIX))
    except ValueError:
        return None
    return raw.ljust(_ID_BYTES, b"\0") if len(raw) <= _ID_BYTES else None


def sent_id_text(kept: str) -> str:
    """Return the JMSMessageID for an AMQP client's id: ``abc`` -> ``ID:AMQP_NO_PREFIX:abc``.

    An id that is no string has its type as prefix: ``AMQP_ULONG:5`` -> ``ID:AMQP_ULONG:5``. A text
    with ``ID:`` comes back unchanged.
    """
    if kept.startswith(_PREFIX):
        return kept
    return f"{_PREFIX}{kept if kept.startswith(_TYPED) else _NO_PREFIX + kept}"


def correlation_bytes(text: str) -> bytes:
    """Return the CorrelId (24 bytes) for a JMSCorrelationID.

    An ``ID:`` text gives the bytes of its digits. Any other text gives the first 24 bytes of its
    UTF-8. Both are padded with zeros.
    """
    identifier = id_bytes(text)
    if identifier is not None:
        return identifier
    return text.encode("utf-8", "replace")[:_ID_BYTES].ljust(_ID_BYTES, b"\0")


def correlation_text(correl_id: bytes, text: str | None) -> str | None:
    """Return the JMSCorrelationID for a CorrelId of 24 bytes and the text in the MQRFH2, if any.

    Returns the text if the CorrelId is made from it, else the CorrelId as ``ID:`` text; None for
    zeros. A CorrelId that is not made from the text was set by a program that did not know the
    text.
    """
    if text is not None and id_bytes(text) is None and correlation_bytes(text) == correl_id:
        return text
    return id_text(correl_id)


def timestamp_of(sent: str, put_ms: int) -> int:
    """Return the JMSTimestamp (epoch ms) in ``sent``, or ``put_ms`` if that text is no number.

    ``sent`` is the text that the sender has set, ``put_ms`` the time of the put.
    """
    sent = sent.strip()
    is_number = sent.isdecimal() and sent.isascii() and len(sent) < _TIMESTAMP_DIGITS
    return int(sent) if is_number and int(sent) <= _LARGEST_TIMESTAMP else put_ms


def type_of(name: str | None, set_: str | None, form: str | None, domain: str | None) -> str | None:
    """Return the JMSType from the fields of the ``mcd`` folder.

    It is ``name``, which may be None. With a set or format it is a URI:
    ``mcd://domain/set/name?format=form``.
    """
    if set_ is None and form is None:
        return name
    query = "" if form is None else f"?format={form}"
    return f"mcd://{domain or ''}/{set_ or ''}/{name or ''}{query}"


def canonical(text: str) -> str:
    """Return an ``ID:`` text with 48 lower case digits, so that equal ids are equal texts.

    Any other text comes back unchanged.
    """
    identifier = id_bytes(text)
    return text if identifier is None else id_text(identifier) or text


RESERVED = frozenset("NULL TRUE FALSE NOT AND OR BETWEEN LIKE IN IS ESCAPE".split())
MQMD = "Root.MQMD."
_TEXT_FIELDS = (
    "Format ReplyToQ ReplyToQMgr UserIdentifier ApplIdentityData PutApplName PutDate PutTime"
    " ApplOriginData".split()
)
_OTHER_FIELDS = (
    "Report MsgType Expiry Feedback Encoding CodedCharSetId Priority Persistence MsgId CorrelId"
    " BackoutCount AccountingToken PutApplType GroupId MsgSeqNumber Offset MsgFlags"
    " OriginalLength".split()
)
#: All of the MQMD but StrucId and Version, which are no properties.
MQMD_NAMES = frozenset(MQMD + field for field in [*_TEXT_FIELDS, *_OTHER_FIELDS])
#: The header fields that JMS lets a selector use.
HEADERS = frozenset(
    "JMSDeliveryMode JMSPriority JMSMessageID JMSTimestamp JMSCorrelationID JMSType".split()
)
MESSAGE_ID = "JMSMessageID"
#: The id that an AMQP client has given a message, else its MsgId. No selector can contain the name:
#: a comparison of JMSMessageID with an id that is no MQ id becomes a comparison of this name.
SENT_MESSAGE_ID = "JMSMessageID as sent"
#: The properties of JMS for report options, by the names of IBM's constants.
JMS_IBM_REPORT_EXCEPTION = "JMS_IBM_Report_Exception"
JMS_IBM_REPORT_EXPIRATION = "JMS_IBM_Report_Expiration"
JMS_IBM_REPORT_COA = "JMS_IBM_Report_COA"
JMS_IBM_REPORT_COD = "JMS_IBM_Report_COD"
JMS_IBM_REPORT_PAN = "JMS_IBM_Report_PAN"
JMS_IBM_REPORT_NAN = "JMS_IBM_Report_NAN"
JMS_IBM_REPORT_PASS_MSG_ID = "JMS_IBM_Report_Pass_Msg_ID"
JMS_IBM_REPORT_PASS_CORREL_ID = "JMS_IBM_Report_Pass_Correl_ID"
JMS_IBM_REPORT_DISCARD_MSG = "JMS_IBM_Report_Discard_Msg"
#: Each of them with the MQRO_* bits that it may carry.
REPORT_BITS = {
    JMS_IBM_REPORT_EXCEPTION: c.MQRO_EXCEPTION_WITH_FULL_DATA,
    JMS_IBM_REPORT_EXPIRATION: c.MQRO_EXPIRATION_WITH_FULL_DATA,
    JMS_IBM_REPORT_COA: c.MQRO_COA_WITH_FULL_DATA,
    JMS_IBM_REPORT_COD: c.MQRO_COD_WITH_FULL_DATA,
    JMS_IBM_REPORT_PAN: c.MQRO_PAN,
    JMS_IBM_REPORT_NAN: c.MQRO_NAN,
    JMS_IBM_REPORT_PASS_MSG_ID: c.MQRO_PASS_MSG_ID,
    JMS_IBM_REPORT_PASS_CORREL_ID: c.MQRO_PASS_CORREL_ID,
    JMS_IBM_REPORT_DISCARD_MSG: c.MQRO_DISCARD_MSG,
}
#: Mayfly's own: whether a message was found on the staging queue, before its delivery time.
JMS_MAYFLY_DELAYED = "JMS_Mayfly_Delayed"
#: The names of the topic string of a publication.
TOPIC_STRING = frozenset({"MQTopicString", "mqps.Top"})

_BLANK_PADDED = frozenset(MQMD + field for field in _TEXT_FIELDS) | {"JMS_IBM_Format"}
_IDENTIFIERS = frozenset({"JMSMessageID", "JMSCorrelationID"})
#: Java's name for a character set: only the JMS client knows it, so a selector cannot.
_NOT_HERE = "JMS_IBM_Character_Set"
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_START_CATEGORIES = frozenset("Lu Ll Lt Lm Lo Nl Sc Pc".split())
_PART_CATEGORIES = _START_CATEGORIES | frozenset("Nd Mn Mc Cf".split())


def check_name(name: str, index: int) -> None:
    """Raise MQRC_SELECTOR_SYNTAX_ERROR unless a selector may use this name.

    ``index`` is the name's position in the selector. A name is a Java identifier, or several with
    dots between them: a folder, its groups and a property (IBM MQ, "Mapping from property names to
    MQRFH2 folder and element names").
    """
    start = 0
    for part in name.split("."):
        if _PLAIN.fullmatch(part) is None:
            _check_identifier(part, index + start)
        start += len(part) + 1
    if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")) and name not in HEADERS:
        raise syntax_error(index, f"one of {', '.join(sorted(HEADERS))}", name)
    if name == _NOT_HERE:
        raise syntax_error(index, "Root.MQMD.CodedCharSetId", name)
    if name.startswith("Root.") and name not in MQMD_NAMES:
        raise syntax_error(index, "Root.MQMD. and a field of the MQMD", name)


def is_property(name: str) -> bool:
    """Return True if a name can only be a property in the ``usr`` folder, as ``colour``."""
    return not name.startswith("JMS") and "." not in name and name not in TOPIC_STRING


def comparable(name: str, literal: str) -> str:
    """Return a literal in the form in which the values of a name are compared.

    For text fields of the MQMD trailing blanks are removed; ids get 48 lower case digits. Literals
    for other names come back unchanged.
    """
    if name in _BLANK_PADDED:
        return literal.rstrip(" ")
    return canonical(literal) if name in _IDENTIFIERS else literal


def _check_identifier(part: str, index: int) -> None:
    """Raise MQRC_SELECTOR_SYNTAX_ERROR unless a part of a name is a Java identifier.

    ``index`` is its position in the selector.
    """
    if not part:
        raise syntax_error(index, "a name before and after each dot", "none")
    allowed = _START_CATEGORIES
    for offset, char in enumerate(part):
        if unicodedata.category(char) not in allowed and char != "$":
            raise syntax_error(index + offset, "a name as in Java", repr(char))
        allowed = _PART_CATEGORIES
