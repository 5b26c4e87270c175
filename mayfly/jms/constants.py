"""Names and numbers of JMS, and of IBM MQ's own message properties."""

from __future__ import annotations

from mayfly.selectors.names import REPORT_BITS

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

JMSX_GROUP_ID = "JMSXGroupID"
JMSX_GROUP_SEQ = "JMSXGroupSeq"
JMSX_DELIVERY_COUNT = "JMSXDeliveryCount"
JMSX_USER_ID = "JMSXUserID"
JMSX_APP_ID = "JMSXAppID"
JMS_IBM_RETAIN = "JMS_IBM_Retain"
RETAIN_PUBLICATION = 1
JMS_IBM_MSG_TYPE = "JMS_IBM_MsgType"
JMS_IBM_FEEDBACK = "JMS_IBM_Feedback"
JMS_IBM_FORMAT = "JMS_IBM_Format"
JMS_IBM_ENCODING = "JMS_IBM_Encoding"
JMS_IBM_CHARACTER_SET = "JMS_IBM_Character_Set"
JMS_IBM_PUT_DATE = "JMS_IBM_PutDate"
JMS_IBM_PUT_TIME = "JMS_IBM_PutTime"
JMS_IBM_PUT_APPL_TYPE = "JMS_IBM_PutApplType"
JMS_IBM_LAST_MSG_IN_GROUP = "JMS_IBM_Last_Msg_In_Group"

#: Properties that the sender gives and the descriptor carries.
DESCRIPTOR_PROPERTIES = frozenset(REPORT_BITS) | {
    JMSX_GROUP_ID,
    JMSX_GROUP_SEQ,
    JMS_IBM_RETAIN,
    JMS_IBM_MSG_TYPE,
    JMS_IBM_FEEDBACK,
    JMS_IBM_FORMAT,
    JMS_IBM_ENCODING,
    JMS_IBM_CHARACTER_SET,
    JMS_IBM_LAST_MSG_IN_GROUP,
}
#: Properties that only the queue manager gives; what a sender sets is passed over.
PROVIDED_PROPERTIES = frozenset(
    {
        JMSX_DELIVERY_COUNT,
        JMSX_USER_ID,
        JMSX_APP_ID,
        "JMSXProducerTXID",
        "JMSXConsumerTXID",
        "JMSXRcvTimestamp",
        "JMSXState",
        JMS_IBM_PUT_DATE,
        JMS_IBM_PUT_TIME,
        JMS_IBM_PUT_APPL_TYPE,
    }
)
KNOWN_PROPERTIES = DESCRIPTOR_PROPERTIES | PROVIDED_PROPERTIES
