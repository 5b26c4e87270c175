"""Answers to requests as they travel: a value, or an error."""

from __future__ import annotations

from typing import Any

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, failure_of, mq_error
from mayfly.verbs.contracts.wire import DONE_BYTES, FAILED_BYTES, packed


def answered(value: Any) -> bytes:
    """Return the answer of a verb that has worked."""
    try:
        return DONE_BYTES + packed(value)
    except ValueError as error:
        return failed(mq_error(rc.MQRC_UNEXPECTED_ERROR, f"the answer cannot travel: {error}"))


def failed(error: MQError) -> bytes:
    """Return the answer of a verb that has failed."""
    failure = failure_of(error)
    # A detail may quote what no text can be.
    detail = failure.detail.encode(errors="replace").decode()
    return FAILED_BYTES + packed(failure._replace(detail=detail))
