"""Errors of the queue manager, by the reaction that they ask for, and errors of the store.

    MQError                  any failing call; .comp, .reason, .detail
    +-- ObjectError          name another object, or wait until it is free
    +-- OptionsError         the program is wrong: change the call
    +-- ResourceError        full or too big: make room, then try again
    +-- NoMessage            nothing there: wait, or do something else
    +-- NotAuthorized        ask for the authority
    +-- ConnectionBroken     connect again
    |   +-- LostAnswer       connect again and find out whether the call took effect
    +-- InhibitedError       the queue is switched off: wait until it is allowed
    +-- CannotBeGiven        the message has no form that this client takes: continue with the next

    StoreError               the folder of a queue manager cannot be used; .path
    +-- StoreDamaged         the data on disk is damaged; the queue manager stops
    +-- StoreCopied          the folder is a copy: say whether it may be used
    +-- FolderInUse          another process or queue manager owns the folder
    +-- NewerSchema          written by a newer Mayfly than this one

A warning is a result, never an exception.
"""

from pathlib import Path
from typing import NamedTuple

import mayfly.mqi.reasons as rc
from mayfly.mqi.constants import MQCC_FAILED


class MQError(Exception):
    """A call failed with a completion and reason code.

    ``detail`` names the wrong field and its value.
    """

    def __init__(self, reason: int, detail: str = "", comp: int = MQCC_FAILED) -> None:
        """Create the error with reason code ``reason`` (MQRC_*).

        ``detail`` is text on the cause, ``comp`` the completion code.
        """
        super().__init__(reason, detail, comp)
        self.comp = comp
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{rc.reason_name(self.reason)} ({self.reason}): {self.detail or self.text}"

    @property
    def text(self) -> str:
        """The meaning of the reason code in one sentence."""
        return rc.reason_text(self.reason)


class ObjectError(MQError):
    """The object does not exist, is in use, or is of the wrong kind."""


class OptionsError(MQError):
    """The call itself is wrong: options, descriptor fields, headers or handles."""


class ResourceError(MQError):
    """Something is full or a limit is reached."""


class NoMessage(MQError):
    """There is no message to return."""


class NotAuthorized(MQError):
    """The user lacks the authority."""


class ConnectionBroken(MQError):
    """The connection or the queue manager has ended, or is ending."""


class LostAnswer(ConnectionBroken):
    """The call was made, but its answer was lost: whether it took effect is unknown."""


class InhibitedError(MQError):
    """Put, get or subscribe is switched off."""


class CannotBeGiven(MQError):
    """A message on a queue cannot be converted to the message format of a client's protocol.

    The message is at fault, not the client: no client of that protocol can have it. A consumer
    moves it to BOQNAME, or to the dead-letter queue with the reason, and continues with the next; a
    reader shows its bytes with the reason, and changes nothing.
    """

    def __init__(self, why: str, reason: int = rc.MQRC_FORMAT_ERROR) -> None:
        """Create the error; ``why`` is text on the cause, ``reason`` the reason code (MQRC_*)."""
        super().__init__(reason, why)


_REASONS_BY_CLASS: dict[type[MQError], tuple[int, ...]] = {
    ObjectError: (
        rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR,
        rc.MQRC_DYNAMIC_Q_NAME_ERROR,
        rc.MQRC_OBJECT_CHANGED,
        rc.MQRC_OBJECT_IN_USE,
        rc.MQRC_OBJECT_TYPE_ERROR,
        rc.MQRC_Q_DELETED,
        rc.MQRC_Q_NOT_EMPTY,
        rc.MQRC_Q_TYPE_ERROR,
        rc.MQRC_Q_MGR_NAME_ERROR,
        rc.MQRC_UNKNOWN_ALIAS_BASE_Q,
        rc.MQRC_UNKNOWN_OBJECT_NAME,
        rc.MQRC_UNKNOWN_OBJECT_Q_MGR,
        rc.MQRC_UNKNOWN_REMOTE_Q_MGR,
        rc.MQRC_XMIT_Q_TYPE_ERROR,
        rc.MQRC_XMIT_Q_USAGE_ERROR,
        rc.MQRC_OBJECT_ALREADY_EXISTS,
        rc.MQRC_OBJECT_DAMAGED,
        rc.MQRC_OBJECT_NAME_ERROR,
        rc.MQRC_OBJECT_Q_MGR_NAME_ERROR,
        rc.MQRC_REMOTE_Q_NAME_ERROR,
        rc.MQRC_CLUSTER_RESOLUTION_ERROR,
        rc.MQRC_UNKNOWN_XMIT_Q,
        rc.MQRC_UNKNOWN_DEF_XMIT_Q,
        rc.MQRC_DEF_XMIT_Q_TYPE_ERROR,
        rc.MQRC_DEF_XMIT_Q_USAGE_ERROR,
        rc.MQRC_NO_DESTINATIONS_AVAILABLE,
        rc.MQRC_NO_SUBSCRIPTION,
        rc.MQRC_SUBSCRIPTION_IN_USE,
        rc.MQRC_SUB_ALREADY_EXISTS,
        rc.MQRC_INVALID_DESTINATION,
        rc.MQRC_UNKNOWN_CHANNEL_NAME,
        rc.MQRC_Q_INDEX_TYPE_ERROR,
    ),
    OptionsError: (
        rc.MQRC_BUFFER_ERROR,
        rc.MQRC_BUFFER_LENGTH_ERROR,
        rc.MQRC_CHAR_ATTR_LENGTH_ERROR,
        rc.MQRC_DATA_LENGTH_ERROR,
        rc.MQRC_ENVIRONMENT_ERROR,
        rc.MQRC_EXPIRY_ERROR,
        rc.MQRC_FEEDBACK_ERROR,
        rc.MQRC_HOBJ_ERROR,
        rc.MQRC_INHIBIT_VALUE_ERROR,
        rc.MQRC_INT_ATTR_COUNT_ERROR,
        rc.MQRC_MD_ERROR,
        rc.MQRC_MISSING_REPLY_TO_Q,
        rc.MQRC_MSG_TYPE_ERROR,
        rc.MQRC_NOT_OPEN_FOR_BROWSE,
        rc.MQRC_NOT_OPEN_FOR_INPUT,
        rc.MQRC_NOT_OPEN_FOR_INQUIRE,
        rc.MQRC_NOT_OPEN_FOR_OUTPUT,
        rc.MQRC_NOT_OPEN_FOR_SET,
        rc.MQRC_OD_ERROR,
        rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
        rc.MQRC_OPTIONS_ERROR,
        rc.MQRC_PERSISTENCE_ERROR,
        rc.MQRC_PERSISTENT_NOT_ALLOWED,
        rc.MQRC_PRIORITY_ERROR,
        rc.MQRC_REPORT_OPTIONS_ERROR,
        rc.MQRC_SELECTOR_COUNT_ERROR,
        rc.MQRC_SELECTOR_LIMIT_EXCEEDED,
        rc.MQRC_SELECTOR_ERROR,
        rc.MQRC_TRIGGER_CONTROL_ERROR,
        rc.MQRC_TRIGGER_DEPTH_ERROR,
        rc.MQRC_TRIGGER_MSG_PRIORITY_ERR,
        rc.MQRC_TRIGGER_TYPE_ERROR,
        rc.MQRC_SYNCPOINT_NOT_AVAILABLE,
        rc.MQRC_WAIT_INTERVAL_ERROR,
        rc.MQRC_NOT_OPEN_FOR_PASS_ALL,
        rc.MQRC_NOT_OPEN_FOR_PASS_IDENT,
        rc.MQRC_NOT_OPEN_FOR_SET_ALL,
        rc.MQRC_NOT_OPEN_FOR_SET_IDENT,
        rc.MQRC_CONTEXT_HANDLE_ERROR,
        rc.MQRC_CONTEXT_NOT_AVAILABLE,
        rc.MQRC_BO_ERROR,
        rc.MQRC_CNO_ERROR,
        rc.MQRC_DLH_ERROR,
        rc.MQRC_HEADER_ERROR,
        rc.MQRC_IIH_ERROR,
        rc.MQRC_RECS_PRESENT_ERROR,
        rc.MQRC_PMO_ERROR,
        rc.MQRC_INCONSISTENT_PERSISTENCE,
        rc.MQRC_GMO_ERROR,
        rc.MQRC_TMC_ERROR,
        rc.MQRC_CALL_IN_PROGRESS,
        rc.MQRC_UNIT_OF_WORK_NOT_STARTED,
        rc.MQRC_INCOMPLETE_GROUP,
        rc.MQRC_INCOMPLETE_MSG,
        rc.MQRC_INCONSISTENT_UOW,
        rc.MQRC_INVALID_MSG_UNDER_CURSOR,
        rc.MQRC_MATCH_OPTIONS_ERROR,
        rc.MQRC_MDE_ERROR,
        rc.MQRC_MSG_FLAGS_ERROR,
        rc.MQRC_MSG_SEQ_NUMBER_ERROR,
        rc.MQRC_OFFSET_ERROR,
        rc.MQRC_ORIGINAL_LENGTH_ERROR,
        rc.MQRC_SEGMENT_LENGTH_ZERO,
        rc.MQRC_WRONG_GMO_VERSION,
        rc.MQRC_WRONG_MD_VERSION,
        rc.MQRC_GROUP_ID_ERROR,
        rc.MQRC_INCONSISTENT_BROWSE,
        rc.MQRC_XQH_ERROR,
        rc.MQRC_TM_ERROR,
        rc.MQRC_FUNCTION_NOT_SUPPORTED,
        rc.MQRC_MSG_TOKEN_ERROR,
        rc.MQRC_RFH_ERROR,
        rc.MQRC_RFH_STRING_ERROR,
        rc.MQRC_RFH_FORMAT_ERROR,
        rc.MQRC_MSG_NOT_ALLOWED_IN_GROUP,
        rc.MQRC_EPH_ERROR,
        rc.MQRC_SD_ERROR,
        rc.MQRC_SRO_ERROR,
        rc.MQRC_STS_ERROR,
        rc.MQRC_STAT_TYPE_ERROR,
        rc.MQRC_TOPIC_STRING_ERROR,
        rc.MQRC_SUB_NAME_ERROR,
        rc.MQRC_SUB_USER_DATA_ERROR,
        rc.MQRC_DURABILITY_NOT_ALTERABLE,
        rc.MQRC_TOPIC_NOT_ALTERABLE,
        rc.MQRC_SELECTOR_NOT_ALTERABLE,
        rc.MQRC_DEST_CLASS_NOT_ALTERABLE,
        rc.MQRC_PROPERTY_NAME_ERROR,
        rc.MQRC_SEGMENTATION_NOT_ALLOWED,
        rc.MQRC_SELECTION_STRING_ERROR,
        rc.MQRC_SELECTOR_SYNTAX_ERROR,
        rc.MQRC_SELECTOR_ALWAYS_FALSE,
        rc.MQRC_SELECTOR_INVALID_FOR_TYPE,
        rc.MQRC_HMSG_ERROR,
        rc.MQRC_CMHO_ERROR,
        rc.MQRC_DMHO_ERROR,
        rc.MQRC_SMPO_ERROR,
        rc.MQRC_IMPO_ERROR,
        rc.MQRC_PROPERTY_VALUE_TOO_BIG,
        rc.MQRC_PROP_CONV_NOT_SUPPORTED,
        rc.MQRC_PROP_NUMBER_FORMAT_ERROR,
        rc.MQRC_PROPERTY_TYPE_ERROR,
        rc.MQRC_DMPO_ERROR,
        rc.MQRC_PD_ERROR,
        rc.MQRC_MIXED_CONTENT_NOT_ALLOWED,
        rc.MQRC_PROPERTY_NAME_LENGTH_ERR,
        rc.MQRC_ACTION_ERROR,
        rc.MQRC_CD_ERROR,
        rc.MQRC_CLIENT_EXIT_LOAD_ERROR,
        rc.MQRC_CLIENT_CONN_ERROR,
        rc.MQRC_KEY_REPOSITORY_ERROR,
        rc.MQRC_SSL_PEER_NAME_ERROR,
        rc.MQRC_RECONNECT_INCOMPATIBLE,
        rc.MQRC_RECONNECT_Q_MGR_REQD,
        rc.MQRC_CCDT_URL_ERROR,
    ),
    ResourceError: (
        rc.MQRC_HANDLE_NOT_AVAILABLE,
        rc.MQRC_SYNCPOINT_LIMIT_REACHED,
        rc.MQRC_MAX_CONNS_LIMIT_REACHED,
        rc.MQRC_MSG_TOO_BIG_FOR_Q,
        rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR,
        rc.MQRC_Q_FULL,
        rc.MQRC_Q_SPACE_NOT_AVAILABLE,
        rc.MQRC_RESOURCE_PROBLEM,
        rc.MQRC_STORAGE_MEDIUM_FULL,
        rc.MQRC_PAGESET_ERROR,
        rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL,
        rc.MQRC_UOW_NOT_AVAILABLE,
        rc.MQRC_HMSG_NOT_AVAILABLE,
        rc.MQRC_PROPERTIES_TOO_BIG,
    ),
    NoMessage: (
        rc.MQRC_NO_MSG_AVAILABLE,
        rc.MQRC_NO_MSG_UNDER_CURSOR,
        rc.MQRC_NO_RETAINED_MSG,
    ),
    NotAuthorized: (
        rc.MQRC_NOT_AUTHORIZED,
        rc.MQRC_SECURITY_ERROR,
        rc.MQRC_CONNECTION_NOT_AUTHORIZED,
        rc.MQRC_IDENTITY_MISMATCH,
    ),
    ConnectionBroken: (
        rc.MQRC_CONNECTION_BROKEN,
        rc.MQRC_HCONN_ERROR,
        rc.MQRC_Q_MGR_NOT_AVAILABLE,
        rc.MQRC_Q_MGR_QUIESCING,
        rc.MQRC_Q_MGR_STOPPING,
        rc.MQRC_CONNECTION_QUIESCING,
        rc.MQRC_HOST_NOT_AVAILABLE,
        rc.MQRC_CHANNEL_CONFIG_ERROR,
        rc.MQRC_CONNECTION_STOPPING,
        rc.MQRC_SSL_INITIALIZATION_ERROR,
        rc.MQRC_JSSE_ERROR,
        rc.MQRC_SSL_PEER_NAME_MISMATCH,
        rc.MQRC_CHANNEL_NOT_AVAILABLE,
        rc.MQRC_RECONNECT_QMID_MISMATCH,
        rc.MQRC_RECONNECT_FAILED,
        rc.MQRC_CALL_INTERRUPTED,
        rc.MQRC_RECONNECT_TIMED_OUT,
    ),
    InhibitedError: (
        rc.MQRC_GET_INHIBITED,
        rc.MQRC_PUT_INHIBITED,
        rc.MQRC_SUB_INHIBITED,
        rc.MQRC_PUBSUB_INHIBITED,
        rc.MQRC_DURABILITY_NOT_ALLOWED,
    ),
}

#: Reason code -> class of its error; a reason missing here is a plain MQError.
ERROR_CLASSES: dict[int, type[MQError]] = {
    reason: error for error, reasons in _REASONS_BY_CLASS.items() for reason in reasons
}


class Failure(NamedTuple):
    """An error as plain data, which crosses a process boundary; see :func:`error_of`."""

    error_class: str
    reason: int
    detail: str


def failure_of(error: MQError) -> Failure:
    """Return an error as plain data, to be sent to another process."""
    return Failure(type(error).__name__, error.reason, error.detail)


def error_of(failure: Failure) -> MQError:
    """Return (not raise) the error for a failure that another process has sent.

    Its class follows from the reason code; only LostAnswer is chosen by its class name.
    """
    if failure.error_class == LostAnswer.__name__:
        return LostAnswer(failure.reason, failure.detail)
    return mq_error(failure.reason, failure.detail)


def mq_error(reason: int, detail: str = "") -> MQError:
    """Return (not raise) the error for a reason code, of its class in ERROR_CLASSES.

    ``detail`` is text on the cause. A reason code without a class gives a plain MQError.
    """
    return ERROR_CLASSES.get(reason, MQError)(reason, detail)


class StoreError(Exception):
    """The folder of a queue manager cannot be used; ``path`` is the folder or file."""

    def __init__(self, message: str, path: str | Path) -> None:
        """Create the error about a folder or file ``path``."""
        super().__init__(message, path)
        self.message = message
        self.path = Path(path)

    def __str__(self) -> str:
        is_named = str(self.path) in self.message
        return self.message if is_named else f"{self.message}: {self.path}"


class StoreDamaged(StoreError):
    """The data on disk is damaged; the queue manager stops."""


class StoreCopied(StoreError):
    """The database is a copy: messages that were got since it was made are there again.

    Its reason for programs is MQRC_Q_MGR_NOT_AVAILABLE. ``mayfly verify --accept-restored`` makes
    the copy a queue manager's own.
    """


class FolderInUse(StoreError):
    """Another process, or another queue manager of this process, owns the folder."""


class NewerSchema(StoreError):
    """The store was written by a newer Mayfly; it is not opened and not changed."""
