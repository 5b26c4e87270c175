"""Errors of pymqi: MQMIError for errors of the queue manager, PYIFError for wrong use."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCC_WARNING
from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import REASONS
from mayfly.pymqi import CMQC, CMQCFC

P = ParamSpec("P")
R = TypeVar("R")

#: Why there is no connection; the text of pymqi's errors has no place for it.
_EXPLAINED = frozenset(
    {
        rc.MQRC_CCDT_URL_ERROR,
        rc.MQRC_CD_ERROR,
        rc.MQRC_CHANNEL_CONFIG_ERROR,
        rc.MQRC_CHANNEL_NOT_AVAILABLE,
        rc.MQRC_CLIENT_CONN_ERROR,
        rc.MQRC_CLIENT_EXIT_LOAD_ERROR,
        rc.MQRC_HOST_NOT_AVAILABLE,
        rc.MQRC_KEY_REPOSITORY_ERROR,
        rc.MQRC_Q_MGR_NOT_AVAILABLE,
        rc.MQRC_SSL_INITIALIZATION_ERROR,
        rc.MQRC_UNKNOWN_CHANNEL_NAME,
    }
)


class Error(Exception):
    """The base class of the exceptions of this package."""


class PYIFError(Error):
    """Wrong use of the package: not connected, already open and so on."""

    def __init__(self, e: str) -> None:
        """Take the error text."""
        super().__init__(e)
        self.error = e

    def __str__(self) -> str:
        return f"PYMQI Error: {self.error}"


class MQMIError(Error):
    """A verb failed (``comp`` 2) or warned (``comp`` 1) with a reason code.

    For a get, ``message`` is the body that it still returned, truncated or unconverted, and
    ``original_length`` its full length in bytes. For a property, ``value`` is the part that fits
    and ``dataLength`` the full length in bytes. The ``__cause__`` is the error of the queue
    manager, with the name and value of the wrong field.
    """

    def __init__(
        self,
        comp: int,
        reason: int,
        *,
        message: bytes = b"",
        original_length: int = 0,
        value: object = None,
        dataLength: int = 0,
    ) -> None:
        """Take completion code (1 warning, 2 failed) and reason code.

        For a get, ``message`` is the body that it still returned, and ``original_length`` its full
        length in bytes. For a property, ``value`` is the part that fits, and ``dataLength`` the
        full length in bytes.
        """
        super().__init__(comp, reason)
        self.comp = comp
        self.reason = reason
        self.message = message
        self.original_length = original_length
        self.value = value
        self.dataLength = dataLength

    @property
    def data_length(self) -> int:
        """The same as ``dataLength``; the name in ibmmq."""
        return self.dataLength

    def __str__(self) -> str:
        return f"MQI Error. Comp: {self.comp}, Reason {self.reason}: {self.errorAsString()}"

    def get(self, name: str) -> Any:
        """Return an attribute by name, such as ``data_length``; raises AttributeError."""
        return getattr(self, name)

    def errorAsString(self) -> str:
        """Return the reason as text, such as ``FAILED: MQRC_NO_MSG_AVAILABLE``.

        For an unknown reason code it is ``Error code N not defined``.
        """
        name = _reason_name(self.reason)
        if name is None:
            return f"Error code {self.reason} not defined"
        return f"{'WARNING' if self.comp == MQCC_WARNING else 'FAILED'}: {name}"

    error_as_string = errorAsString


def mqmi_error(error: MQError) -> MQMIError:
    """Return the MQMIError for an error of the queue manager.

    The text of an MQMIError has no detail. For a failed connection, the detail is added as a note,
    which a traceback shows.
    """
    shown = MQMIError(error.comp, error.reason)
    if error.reason in _EXPLAINED:
        shown.add_note(error.detail)
    return shown


def raises_mqmi(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: an MQError becomes an MQMIError, with the MQError as ``__cause__``."""

    @functools.wraps(call)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except MQError as error:
            raise mqmi_error(error) from error

    return wrapper


def warning(reason: int, message: bytes = b"", original_length: int = 0) -> MQMIError:
    """Return (not raise) the MQMIError for a warning, MQCC_WARNING.

    ``message`` is the body that a get returned, ``original_length`` its full length in bytes.
    """
    return MQMIError(MQCC_WARNING, reason, message=message, original_length=original_length)


def _reason_name(reason: int) -> str | None:
    """Return the name of a reason code, such as ``MQRC_Q_FULL`` or ``MQRCCF_COMMAND_FAILED``.

    Returns None for an unknown one.
    """
    known = REASONS.get(reason)
    if known is not None:
        return known.name
    # Codes of commands, and those that this queue manager never answers.
    for module, prefix in ((CMQC, "MQRC_"), (CMQCFC, "MQRCCF_")):
        for name, value in vars(module).items():
            if name.startswith(prefix) and value == reason:
                return name
    return None
