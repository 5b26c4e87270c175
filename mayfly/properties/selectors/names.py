"""The names that a selector may use, and the form in which literals are compared with values."""

from __future__ import annotations

import re
import unicodedata

from mayfly.mqi import constants as c
from mayfly.properties.selectors.errors import syntax_error
from mayfly.properties.selectors.identifiers import canonical

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
#: The id that a client of AMQP has given a message, else its MsgId. No selector can spell it: a
#: comparison of JMSMessageID with an id that is none of MQ asks for it.
SENT_MESSAGE_ID = "JMSMessageID as sent"
#: The properties of JMS that stand for report options, by the names of IBM's constants.
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
#: Names whose values are known without the body of the message, where an MQRFH2 would be.
WITHOUT_BODY = (
    MQMD_NAMES
    | REPORT_BITS.keys()
    | TOPIC_STRING
    | {"JMSDeliveryMode", "JMSPriority", "JMSMessageID"}
    | {"JMSXDeliveryCount", "JMSXUserID", "JMSXAppID", "JMS_IBM_Last_Msg_In_Group"}
    | {"JMS_IBM_MsgType", "JMS_IBM_Feedback", "JMS_IBM_PutApplType"}
    | {"JMS_IBM_PutDate", "JMS_IBM_PutTime"}
)
_BLANK_PADDED = frozenset(MQMD + field for field in _TEXT_FIELDS) | {"JMS_IBM_Format"}
_IDENTIFIERS = frozenset({"JMSMessageID", "JMSCorrelationID"})
#: Java's name for a character set: only the JMS client knows it, so a selector cannot.
_NOT_HERE = "JMS_IBM_Character_Set"
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_START_CATEGORIES = frozenset("Lu Ll Lt Lm Lo Nl Sc Pc".split())
_PART_CATEGORIES = _START_CATEGORIES | frozenset("Nd Mn Mc Cf".split())


def check_name(name: str, index: int) -> None:
    """Raise MQRC_SELECTOR_SYNTAX_ERROR unless a selector may use this name, found at this index.

    A name is a Java identifier, or several with dots between them: a folder, its groups and a
    property (IBM MQ, "Mapping from property names to MQRFH2 folder and element names").
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
    """Return True if a name can only be a property in the ``usr`` folder."""
    return not name.startswith("JMS") and "." not in name and name not in TOPIC_STRING


def comparable(name: str, literal: str) -> str:
    """Return a literal in the form in which the value of this name is given.

    Fields of the MQMD come without their padding, ids with 48 lower case digits.
    """
    if name in _BLANK_PADDED:
        return literal.rstrip(" ")
    return canonical(literal) if name in _IDENTIFIERS else literal


def _check_identifier(part: str, index: int) -> None:
    if not part:
        raise syntax_error(index, "a name before and after each dot", "none")
    allowed = _START_CATEGORIES
    for offset, char in enumerate(part):
        if unicodedata.category(char) not in allowed and char != "$":
            raise syntax_error(index + offset, "a name as in Java", repr(char))
        allowed = _PART_CATEGORIES
