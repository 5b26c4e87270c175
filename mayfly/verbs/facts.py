"""Facts about queues, subscriptions, puts and time, as a queue manager tells them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc

#: A value of an attribute.
Value: TypeAlias = int | str


class Inquiry(NamedTuple):
    """Values in the order of the selectors.

    An attribute that this type of queue lacks is None, with the warning MQRC_SELECTOR_NOT_FOR_TYPE.
    """

    values: list[Value | None]
    warning: int


class SubscriptionFacts(NamedTuple):
    """The attributes of a subscription, at one moment."""

    name: str
    topic: str
    queue: str
    is_durable: bool
    is_managed: bool
    user_is_fixed: bool
    on_request: bool
    correl_id: bytes
    expiry_tenths: int
    priority: int
    user_data: str
    selector: str


class Status(NamedTuple):
    """The first asynchronous put that went wrong, and how many went how, since it was asked last.

    A failure replaces a warning that came before it. Without either, reason is 0 and object type
    MQOT_NONE. ``queue`` and ``manager`` are where the name led to.
    """

    comp: int = c.MQCC_OK
    reason: int = rc.MQRC_NONE
    success_count: int = 0
    warning_count: int = 0
    failure_count: int = 0
    object_type: int = c.MQOT_NONE
    object_name: str = ""
    queue: str = ""
    manager: str = ""


class Counts(NamedTuple):
    """Messages of one queue by where they stand.

    ``staged`` wait on the staging queue to come here; ``live`` could be got now; ``uncommitted``
    are puts of open units of work; ``locked`` are got in open units of work, claimed by a consumer
    or locked by a browse;
    ``expired_present`` have passed their deadline and are not discarded yet (E8, E12).
    """

    staged: int
    live: int
    uncommitted: int
    locked: int
    expired_present: int


class Verification(NamedTuple):
    """The result of ``verify``; ``ok`` when nothing is wrong."""

    ok: bool
    problems: tuple[str, ...]
    queues: int
    messages: int


class OwnTime(NamedTuple):
    """Both times in ms since 1970, UTC, and what accepting the wall clock would do to messages.

    ``expiring_count`` and ``due_count`` are the messages whose deadline or delivery time lies
    between the two times; ``expired_count`` those that have expired and are not discarded yet;
    ``put_ahead_count`` those on ordinary queues that were put at a time that the wall clock has not
    reached; ``waiting_count`` those with a deadline or a delivery time later than both.
    """

    own_ms: int
    wall_ms: int
    step_count: int
    expiring_count: int
    due_count: int
    expired_count: int
    put_ahead_count: int
    waiting_count: int

    @property
    def difference_ms(self) -> int:
        """Wall clock minus own time: less than 0 where the queue manager is ahead."""
        return self.wall_ms - self.own_ms
