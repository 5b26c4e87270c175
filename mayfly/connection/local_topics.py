"""The subscriptions of a connection in this process, by number."""

from __future__ import annotations

from itertools import count

from mayfly.connection.objects import OpenObjects
from mayfly.connection.values import Subscribed
from mayfly.engine import Handle, Session
from mayfly.engine.face.programs import (
    OpenSubscription,
    SubscriptionWanted,
    claim_client_id,
    delete_temporary_topic,
    facts_of,
    is_subscribed_to,
    make_temporary_topic,
    open_durable,
    remove_idle,
    subscribe_as,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


class LocalTopics:
    """Subscriptions over a session; see ``topics.Topics``, whose methods these are."""

    def __init__(self, session: Session, objects: OpenObjects) -> None:
        """Begin with none."""
        self._session, self._objects = session, objects
        self._numbers = count(1)
        self._open: dict[int, OpenSubscription] = {}
        self._temporary: set[str] = set()

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

    def join(
        self,
        topic: str,
        *,
        name: str = "",
        is_durable: bool = False,
        is_shared: bool = False,
        no_local: bool = False,
        selector: str = "",
    ) -> Subscribed:
        """Open a subscription as JMS has it."""
        session = self._session
        opens = open_durable if is_durable else _subscribe
        opened = opens(session, name, topic, selector=selector, shared=is_shared, no_local=no_local)
        number = next(self._numbers)
        self._open[number] = opened
        handle = c.MQHO_NONE if opened.handle is None else self._objects.enter(opened.handle)
        return Subscribed(number, handle, facts_of(opened))

    def is_open(self, number: int) -> bool:
        """Return True if a subscription is open."""
        found = self._open.get(number)
        return found is not None and found.is_open

    def remove(self, name: str) -> None:
        """Remove a durable subscription."""
        remove_idle(self._session, name)

    def belong_to(self, owner: str | int) -> None:
        """Set the owner: ``no_local`` leaves out publications of the same owner."""
        self._session.belong_to(owner)

    def claim(self, client_id: str) -> None:
        """Take a client id, which no other conversation has then."""
        claim_client_id(self._session, client_id)

    def make_temporary(self) -> str:
        """Make a topic string."""
        topic = make_temporary_topic(self._session)
        self._temporary.add(topic)
        return topic

    def delete_temporary(self, topic: str) -> None:
        """Delete one of its own."""
        core = self._session.core
        if topic not in self._temporary:
            raise mq_error(
                rc.MQRC_UNKNOWN_OBJECT_NAME, f"{topic} is no temporary topic of this one"
            )
        if is_subscribed_to(core, topic):
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{topic} has a consumer")
        self._temporary.discard(topic)
        delete_temporary_topic(core, topic)

    def end(self) -> None:
        """Delete its temporary topics: the connection is being closed."""
        temporary, self._temporary = self._temporary, set()
        for topic in temporary:
            if not self._session.core.is_stopped:
                delete_temporary_topic(self._session.core, topic)

    def _find(self, number: int) -> OpenSubscription:
        found = self._open.get(number)
        if found is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"subscription {number} is not open here")
        return found

    def _queue(self, number: int) -> Handle | None:
        if number == c.MQHO_NONE:
            return None
        return self._objects.queue(number, rc.MQRC_HOBJ_ERROR)


def _subscribe(
    session: Session, name: str, topic: str, *, selector: str, shared: bool, no_local: bool
) -> OpenSubscription:
    return session.subscribe(topic, name=name, selector=selector, shared=shared, no_local=no_local)
