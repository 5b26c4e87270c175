"""MQ Everyplace queues: lifetimes by queue or message, rules, transmission in two stages."""

from mayfly.everyplace.directory import DEAD_LETTER_QUEUE_NAME
from mayfly.everyplace.errors import EveryplaceError, RuleRefused
from mayfly.everyplace.fields import (
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
from mayfly.everyplace.journal import Ended
from mayfly.everyplace.links import Fault, Link, LinkDown
from mayfly.everyplace.manager import EveryplaceQueueManager
from mayfly.everyplace.rules import MessageState, QueueEntry, QueueRule, RuleOwner
from mayfly.lifetime.everyplace import SkewedClock

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
