"""Constants of JMS, and the names of IBM MQ's message properties."""

from __future__ import annotations

from mayfly.verbs.properties.selectors.names import JMS_MAYFLY_DELAYED, REPORT_BITS

#: How a session confirms what it has received.
SESSION_TRANSACTED = 0
AUTO_ACKNOWLEDGE = 1
CLIENT_ACKNOWLEDGE = 2
DUPS_OK_ACKNOWLEDGE = 3
ACKNOWLEDGE_MODES = (
    SESSION_TRANSACTED,
    AUTO_ACKNOWLEDGE,
    CLIENT_ACKNOWLEDGE,
    DUPS_OK_ACKNOWLEDGE,
)


class DeliveryMode:
    """Whether a message survives a restart of the queue manager."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


NON_PERSISTENT = DeliveryMode.NON_PERSISTENT
PERSISTENT = DeliveryMode.PERSISTENT
DEFAULT_PRIORITY = 4

#: In a destination: as the queue definition says, or as the application says.
AS_QUEUE_DEFINITION = -1
AS_APPLICATION = -2
#: In a destination: whether the other side understands an MQRFH2.
TARGET_CLIENT_JMS = 0
TARGET_CLIENT_MQ = 1

#: Names of properties, by the names that IBM MQ classes for JMS give them.
JMSX_GROUPID = "JMSXGroupID"
JMSX_GROUPSEQ = "JMSXGroupSeq"
JMSX_DELIVERY_COUNT = "JMSXDeliveryCount"
JMSX_USERID = "JMSXUserID"
JMSX_APPID = "JMSXAppID"
JMS_IBM_RETAIN = "JMS_IBM_Retain"
RETAIN_PUBLICATION = 1
JMS_IBM_MSGTYPE = "JMS_IBM_MsgType"
JMS_IBM_FEEDBACK = "JMS_IBM_Feedback"
JMS_IBM_FORMAT = "JMS_IBM_Format"
JMS_IBM_ENCODING = "JMS_IBM_Encoding"
JMS_IBM_CHARACTER_SET = "JMS_IBM_Character_Set"
JMS_IBM_PUTDATE = "JMS_IBM_PutDate"
JMS_IBM_PUTTIME = "JMS_IBM_PutTime"
JMS_IBM_PUTAPPLTYPE = "JMS_IBM_PutApplType"
JMS_IBM_LAST_MSG_IN_GROUP = "JMS_IBM_Last_Msg_In_Group"

#: Properties that the sender gives and the descriptor carries.
DESCRIPTOR_PROPERTIES = frozenset(REPORT_BITS) | {
    JMSX_GROUPID,
    JMSX_GROUPSEQ,
    JMS_IBM_RETAIN,
    JMS_IBM_MSGTYPE,
    JMS_IBM_FEEDBACK,
    JMS_IBM_FORMAT,
    JMS_IBM_ENCODING,
    JMS_IBM_CHARACTER_SET,
    JMS_IBM_LAST_MSG_IN_GROUP,
}
#: Properties that the queue manager alone gives; values set by a sender are ignored.
PROVIDED_PROPERTIES = frozenset(
    {
        JMSX_DELIVERY_COUNT,
        JMSX_USERID,
        JMSX_APPID,
        "JMSXProducerTXID",
        "JMSXConsumerTXID",
        "JMSXRcvTimestamp",
        "JMSXState",
        JMS_IBM_PUTDATE,
        JMS_IBM_PUTTIME,
        JMS_IBM_PUTAPPLTYPE,
        JMS_MAYFLY_DELAYED,
    }
)
KNOWN_PROPERTIES = DESCRIPTOR_PROPERTIES | PROVIDED_PROPERTIES
