"""Errors of MQ Everyplace queues: one class with a reason code, and the refusal of a rule."""

from __future__ import annotations

from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_NONE


class EveryplaceError(MQError):
    """A call failed and changed nothing; ``reason`` is the MQRC_* that comes closest."""


class RuleRefused(EveryplaceError):
    """Raised by a rule to refuse an event; any other error in a rule is logged and ignored."""

    def __init__(self, detail: str) -> None:
        """Say why."""
        super().__init__(MQRC_NONE, detail)

    def __str__(self) -> str:
        return f"refused by the queue's rule: {self.detail}"
