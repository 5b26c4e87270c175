"""JMS 2.0 in Python spelling, simplified and classic API; see docs/JMS.md."""

from mayfly.jms.async_sending import CompletionListener
from mayfly.jms.bodies import MapMessage, StreamMessage
from mayfly.jms.browsers import QueueBrowser
from mayfly.jms.bytes_message import BytesMessage
from mayfly.jms.connections import Connection
from mayfly.jms.constants import (
    AUTO_ACKNOWLEDGE,
    CLIENT_ACKNOWLEDGE,
    DUPS_OK_ACKNOWLEDGE,
    NON_PERSISTENT,
    PERSISTENT,
    RETAIN_PUBLICATION,
    SESSION_TRANSACTED,
    DeliveryMode,
)
from mayfly.jms.consumers import MessageConsumer
from mayfly.jms.contexts import JMSContext
from mayfly.jms.destinations import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from mayfly.jms.errors import (
    IllegalStateException,
    IllegalStateRuntimeException,
    InvalidClientIDException,
    InvalidClientIDRuntimeException,
    InvalidDestinationException,
    InvalidDestinationRuntimeException,
    InvalidSelectorException,
    InvalidSelectorRuntimeException,
    JMSException,
    JMSRuntimeException,
    JMSSecurityException,
    JMSSecurityRuntimeException,
    MessageEOFException,
    MessageFormatException,
    MessageFormatRuntimeException,
    MessageNotReadableException,
    MessageNotWriteableException,
    MessageNotWriteableRuntimeException,
    NumberFormatException,
    ResourceAllocationException,
    ResourceAllocationRuntimeException,
    TransactionRolledBackException,
    TransactionRolledBackRuntimeException,
)
from mayfly.jms.factory import ConnectionFactory
from mayfly.jms.messages import Message, TextMessage
from mayfly.jms.metadata import ConnectionMetaData
from mayfly.jms.producers import MessageProducer
from mayfly.jms.sessions import Session
from mayfly.jms.simplified_consumers import JMSBrowser, JMSConsumer
from mayfly.jms.simplified_producer import JMSProducer

__all__ = [
    "ConnectionFactory",
    "JMSContext",
    "JMSProducer",
    "JMSConsumer",
    "JMSBrowser",
    "Connection",
    "Session",
    "MessageProducer",
    "MessageConsumer",
    "QueueBrowser",
    "CompletionListener",
    "ConnectionMetaData",
    "Destination",
    "Queue",
    "TemporaryQueue",
    "Topic",
    "TemporaryTopic",
    "Message",
    "TextMessage",
    "BytesMessage",
    "MapMessage",
    "StreamMessage",
    "AUTO_ACKNOWLEDGE",
    "CLIENT_ACKNOWLEDGE",
    "DUPS_OK_ACKNOWLEDGE",
    "SESSION_TRANSACTED",
    "DeliveryMode",
    "PERSISTENT",
    "NON_PERSISTENT",
    "RETAIN_PUBLICATION",
    "JMSException",
    "IllegalStateException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "JMSSecurityException",
    "MessageEOFException",
    "MessageFormatException",
    "NumberFormatException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "ResourceAllocationException",
    "TransactionRolledBackException",
    "JMSRuntimeException",
    "IllegalStateRuntimeException",
    "InvalidClientIDRuntimeException",
    "InvalidDestinationRuntimeException",
    "InvalidSelectorRuntimeException",
    "JMSSecurityRuntimeException",
    "MessageFormatRuntimeException",
    "MessageNotWriteableRuntimeException",
    "ResourceAllocationRuntimeException",
    "TransactionRolledBackRuntimeException",
]
