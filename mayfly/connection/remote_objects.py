"""Open objects and subscriptions of a remote connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index

from mayfly.connection.dropped import end_dropped
from mayfly.connection.remote_conversation import Conversation
from mayfly.connection.topics import Subscribed
from mayfly.connection.values import BackoutRule, Inquiry, Value
from mayfly.connection.wire_values import subscribed_of_row
from mayfly.contracts.wire_verbs import Verb
from mayfly.mqi import constants as c


class RemoteObjects:
    """See ``interface.Objects``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._conversation = conversation
        self._call = conversation.call

    def is_open(self, handle: int) -> bool:
        """Return True if the object of a handle is open on this connection."""
        return handle in self._conversation.open_handles

    def inquire(self, handle: int, selectors: Sequence[int]) -> Inquiry:
        """MQINQ."""
        return Inquiry(*self._call(Verb.INQUIRE, [index(handle), list(selectors)]))

    def set(self, handle: int, values: Mapping[int, Value]) -> None:
        """MQSET."""
        self._call(Verb.SET, [index(handle), list(values.items())], is_doubtful=True)

    def backout_rule(self, handle: int) -> BackoutRule:
        """Return BOTHRESH and BOQNAME."""
        return BackoutRule(*self._call(Verb.BACKOUT_RULE, [index(handle)]))

    def command_level(self) -> int:
        """Return the command level of the queue manager."""
        level: int = self._call(Verb.COMMAND_LEVEL, [])
        return level

    def lives_from_release(self, handle: int = c.MQHO_NONE) -> bool:
        """Tell of TTLFROM(RELEASE)."""
        answer: bool = self._call(Verb.LIVES_FROM_RELEASE, [index(handle)])
        return answer

    def end_dropped(self, end: Callable[[], None]) -> None:
        """Run ``end`` of an object that its program has dropped, now or at the next verb."""
        end_dropped(end, self._conversation.dropped.append)


class RemoteTopics:
    """See ``interface.Topics``, whose methods these are."""

    def __init__(self, conversation: Conversation) -> None:
        """Ask over a conversation."""
        self._conversation = conversation
        self._call = conversation.call

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
        wanted = [options, topic, topic_object, name, index(queue), selector, user_data, correl_id]
        asked = [*wanted, expiry_tenths, priority, altered, index(held)]
        subscribed = subscribed_of_row(self._call(Verb.SUBSCRIBE, asked, is_doubtful=True))
        self._conversation.open_handles[subscribed.handle] = c.MQOT_Q
        return subscribed

    def close(self, number: int, *, remove: bool = False) -> None:
        """Close a subscription."""
        self._call(Verb.CLOSE_SUBSCRIPTION, [number, remove], is_doubtful=remove)

    def request_retained(self, number: int) -> int:
        """MQSUBRQ."""
        count: int = self._call(Verb.REQUEST_RETAINED, [number])
        return count

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
        """Open the subscription of a name as JMS has it."""
        asked = [topic, name, is_durable, is_shared, no_local, selector]
        subscribed = subscribed_of_row(self._call(Verb.TOPIC_JOIN, asked, is_doubtful=True))
        if subscribed.handle != c.MQHO_NONE:
            self._conversation.open_handles[subscribed.handle] = c.MQOT_Q
        return subscribed

    def is_open(self, number: int) -> bool:
        """Return True if a subscription is open here."""
        answer: bool = self._call(Verb.TOPIC_IS_OPEN, [number])
        return answer

    def remove(self, name: str) -> None:
        """Remove a durable subscription by its name."""
        self._call(Verb.TOPIC_REMOVE, [name], is_doubtful=True)

    def belong_to(self, owner: str | int) -> None:
        """Set the owner of this conversation."""
        self._call(Verb.TOPIC_BELONG_TO, [owner])

    def claim(self, client_id: str) -> None:
        """Take a client id, which no other conversation has then."""
        self._call(Verb.TOPIC_CLAIM, [client_id])

    def make_temporary(self) -> str:
        """Make a topic string that nobody else makes."""
        return str(self._call(Verb.TOPIC_MAKE_TEMPORARY, []))

    def delete_temporary(self, topic: str) -> None:
        """Delete a topic that was made here."""
        self._call(Verb.TOPIC_DELETE_TEMPORARY, [topic])
