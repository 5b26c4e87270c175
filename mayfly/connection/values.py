"""Parameters and results of the verbs of a connection: named tuples of numbers, bytes and text.

``stored_id`` makes an id of 24 bytes, ``plain_descriptor`` a descriptor of the values that a
program gives, ``bytes_of`` the body of a message, ``token_of`` its MsgToken. ``text_length`` is the
padded length of a text attribute. ``check_most`` refuses a wrong number of messages to get, whose
bodies have MOST_BYTES at about the most.
"""

from mayfly.contracts.claims import ConsumerState
from mayfly.engine import (
    AuditEntry,
    Identifier,
    Message,
    OwnTime,
    Receipt,
    Scheduled,
    ScheduleFilter,
    Value,
    Verification,
    Whereabouts,
    check_name,
    check_topic_string,
    stored_id,
)
from mayfly.engine.face.programs import (
    MOST_BYTES,
    Counts,
    Delivery,
    GetResult,
    Inquiry,
    PutResult,
    Settlement,
    Status,
    SubscriptionFacts,
    bytes_of,
    check_most,
    plain_descriptor,
    text_length,
    token_of,
)
from mayfly.properties.folders import Description as PropertyDescription
from mayfly.properties.folders import Property
from mayfly.verbs.requests import BackoutRule, Opened, Subscribed

__all__ = [
    "AuditEntry",
    "BackoutRule",
    "ConsumerState",
    "Counts",
    "Delivery",
    "GetResult",
    "Identifier",
    "Inquiry",
    "MOST_BYTES",
    "Message",
    "Opened",
    "OwnTime",
    "Property",
    "PropertyDescription",
    "PutResult",
    "Receipt",
    "ScheduleFilter",
    "Scheduled",
    "Settlement",
    "Status",
    "Subscribed",
    "SubscriptionFacts",
    "Value",
    "Verification",
    "Whereabouts",
    "bytes_of",
    "plain_descriptor",
    "check_most",
    "check_name",
    "check_topic_string",
    "stored_id",
    "text_length",
    "token_of",
]
