"""Errors of MQ Everyplace queues: one class with a reason code, and what became of the call."""

from __future__ import annotations

from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_HOST_NOT_AVAILABLE, MQRC_NONE


class EveryplaceError(MQError):
    """A call failed and changed nothing; ``reason`` is the MQRC_* that comes closest."""


class RuleRefused(EveryplaceError):
    """Raised by a rule to refuse an event; any other error in a rule is logged and ignored."""

    def __init__(self, detail: str) -> None:
        super().__init__(MQRC_NONE, detail)

    def __str__(self) -> str:
        return f"refused by the queue's rule: {self.detail}"


class Ended(EveryplaceError):
    """The queue manager was closed, or could not write: its folder has to be opened again."""


class LinkDown(EveryplaceError):
    """No answer came: the transmission was done, or will be done later, or never."""

    def __init__(self, detail: str) -> None:
        super().__init__(MQRC_HOST_NOT_AVAILABLE, detail)


class LinkCut(LinkDown):
    """The link is known to be cut: nothing has left."""


def may_be_under_way(error: EveryplaceError) -> bool:
    """Return True if a transmission with this fault may have arrived, or may still arrive."""
    return isinstance(error, LinkDown) and not isinstance(error, LinkCut)
