"""The claims of a queue manager of this process, with the errors of a connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mayfly.connection.values import ConsumerState
from mayfly.contracts.reasons import CONSUMER_UNKNOWN
from mayfly.engine.face.bulk import ClaimError, Claims
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


class LocalClaims:
    """See ``operating.ClaimVerbs``, whose methods these are."""

    def __init__(self, claims: Claims) -> None:
        """Take the claims of a queue manager."""
        self._claims = claims

    @property
    def instance_id(self) -> str:
        """The store of the queue manager."""
        return self._claims.instance_id

    def standings(self) -> list[ConsumerState]:
        """Return the state of each consumer."""
        return self._claims.standings()

    def end_written(self, consumer: str, until: int) -> int:
        """End claims whose messages are written."""
        with _refusals():
            return self._claims.end_written(consumer, self.instance_id, until)

    def release(self, consumer: str) -> int:
        """Give claimed messages back."""
        with _refusals():
            return self._claims.release(consumer)


@contextmanager
def _refusals() -> Iterator[None]:
    """Give a refusal on the bulk plane, which has a word for programs, its reason code."""
    try:
        yield
    except ClaimError as error:
        is_unknown = error.reason == CONSUMER_UNKNOWN
        reason = rc.MQRC_UNKNOWN_OBJECT_NAME if is_unknown else rc.MQRC_OBJECT_CHANGED
        raise mq_error(reason, error.text) from error
