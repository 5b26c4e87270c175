"""Errors of AMQP: an error has a condition, such as amqp:not-found, and a description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proton import Condition, symbol

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

DECODE_ERROR: Final = "amqp:decode-error"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
FORCED: Final = "amqp:connection:forced"
INTERNAL_ERROR: Final = "amqp:internal-error"
INVALID_FIELD: Final = "amqp:invalid-field"
LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
NOT_FOUND: Final = "amqp:not-found"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
DELETED: Final = "amqp:resource-deleted"
LOCKED: Final = "amqp:resource-locked"
UNAUTHORIZED: Final = "amqp:unauthorized-access"
TOO_LARGE: Final = "amqp:link:message-size-exceeded"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNKNOWN_TRANSACTION: Final = "amqp:transaction:unknown-id"
ROLLED_BACK: Final = "amqp:transaction:rollback"

#: Conditions for which clients have a specific exception; every other reason code becomes
#: amqp:not-allowed.
CONDITIONS: Final = {
    rc.MQRC_NOT_AUTHORIZED: UNAUTHORIZED,
    rc.MQRC_IDENTITY_MISMATCH: UNAUTHORIZED,
    rc.MQRC_UNKNOWN_OBJECT_NAME: NOT_FOUND,
    rc.MQRC_UNKNOWN_ALIAS_BASE_Q: NOT_FOUND,
    rc.MQRC_UNKNOWN_REMOTE_Q_MGR: NOT_FOUND,
    rc.MQRC_UNKNOWN_DEF_XMIT_Q: NOT_FOUND,
    rc.MQRC_NO_SUBSCRIPTION: NOT_FOUND,
    rc.MQRC_OBJECT_NAME_ERROR: NOT_FOUND,
    rc.MQRC_TOPIC_STRING_ERROR: INVALID_FIELD,
    rc.MQRC_SELECTOR_SYNTAX_ERROR: INVALID_FIELD,
    rc.MQRC_EXPIRY_ERROR: INVALID_FIELD,
    rc.MQRC_Q_FULL: LIMIT_EXCEEDED,
    rc.MQRC_STORAGE_MEDIUM_FULL: LIMIT_EXCEEDED,
    rc.MQRC_RESOURCE_PROBLEM: LIMIT_EXCEEDED,
    rc.MQRC_CHANNEL_NOT_AVAILABLE: LIMIT_EXCEEDED,
    rc.MQRC_HANDLE_NOT_AVAILABLE: LIMIT_EXCEEDED,
    rc.MQRC_MSG_TOO_BIG_FOR_Q: LIMIT_EXCEEDED,
    rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR: LIMIT_EXCEEDED,
    rc.MQRC_PROPERTIES_TOO_BIG: LIMIT_EXCEEDED,
    rc.MQRC_OBJECT_IN_USE: LOCKED,
    rc.MQRC_SUBSCRIPTION_IN_USE: LOCKED,
    rc.MQRC_SUB_ALREADY_EXISTS: LOCKED,
    rc.MQRC_Q_DELETED: DELETED,
    rc.MQRC_CONNECTION_BROKEN: FORCED,
    rc.MQRC_Q_MGR_STOPPING: FORCED,
    rc.MQRC_Q_MGR_QUIESCING: FORCED,
    rc.MQRC_UNEXPECTED_ERROR: INTERNAL_ERROR,
}


class AmqpError(Exception):
    """An AMQP error to send to the client."""

    def __init__(
        self, condition: str, description: str, info: Mapping[symbol, Any] | None = None
    ) -> None:
        """Take the condition and its description; ``info`` is a map for client programs."""
        super().__init__(description)
        self.condition, self.description, self.info = condition, description, info

    def as_condition(self) -> Condition:
        """Return the error as proton's class ``Condition``."""
        return Condition(self.condition, self.description, self.info)


def wrong_field(reason: int, text: str) -> AmqpError:
    """Return AmqpError amqp:invalid-field, with an MQ reason code in the description."""
    return AmqpError(INVALID_FIELD, str(mq_error(reason, text)))


def amqp_error(error: MQError | AmqpError) -> AmqpError:
    """Return an MQError as an AmqpError, whose description begins with the reason code.

    The condition is in CONDITIONS, otherwise amqp:not-allowed. An AmqpError is returned unchanged.
    """
    if isinstance(error, AmqpError):
        return error
    condition = CONDITIONS.get(error.reason, NOT_ALLOWED)
    return AmqpError(condition, str(error))
