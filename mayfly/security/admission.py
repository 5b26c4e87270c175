"""Admission: who is let in to which queue manager, as which user, and on which terms."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable

from mayfly.engine import Manager
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.security.applicant import Admitted, Applicant
from mayfly.security.refusals import LOG, Refusal

__all__ = ["Admission", "Admitted", "Applicant"]


class Admission:
    """Lets programs in, or refuses them; any thread may call it.

    A refusal is logged with its AMQ number and cause; the caller learns the reason code alone.
    """

    def __init__(
        self, managers: Iterable[Manager], *, token: str = "", log: logging.Logger = LOG
    ) -> None:
        """Admit to some open queue managers; with ``token`` as password an operator comes in."""
        self._managers = {manager.name: manager for manager in managers}
        self._token = token.encode()
        self._log = log

    def admit(self, applicant: Applicant) -> Admitted:
        """Return the terms on which a program is let in; this may wait for its password.

        Raises MQRC_NOT_AUTHORIZED, MQRC_CHANNEL_NOT_AVAILABLE, MQRC_UNKNOWN_CHANNEL_NAME,
        MQRC_Q_MGR_NAME_ERROR, MQRC_SSL_INITIALIZATION_ERROR.
        """
        if applicant.queue_manager not in self._managers:
            said = f"queue manager {applicant.queue_manager!r} is not served here"
            raise self._refused(applicant, Refusal(rc.MQRC_Q_MGR_NAME_ERROR, "AMQ9524E", said))
        if applicant.channel:
            said = f"channel {applicant.channel!r} is not defined"
            refusal = Refusal(rc.MQRC_UNKNOWN_CHANNEL_NAME, "AMQ9519E", said)
            raise self._refused(applicant, refusal)
        if not self._is_operator(applicant):
            said = "a connection without a channel needs the operator's token"
            raise self._refused(applicant, Refusal(rc.MQRC_NOT_AUTHORIZED, "AMQ5534E", said))
        return Admitted(user=applicant.user, is_operator=True)

    def _is_operator(self, applicant: Applicant) -> bool:
        """Tell whether the password is the operator's token, which is not sent in the clear."""
        if not self._token or not (applicant.is_local or applicant.has_tls):
            return False
        return hmac.compare_digest(applicant.password.encode(), self._token)

    def _refused(self, applicant: Applicant, refusal: Refusal) -> MQError:
        return refusal.noted(self._log, applicant)
