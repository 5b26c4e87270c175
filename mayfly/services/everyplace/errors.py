"""Errors of MQ Everyplace queues: an MQRC_* reason code, and whether the call had an effect."""

from __future__ import annotations

from mayfly.mqi.errors import MQError
from mayfly.mqi.reasons import MQRC_HOST_NOT_AVAILABLE, MQRC_NONE


class EveryplaceError(MQError):
    """A call failed and changed nothing; ``reason`` is the closest MQRC_* reason code."""


class RuleRefused(EveryplaceError):
    """Raised by a queue rule to refuse an event; its reason is MQRC_NONE.

    Any other error that a rule raises is logged and ignored.
    """

    def __init__(self, detail: str) -> None:
        """Take the text of the error, ``detail``."""
        super().__init__(MQRC_NONE, detail)

    def __str__(self) -> str:
        return f"refused by the queue's rule: {self.detail}"


class Ended(EveryplaceError):
    """The queue manager was closed, or a write to its folder failed.

    Its folder must be opened again, by a new queue manager object.
    """


class LinkDown(EveryplaceError):
    """No answer to a transmission: it was done, or will be done later, or never.

    The reason is MQRC_HOST_NOT_AVAILABLE.
    """

    def __init__(self, detail: str) -> None:
        """Take the text of the error, ``detail``."""
        super().__init__(MQRC_HOST_NOT_AVAILABLE, detail)


class LinkCut(LinkDown):
    """The link was cut before the transmission, so nothing was sent."""


def may_be_under_way(error: EveryplaceError) -> bool:
    """Return True if the failed transmission may have arrived, or may still arrive; else False."""
    return isinstance(error, LinkDown) and not isinstance(error, LinkCut)
