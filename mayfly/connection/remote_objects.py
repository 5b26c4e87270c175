"""Open objects and subscriptions of a remote connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index

from mayfly.connection.dropped import end_dropped
from mayfly.connection.remote_conversation import Conversation
from mayfly.connection.values import BackoutRule, Inquiry, Subscribed, Value
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs import requests as ask
from mayfly.verbs.rows import packed_scalar


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
        return self._call(ask.Inquire(index(handle), list(selectors)))

    def set(self, handle: int, values: Mapping[int, Value]) -> None:
        """MQSET."""
        rows = [
            (selector, packed_scalar(value, "set.values", rc.MQRC_UNEXPECTED_ERROR))
            for selector, value in values.items()
        ]
        self._call(ask.Set(index(handle), rows))

    def backout_rule(self, handle: int) -> BackoutRule:
        """Return BOTHRESH and BOQNAME."""
        return self._call(ask.AskBackoutRule(index(handle)))

    def command_level(self) -> int:
        """Return the command level of the queue manager."""
        return self._call(ask.AskCommandLevel())

    def lives_from_release(self, handle: int = c.MQHO_NONE) -> bool:
        """Tell of TTLFROM(RELEASE)."""
        return self._call(ask.AskLivesFromRelease(index(handle)))

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
        request = ask.Subscribe(
            options,
            topic,
            topic_object,
            name,
            index(queue),
            selector,
            user_data,
            correl_id,
            expiry_tenths,
            priority,
            altered,
            index(held),
        )
        subscribed = self._call(request)
        self._conversation.open_handles[subscribed.handle] = c.MQOT_Q
        return subscribed

    def close(self, number: int, *, remove: bool = False) -> None:
        """Close a subscription."""
        self._call(ask.CloseSubscription(number, remove))

    def request_retained(self, number: int) -> int:
        """MQSUBRQ."""
        return self._call(ask.RequestRetained(number))

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
        subscribed = self._call(
            ask.JoinSubscription(topic, name, is_durable, is_shared, no_local, selector)
        )
        if subscribed.handle != c.MQHO_NONE:
            self._conversation.open_handles[subscribed.handle] = c.MQOT_Q
        return subscribed

    def is_open(self, number: int) -> bool:
        """Return True if a subscription is open here."""
        return self._call(ask.IsSubscriptionOpen(number))

    def remove(self, name: str) -> None:
        """Remove a durable subscription by its name."""
        self._call(ask.RemoveSubscription(name))

    def belong_to(self, owner: str | int) -> None:
        """Set the owner of this conversation."""
        self._call(ask.BelongTo(owner))

    def claim(self, client_id: str) -> None:
        """Take a client id, which no other conversation has then."""
        self._call(ask.ClaimClientId(client_id))

    def make_temporary(self) -> str:
        """Make a topic string that nobody else makes."""
        return self._call(ask.MakeTemporaryTopic())

    def delete_temporary(self, topic: str) -> None:
        """Delete a topic that was made here."""
        self._call(ask.DeleteTemporaryTopic(topic))
