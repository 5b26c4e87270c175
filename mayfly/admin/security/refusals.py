"""Refusals: the line of each in the log, and the reason code for the client."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from mayfly.admin.security.applicant import Applicant
from mayfly.mqi.errors import MQError, mq_error

LOG: Final = logging.getLogger("mayfly.security")


class Refused(Exception):
    """Ends the checks of an applicant; it does not leave this package."""

    def __init__(self, refusal: Refusal) -> None:
        """Carry the refusal."""
        super().__init__(refusal)
        self.refusal = refusal


class Refusal(NamedTuple):
    """Why somebody is not let in: reason code for the client, AMQ number and cause for the log."""

    reason: int
    amq: str
    cause: str

    def noted(self, log: logging.Logger, applicant: Applicant) -> MQError:
        """Write the refusal to the log; return the error for the client, which tells no cause.

        The fields are attributes of the log record as well, for logs that are not text.
        """
        fields = {
            "amq": self.amq,
            "reason": self.reason,
            "cause": self.cause,
            "channel": applicant.channel,
            "address": applicant.address,
            "user": applicant.user,
            "queue_manager": applicant.queue_manager,
            "application": applicant.application,
        }
        log.warning(
            "%s: %s refused (%d): %s; channel %r, address %s, user %r, application %r",
            self.amq,
            applicant.queue_manager,
            self.reason,
            self.cause,
            applicant.channel,
            applicant.address or "local",
            applicant.user,
            applicant.application,
            extra=fields,
        )
        return mq_error(self.reason)
