"""MQ Everyplace queues: lifetimes by queue or message, rules, transmission in two stages."""

from mayfly.lifetime.everyplace import SkewedClock
from mayfly.services.everyplace.definitions import DEAD_LETTER_QUEUE_NAME
from mayfly.services.everyplace.errors import Ended, EveryplaceError, LinkDown, RuleRefused
from mayfly.services.everyplace.fields import (
    MSG_CORREL_ID,
    MSG_EXPIRE_TIME,
    MSG_PRIORITY,
    MSG_REPLY_TO_Q,
    MSG_REPLY_TO_Q_MGR,
    MSG_RESEND,
    FieldType,
    MessageFields,
    MessageUid,
)
from mayfly.services.everyplace.links import Fault, Link
from mayfly.services.everyplace.manager import EveryplaceQueueManager
from mayfly.services.everyplace.rules import MessageState, QueueEntry, QueueRule, RuleOwner

__all__ = [
    "EveryplaceQueueManager",
    "MessageFields",
    "QueueRule",
    "RuleOwner",
    "EveryplaceError",
    "RuleRefused",
    "Ended",
    "LinkDown",
    "Link",
    "Fault",
    "QueueEntry",
    "MessageState",
    "MessageUid",
    "FieldType",
    "SkewedClock",
    "DEAD_LETTER_QUEUE_NAME",
    "MSG_EXPIRE_TIME",
    "MSG_RESEND",
    "MSG_PRIORITY",
    "MSG_CORREL_ID",
    "MSG_REPLY_TO_Q",
    "MSG_REPLY_TO_Q_MGR",
]
