"""The subscriptions of a connection in this process, by number."""

from __future__ import annotations

from itertools import count

from mayfly.connection.interface import Subscribed
from mayfly.connection.objects import OpenObjects
from mayfly.engine import Handle, Session
from mayfly.engine.face.programs import OpenSubscription, SubscriptionWanted, facts_of, subscribe_as
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


class LocalTopics:
    """Subscriptions over a session; see ``interface.Topics``, whose methods these are."""

    def __init__(self, session: Session, objects: OpenObjects) -> None:
        """Begin with none."""
        self._session, self._objects = session, objects
        self._numbers = count(1)
        self._open: dict[int, OpenSubscription] = {}

    def subscribe(
        self,
        options: int,
        *,
        topic: str = "",
        topic_object: str = "",
        name: str = "",
        queue: int = c.MQHO_NONE,
        selector: str = "",
        user_data: str = "",
        correl_id: bytes | None = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        priority: int = c.MQPRI_PRIORITY_AS_PUBLISHED,
        altered: int = 0,
        held: int = c.MQHO_NONE,
    ) -> Subscribed:
        """MQSUB."""
        wanted = SubscriptionWanted(
            options,
            name,
            topic,
            topic_object,
            selector,
            user_data,
            correl_id,
            expiry_tenths,
            priority,
            self._queue(queue),
        )
        number = altered
        current = None if not altered else self._find(altered)
        opened, handle = subscribe_as(
            self._session, wanted, altered=current, held=self._queue(held)
        )
        if opened is not current:
            number = next(self._numbers)
            self._open[number] = opened
        return Subscribed(number, self._objects.enter(handle), facts_of(opened))

    def close(self, number: int, *, remove: bool = False) -> None:
        """Close a subscription."""
        self._find(number).close(remove=remove)
        del self._open[number]

    def request_retained(self, number: int) -> int:
        """MQSUBRQ."""
        return self._find(number).request_retained()

    def _find(self, number: int) -> OpenSubscription:
        found = self._open.get(number)
        if found is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"subscription {number} is not open here")
        return found

    def _queue(self, number: int) -> Handle | None:
        if number == c.MQHO_NONE:
            return None
        return self._objects.queue(number, rc.MQRC_HOBJ_ERROR)
