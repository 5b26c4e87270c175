"""Answers to requests as they travel: a value, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mayfly.contracts.wire import DONE, FAILED
from mayfly.contracts.wire_fields import packed
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, failure_of, mq_error


def answered(value: Any, pack: Callable[[object], bytes] = packed) -> bytes:
    """Return the answer of a verb that has worked; ``pack`` is a packer of the loop in the loop."""
    try:
        return pack([DONE, value])
    except ValueError as error:
        return failed(mq_error(rc.MQRC_UNEXPECTED_ERROR, f"the answer cannot travel: {error}"))


def failed(error: MQError) -> bytes:
    """Return the answer of a verb that has failed."""
    failure = failure_of(error)
    # A detail may quote what no text can be.
    detail = failure.detail.encode(errors="replace").decode()
    return packed([FAILED, failure.error_class, failure.reason, detail])
