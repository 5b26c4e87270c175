"""How a function becomes an entry point: its errors are codes, its connection may be used."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from mayfly.libmqm.connections import ConnectionHandle, connection_of
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.pymqi.errors import MQMIError

P = ParamSpec("P")
_LOG = logging.getLogger("mayfly.libmqm")

#: With this variable each verb that fails says why in the log: without one, on standard error.
ERRORS_VARIABLE = "MAYFLY_LIBMQM_ERRORS"


def codes_of(comp: int, reason: int) -> int:
    """Return both codes as one number, as the C library takes them."""
    return comp << 32 | reason


_OK = codes_of(c.MQCC_OK, rc.MQRC_NONE)


def entry_point(work: Callable[P, None]) -> Callable[P, int]:
    """Decorate a function that raises MQError or MQMIError.

    The decorated function returns completion and reason code as :func:`codes_of`; for any other
    exception MQRC_UNEXPECTED_ERROR.
    """

    @functools.wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            work(*args, **kwargs)
        except (MQError, MQMIError) as error:
            if ERRORS_VARIABLE in os.environ:
                why = error.__cause__ or error
                _LOG.warning("libmqm: %s: %s", work.__name__, why)
            return codes_of(error.comp, error.reason)
        except Exception:  # noqa: BLE001 - a C program cannot catch it; its outcome is a code
            _LOG.exception("libmqm: %s", work.__name__)
            return codes_of(c.MQCC_FAILED, rc.MQRC_UNEXPECTED_ERROR)
        return _OK

    return call


def verb(
    work: Callable[Concatenate[ConnectionHandle, P], None],
) -> Callable[Concatenate[int, P], int]:
    """Decorate a function of a connection: it takes the handle of one, and waits for its turn."""

    @functools.wraps(work)
    def call(hconn: int, /, *args: P.args, **kwargs: P.kwargs) -> None:
        handle = connection_of(hconn)
        is_entered = handle.enter()
        try:
            work(handle, *args, **kwargs)
        finally:
            if is_entered:
                handle.leave()

    return entry_point(call)
