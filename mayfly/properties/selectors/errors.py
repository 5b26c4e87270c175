"""Errors of a selector's text, with the expected words, those found, and their position."""

from __future__ import annotations

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error


def syntax_error(index: int, expected: str, found: str) -> MQError:
    """Return MQRC_SELECTOR_SYNTAX_ERROR; ``index`` counts characters from 0, the message from 1."""
    return mq_error(
        rc.MQRC_SELECTOR_SYNTAX_ERROR, f"position {index + 1}: expected {expected}, found {found}"
    )
