"""The exceptions of JMS: one tree for the classic API, one for the simplified API.

    JMSException                          JMSRuntimeException
    +-- IllegalStateException             +-- IllegalStateRuntimeException
    +-- InvalidClientIDException          +-- InvalidClientIDRuntimeException
    +-- InvalidDestinationException       +-- InvalidDestinationRuntimeException
    +-- InvalidSelectorException          +-- InvalidSelectorRuntimeException
    +-- JMSSecurityException              +-- JMSSecurityRuntimeException
    +-- MessageEOFException               |   (JMSRuntimeException)
    +-- MessageFormatException            +-- MessageFormatRuntimeException
    |   +-- NumberFormatException         |   (the same)
    +-- MessageNotReadableException       |   (JMSRuntimeException)
    +-- MessageNotWriteableException      +-- MessageNotWriteableRuntimeException
    +-- ResourceAllocationException       +-- ResourceAllocationRuntimeException
    +-- TransactionRolledBackException    +-- TransactionRolledBackRuntimeException

Each has ``reason``, the MQRC_* number, or 0 without one; the MQError is then the ``__cause__``.
Messages belong to neither API: their errors are of the left tree until a producer, consumer or
context of the simplified API passes them on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NotAuthorized, ResourceError, mq_error

P = ParamSpec("P")
R = TypeVar("R")
#: An object of the classic API, and one of the simplified API that has it behind it.
C = TypeVar("C")
S = TypeVar("S")


class _Failure(Exception):
    """An error of either JMS API; ``reason`` is the MQ reason code, 0 for none."""

    def __init__(self, detail: str, reason: int = rc.MQRC_NONE) -> None:
        """Take the detail text, and the MQ reason code, 0 for none."""
        super().__init__(detail, reason)
        self.detail = detail
        self.reason = reason

    @property
    def error_code(self) -> str:
        """The name of the reason code, such as ``MQRC_Q_FULL``; without one the class name."""
        return rc.reason_name(self.reason) if self.reason else type(self).__name__

    def __str__(self) -> str:
        return f"{self.error_code} ({self.reason}): {self.detail}" if self.reason else self.detail


class JMSException(_Failure):
    """A call of the classic API failed; ``reason`` is the MQ reason code, 0 for none."""


class IllegalStateException(JMSException):
    """The session or connection is closed, or in a state that does not allow the call."""


class InvalidClientIDException(JMSException):
    """The client identifier is invalid, or another connection uses it."""


class InvalidDestinationException(JMSException):
    """The object is not a destination, or the queue manager does not know it."""


class InvalidSelectorException(JMSException):
    """The message selector is invalid."""


class JMSSecurityException(JMSException):
    """The user is not authorized."""


class MessageEOFException(JMSException):
    """The read went past the end of a stream or bytes message."""


class MessageFormatException(JMSException):
    """The value has the wrong type, or cannot be converted."""


class NumberFormatException(MessageFormatException, ValueError):
    """The text is not a number of the requested type."""


class MessageNotReadableException(JMSException):
    """The body is in write mode: call ``reset`` first."""


class MessageNotWriteableException(JMSException):
    """The body or the properties of a received message are read-only."""


class ResourceAllocationException(JMSException):
    """A queue or another resource is full, or a limit is reached."""


class TransactionRolledBackException(JMSException):
    """The commit failed, and the unit of work was rolled back."""


class JMSRuntimeException(_Failure):
    """A call of the simplified API failed; ``reason`` is the MQ reason code, 0 for none."""


class IllegalStateRuntimeException(JMSRuntimeException):
    """IllegalStateException in the simplified API: closed, or the wrong state for the call."""


class InvalidClientIDRuntimeException(JMSRuntimeException):
    """InvalidClientIDException in the simplified API: the client identifier is refused."""


class InvalidDestinationRuntimeException(JMSRuntimeException):
    """InvalidDestinationException in the simplified API: the destination is unknown."""


class InvalidSelectorRuntimeException(JMSRuntimeException):
    """InvalidSelectorException in the simplified API: the message selector is invalid."""


class JMSSecurityRuntimeException(JMSRuntimeException):
    """JMSSecurityException in the simplified API: the user is not authorized."""


class MessageFormatRuntimeException(JMSRuntimeException):
    """MessageFormatException in the simplified API: the value has the wrong type."""


class MessageNotWriteableRuntimeException(JMSRuntimeException):
    """MessageNotWriteableException in the simplified API: the message is read-only."""


class ResourceAllocationRuntimeException(JMSRuntimeException):
    """ResourceAllocationException in the simplified API: a resource is full."""


class TransactionRolledBackRuntimeException(JMSRuntimeException):
    """TransactionRolledBackException in the simplified API: the commit rolled back."""


_RUNTIME_ERRORS: dict[type[JMSException], type[JMSRuntimeException]] = {
    IllegalStateException: IllegalStateRuntimeException,
    InvalidClientIDException: InvalidClientIDRuntimeException,
    InvalidDestinationException: InvalidDestinationRuntimeException,
    InvalidSelectorException: InvalidSelectorRuntimeException,
    JMSSecurityException: JMSSecurityRuntimeException,
    MessageFormatException: MessageFormatRuntimeException,
    NumberFormatException: MessageFormatRuntimeException,
    MessageNotWriteableException: MessageNotWriteableRuntimeException,
    ResourceAllocationException: ResourceAllocationRuntimeException,
    TransactionRolledBackException: TransactionRolledBackRuntimeException,
}
_BY_REASON: dict[int, type[JMSException]] = {
    rc.MQRC_BACKED_OUT: TransactionRolledBackException,
    rc.MQRC_IDENTITY_MISMATCH: JMSSecurityException,
    rc.MQRC_HCONN_ERROR: IllegalStateException,
    rc.MQRC_HOBJ_ERROR: IllegalStateException,
    rc.MQRC_SUBSCRIPTION_IN_USE: IllegalStateException,
    rc.MQRC_SELECTOR_SYNTAX_ERROR: InvalidSelectorException,
    rc.MQRC_SELECTOR_ALWAYS_FALSE: InvalidSelectorException,
    rc.MQRC_SELECTION_STRING_ERROR: InvalidSelectorException,
    **dict.fromkeys(
        (
            rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR,
            rc.MQRC_UNKNOWN_ALIAS_BASE_Q,
            rc.MQRC_UNKNOWN_OBJECT_NAME,
            rc.MQRC_UNKNOWN_OBJECT_Q_MGR,
            rc.MQRC_UNKNOWN_REMOTE_Q_MGR,
            rc.MQRC_OBJECT_NAME_ERROR,
            rc.MQRC_OBJECT_Q_MGR_NAME_ERROR,
            rc.MQRC_OBJECT_TYPE_ERROR,
            rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
            rc.MQRC_Q_DELETED,
            rc.MQRC_Q_TYPE_ERROR,
            rc.MQRC_DYNAMIC_Q_NAME_ERROR,
            rc.MQRC_REMOTE_Q_NAME_ERROR,
            rc.MQRC_UNKNOWN_XMIT_Q,
            rc.MQRC_UNKNOWN_DEF_XMIT_Q,
            rc.MQRC_TOPIC_STRING_ERROR,
            rc.MQRC_NO_SUBSCRIPTION,
        ),
        InvalidDestinationException,
    ),
    **dict.fromkeys(
        (
            rc.MQRC_RFH_ERROR,
            rc.MQRC_RFH_STRING_ERROR,
            rc.MQRC_RFH_FORMAT_ERROR,
            rc.MQRC_SOURCE_CCSID_ERROR,
            rc.MQRC_TARGET_CCSID_ERROR,
            rc.MQRC_NOT_CONVERTED,
        ),
        MessageFormatException,
    ),
}


def jms_error(error: MQError) -> JMSException:
    """Return the JMSException for an MQError, with its reason code and detail.

    The class depends on the reason code. The ``__cause__`` is not set: ``raise … from`` does that.
    """
    kind = _BY_REASON.get(error.reason, JMSException)
    if kind is JMSException and isinstance(error, ResourceError):
        kind = ResourceAllocationException
    elif isinstance(error, NotAuthorized):
        kind = JMSSecurityException
    return kind(error.detail or error.text, error.reason)


def caused_by(error: MQError) -> JMSException:
    """Return the JMSException for an MQError, with the MQError as its ``__cause__``."""
    made = jms_error(error)
    made.__cause__ = error
    return made


def refuse(reason: int, detail: str) -> NoReturn:
    """Raise the JMSException for a reason code; its ``__cause__`` is an MQError with that code."""
    raise caused_by(mq_error(reason, detail))


def runtime_error(error: JMSException) -> JMSRuntimeException:
    """Return the JMSRuntimeException for a JMSException, with same detail, reason and cause."""
    kind = _RUNTIME_ERRORS.get(type(error), JMSRuntimeException)
    made = kind(error.detail, error.reason)
    made.__cause__ = error.__cause__ or error
    return made


def classic(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method of the classic API: an MQError is raised as the matching JMSException."""

    @functools.wraps(call)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except MQError as error:
            raise jms_error(error) from error

    return wrapper


def simplified(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method of the simplified API: errors of MQ and JMS become JMSRuntimeException."""

    @functools.wraps(call)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except (JMSException, MQError) as error:
            made = runtime_error(caused_by(error) if isinstance(error, MQError) else error)
            raise made from made.__cause__

    return wrapper


def simplified_method(
    call: Callable[Concatenate[C, P], R], classic_of: Callable[[S], C]
) -> Callable[Concatenate[S, P], R]:
    """Return a method of the simplified API that calls ``call`` on ``classic_of(self)``.

    ``call`` is a method of the classic API. Its errors are raised as JMSRuntimeException.
    """

    @simplified
    @functools.wraps(call)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return call(classic_of(self), *args, **kwargs)

    return method
