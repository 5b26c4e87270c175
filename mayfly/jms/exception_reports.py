"""Errors on threads of the library: they are logged, and told to the exception listener."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mayfly.jms.errors import JMSException, jms_error
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime

_LOG = logging.getLogger("mayfly.jms")
_ENDED = (
    rc.MQRC_CONNECTION_BROKEN,
    rc.MQRC_Q_MGR_STOPPING,
    rc.MQRC_Q_MGR_QUIESCING,
    rc.MQRC_RECONNECT_FAILED,
    rc.MQRC_RECONNECT_QMID_MISMATCH,
    rc.MQRC_RECONNECT_TIMED_OUT,
)


class ExceptionReports:
    """The errors of a connection that no call of the application could raise.

    The exception listener is called with one error at a time. The end of the queue manager is told
    once, also when several sessions notice it.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Begin without a listener."""
        self.listener: Callable[[JMSException], object] | None = None
        self._changed = runtime.condition()
        self._is_telling = False
        self._is_open = True
        self._has_told_end = False

    def report(self, error: JMSException) -> None:
        """Log an error and tell the exception listener."""
        _LOG.error("%s", error, exc_info=error.__cause__)
        self._tell(error)

    def tell_change(self, change: MQError) -> None:
        """Tell that the connection is being made again, is there again, or is lost for good.

        The loss and the new connection are logged where the connection is made.
        """
        self._tell(jms_error(change))

    def _tell(self, error: JMSException) -> None:
        listener = self._begin(error)
        if listener is None:
            return
        try:
            listener(error)
        except BaseException:  # noqa: BLE001 - the application's; nobody else would hear of it
            _LOG.exception("the exception listener failed")
        finally:
            with self._changed:
                self._is_telling = False
                self._changed.notify_all()

    def close(self) -> None:
        """Tell nothing any more; the exception listener itself may close its connection."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

    def _begin(self, error: JMSException) -> Callable[[JMSException], object] | None:
        """Wait while another error is told; None when this one need not or cannot be told."""
        with self._changed:
            while self._is_telling and self._is_open:
                self._changed.wait()
            is_known = error.reason in _ENDED and self._has_told_end
            if self.listener is None or not self._is_open or is_known:
                return None
            self._has_told_end = self._has_told_end or error.reason in _ENDED
            self._is_telling = True
            return self.listener
