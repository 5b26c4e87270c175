"""A queue: its messages, their states, and the five moments at which it looks for age.

A message is checked when it is added, when it is removed, and with all others when the queue is
activated, deleted or asked for its size (M6 to M10). Nothing else looks at the time (M11).
"""

from __future__ import annotations

import bisect
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from mayfly.lifetime.everyplace import Timepiece, check_interval_ms, deadline_ms, is_never_live
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.fields import (
    MSG_EXPIRE_TIME,
    MessageFields,
    MessageUid,
    fields_as_body,
)
from mayfly.services.everyplace.journal import (
    ADD_MESSAGE,
    CHANGE_MESSAGE,
    FORGET_MESSAGE,
    LOCAL,
    Journal,
    Statement,
)
from mayfly.services.everyplace.links import Exchange, Peers
from mayfly.services.everyplace.rules import (
    MessageState,
    QueueEntry,
    QueueRule,
    RuleOwner,
    check_given,
    consult,
    tell,
)

_LOG = logging.getLogger("mayfly.everyplace")

Listener = Callable[[MessageFields], None]


@dataclass(frozen=True)
class Site:
    """One queue manager as its own queues know it; ``journal`` None keeps nothing on the disk."""

    name: str
    clock: Timepiece
    journal: Journal | None
    peers: Peers
    #: The queue manager that a rule is given to call.
    rule_owner: RuleOwner


@dataclass(eq=False)
class Held:
    """A message on a queue; ``exchange`` is the transmission it is part of."""

    message: MessageFields
    arrived_ms: int
    state: MessageState
    confirm_id: int = 0
    exchange: Exchange | None = None
    #: The first stage of its transmission is known to have arrived.
    is_acknowledged: bool = False
    #: Lower is got first; given when it joins the queue, whatever becomes of its fields.
    place: tuple[int, int] = (0, 0)
    #: Of its row in the tables of a durable queue manager; 0 for none.
    row_id: int = 0


class Line:
    """Messages by their places, of which no two are the same."""

    def __init__(self) -> None:
        self._placed: list[tuple[tuple[int, int], Held]] = []

    def add(self, held: Held) -> None:
        """Put a message in its place."""
        bisect.insort(self._placed, (held.place, held))

    def remove(self, held: Held) -> None:
        """Take away a message that stands in the line."""
        del self._placed[bisect.bisect_left(self._placed, (held.place,))]

    def __iter__(self) -> Iterator[Held]:
        return (held for _, held in self._placed)

    def __len__(self) -> int:
        return len(self._placed)


@dataclass(frozen=True)
class QueueAttributes:
    """The attributes of a queue: interval in ms and most messages, None for no limit."""

    expiry_ms: int | None = None
    max_depth: int | None = None

    def __post_init__(self) -> None:
        """Raise EveryplaceError for what a queue cannot have."""
        try:
            check_interval_ms(self.expiry_ms)
        except MQError as error:
            raise EveryplaceError(error.reason, error.detail) from error
        if self.max_depth is not None and not (type(self.max_depth) is int and self.max_depth > 0):
            raise EveryplaceError(
                rc.MQRC_OPTIONS_ERROR, f"max_depth {self.max_depth!r} is neither None nor positive"
            )


def duplicate(message: MessageFields, why: str) -> EveryplaceError:
    """Return the error for a message that was put before (M16)."""
    return EveryplaceError(
        rc.MQRC_OBJECT_ALREADY_EXISTS, f"duplicate message {message.uid}: {why}; see Msg_Resend"
    )


def warn_of_width(queue: str, message: MessageFields) -> None:
    """Log an end that was over before the message was created (M15)."""
    expire_time = message.expire_time
    if expire_time is not None and is_never_live(message.created_ms, expire_time):
        _LOG.warning(
            "%s %d of a message put on %s is %s and over before the message was created;"
            " an int is relative to the creation, a long a moment",
            MSG_EXPIRE_TIME,
            expire_time.value,
            queue,
            "a moment" if expire_time.is_absolute else "relative",
        )


def check_listener(listener: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless it can be called."""
    if not callable(listener):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"listener {listener!r} cannot be called")


#: States that a get looks at; a message that another getter holds is not in its way.
_IN_THE_WAY = frozenset({MessageState.AVAILABLE, MessageState.PUT_UNCONFIRMED})


class MessageQueue:
    """Messages by priority, then in the order in which they became available."""

    kind = LOCAL
    #: The owner of the queue where that is another queue manager.
    partner = ""

    def __init__(
        self,
        site: Site,
        name: str,
        attributes: QueueAttributes,
        rule: QueueRule | None,
    ) -> None:
        """Begin empty and not in memory; the queue manager calls this, and activates it."""
        self.site = site
        self._journal = site.journal
        self.name = name
        self.attributes = attributes
        self.rule = rule or QueueRule()
        #: The class of the rule that it had before a restart and has not been given again.
        self.awaited_rule = ""
        self.is_active = False
        self.listeners: list[Listener] = []
        self._held = Line()
        self._in_the_way = Line()
        self._by_uid: dict[MessageUid, Held] = {}
        #: Messages held for another queue manager.
        self._by_exchange: dict[Exchange, Held] = {}
        self._next_order = 0
        #: Expired messages whose rule is under way: a rule that puts one here again ends there.
        self._expiring: set[MessageUid] = set()

    # Adding

    def add(
        self,
        message: MessageFields,
        confirm_id: int = 0,
        exchange: Exchange | None = None,
        taken_over: Callable[[], object] = lambda: None,
        is_checked: bool = True,
    ) -> None:
        """Add a message that no other code refers to; unconfirmed with an id or an exchange.

        ``taken_over`` is called when it is this queue's, before listeners and rules are called.
        ``is_checked`` False leaves the check of expiry to ``admit``. A message expired on arrival
        is removed at once and its rule called (M6). Raises EveryplaceError when it is on the queue
        already, unless it has Msg_Resend (then nothing is added), when the queue is full, and when
        the rule refuses.
        """
        is_unconfirmed = bool(confirm_id or exchange)
        state = MessageState.PUT_UNCONFIRMED if is_unconfirmed else MessageState.AVAILABLE
        held = Held(message, self._now_ms(), state, confirm_id, exchange)
        # Before anything is looked at: the rule may put messages here itself.
        consult(self.rule.put_message, self.entry(held), message)
        if message.uid in self._by_uid:
            tell(self.rule.duplicate_message, self.entry(held), message)
            if message.is_resend:
                taken_over()
                return
            raise duplicate(message, f"queue {self.name} holds it")
        if is_checked and self._is_expired(held):
            taken_over()
            warn_of_width(self.name, message)
            self._tell_expired(held)
            return
        most = self.attributes.max_depth
        if most is not None and len(self._held) >= most:
            tell(self.rule.threshold_exceeded, self.entry(held), message)
            raise EveryplaceError(rc.MQRC_Q_FULL, f"queue {self.name} holds {most} messages")
        self._insert(held)
        taken_over()
        if not is_unconfirmed:
            self._announce(held)

    def confirm_put(self, uid: MessageUid) -> None:
        """Make a message available that was put under a confirm id; if expired, it is removed."""
        held = self._by_uid.get(uid)
        if held is None or held.state is not MessageState.PUT_UNCONFIRMED or not held.confirm_id:
            raise self._not_there(f"put of {uid}")
        self.admit(held)

    def admit(self, held: Held) -> None:
        """Finish the adding of an unconfirmed message: now its place in the order is given."""
        if self._is_expired(held):
            self.expire(held)
            return
        self.remove(held)
        held.state, held.confirm_id, held.exchange = MessageState.AVAILABLE, 0, None
        self._insert(held)
        self._announce(held)

    # Removing

    def take(self, confirm_id: int = 0) -> MessageFields | None:
        """Return the next message, None when none is alive and available (M7).

        Expired ones in front of it are removed. With a confirm id it stays, locked, until
        ``confirm_get`` or ``undo``.
        """
        held = self._next_granted()
        if held is None:
            return None
        if confirm_id:
            self.mark(held, MessageState.GET_UNCONFIRMED, confirm_id)
        else:
            self.remove(held)
        return held.message.copy()

    def hold_back(self, begin: Callable[[], Exchange]) -> tuple[Exchange, Held] | None:
        """Lock the next message for the queue manager that takes it over (M7)."""
        held = self._next_granted()
        if held is None:
            return None
        self.mark(held, MessageState.GET_UNCONFIRMED)
        exchange = held.exchange = begin()
        self._by_exchange[exchange] = held
        return exchange, held

    def let_go(self, held: Held) -> None:
        """Give back what was held for an exchange that is known to have come to nothing."""
        if held.exchange is not None:
            del self._by_exchange[held.exchange]
        held.exchange = None
        self.mark(held, MessageState.AVAILABLE)

    def confirm_get(self, uid: MessageUid) -> None:
        """Remove a message that was got under a confirm id: the get was the check, not this."""
        held = self._by_uid.get(uid)
        if held is None or held.state is not MessageState.GET_UNCONFIRMED or not held.confirm_id:
            raise self._not_there(f"get of {uid}")
        self.remove(held)

    def undo(self, confirm_id: int) -> int:
        """Take back the unconfirmed puts and gets of an id; return how many there were.

        Puts vanish, and may be put again; gets become available where they stood.
        """
        mine = [held for held in self._held if held.confirm_id == confirm_id]
        for held in mine:
            consult(self.rule.undo, self.entry(held), held.message.copy())
        for held in filter(self.is_here, mine):
            if held.confirm_id != confirm_id:
                # The rule has done something else with it.
                continue
            if held.state is MessageState.PUT_UNCONFIRMED:
                # With Msg_Resend it was put before, and that is not undone.
                held.message.was_put = held.message.is_resend
                self.remove(held)
            else:
                self.mark(held, MessageState.AVAILABLE)
        return len(mine)

    def delete(self, uid: MessageUid) -> None:
        """Remove an available message by its identity; an expired one is not there (M7)."""
        held = self._by_uid.get(uid)
        if held is not None and self._is_free(held) and not self.expire_if_due(held):
            consult(self.rule.delete_message, self.entry(held), held.message.copy())
            # The rule may have taken it itself.
            if self._is_free(held):
                self.remove(held)
                return
        raise self._not_there(f"message {uid}")

    def _next_granted(self) -> Held | None:
        while (held := self._next_available()) is not None:
            consult(self.rule.get_message, self.entry(held), held.message.copy())
            # The rule may have taken it itself.
            if self._is_free(held):
                break
        return held

    def _next_available(self) -> Held | None:
        while True:
            for held in self._in_the_way:
                if self.expire_if_due(held):
                    break  # the rule may have changed the queue: look again from its head
                if held.state is MessageState.AVAILABLE:
                    return held
            else:
                return None

    # Looking

    def browse(self) -> list[MessageFields]:
        """Return the available messages, expired ones too: this is no moment to check (M11)."""
        seen = [held for held in self._held if held.state is MessageState.AVAILABLE]
        for held in seen:
            consult(self.rule.browse_message, self.entry(held), held.message.copy())
        return [held.message.copy() for held in seen]

    def size(self) -> int:
        """Return how many messages there are in whatever state, expired ones removed (M10)."""
        self.expire_all()
        return len(self._held)

    def expire_all(self) -> None:
        """Remove every expired message, whatever its state (M8, M9)."""
        for held in [held for held in self._held if self._is_expired(held)]:
            if self.is_here(held):
                self.expire(held)

    def is_settled(self) -> bool:
        """Return True if no other queue manager waits for word of a message of this queue."""
        return True

    def of_exchange(self, exchange: Exchange) -> Held | None:
        """Return the message that came, or is held back, by a transmission."""
        return self._by_exchange.get(exchange)

    def in_order(self) -> Iterator[Held]:
        """Yield the messages of this moment, those that are gone by then left out."""
        return filter(self.is_here, list(self._held))

    def in_exchange(self) -> list[tuple[Exchange, Held]]:
        """Return what is held for another queue manager."""
        return list(self._by_exchange.items())

    def activate(self) -> None:
        """Bring the queue into memory (M8); its rule must be there."""
        check_given(self.name, self.awaited_rule)
        self.expire_all()
        if not self.is_active:
            self.is_active = True
            tell(self.rule.queue_activate, self.name)

    def deactivate(self) -> None:
        """Let it go from memory; its messages stay."""
        if self.is_active:
            self.is_active = False
            tell(self.rule.queue_close, self.name)

    def entry(self, held: Held) -> QueueEntry:
        """Return what a rule is told of a message."""
        return QueueEntry(
            self.site.rule_owner,
            self.name,
            held.message.uid,
            held.state,
            held.arrived_ms,
            self._deadline_ms(held),
            held.confirm_id,
        )

    def mark(self, held: Held, state: MessageState, confirm_id: int = 0) -> None:
        """Change what may be done with a message, which stays in its place."""
        if self._journal is not None:
            self.note(held)
        if held.state in _IN_THE_WAY:
            self._in_the_way.remove(held)
        held.state, held.confirm_id = state, confirm_id
        if state in _IN_THE_WAY:
            self._in_the_way.add(held)

    def remove(self, held: Held) -> None:
        """Take a message off the queue."""
        if self._journal is not None:
            self.note(held)
        self._held.remove(held)
        if held.state in _IN_THE_WAY:
            self._in_the_way.remove(held)
        del self._by_uid[held.message.uid]
        if held.exchange is not None:
            self._by_exchange.pop(held.exchange, None)

    def expire(self, held: Held) -> None:
        """Remove an expired message, then call the rule (M2)."""
        self.remove(held)
        self._tell_expired(held)

    def expire_if_due(self, held: Held) -> bool:
        """Remove a message if it is expired; return True if it was."""
        if not self._is_expired(held):
            return False
        self.expire(held)
        return True

    def note(self, held: Held) -> None:
        """Have the change of a message written at the end of the verb."""
        journal = self._journal
        if journal is not None:
            journal.note(held, lambda: self._saved(journal, held))

    def _saved(self, journal: Journal, held: Held) -> list[Statement]:
        """Return what writes a message: all of it, or its columns that change, or that it is gone.

        The fields of a message that is on a queue never change.
        """
        row_id = held.row_id
        if not self.is_here(held):
            held.row_id = 0
            return [(FORGET_MESSAGE, (row_id,))] if row_id else []
        exchange = None if held.exchange is None else json.dumps(held.exchange)
        changing = (held.state, held.confirm_id, exchange, held.is_acknowledged, *held.place)
        if row_id:
            return [(CHANGE_MESSAGE, (*changing, row_id))]
        held.row_id = journal.new_id()
        fixed = (self.name, self.partner, fields_as_body(held.message), held.arrived_ms)
        return [(ADD_MESSAGE, (held.row_id, *fixed, *changing))]

    def limits(self) -> dict[str, int | None]:
        """Return its attributes by name."""
        return asdict(self.attributes)

    def take_back(self, held: Held) -> None:
        """Hold a message that the queue had before a restart, in its place."""
        self._place(held)
        self._next_order = max(self._next_order, held.place[1] + 1)

    def leave_exchange(self, held: Held, exchange: Exchange) -> None:
        """An expired message takes no further part in a transmission."""
        if exchange.beginner == self.site.name:
            self.site.peers.end(exchange)
        else:
            self.site.peers.finish(exchange)

    def _tell_expired(self, held: Held) -> None:
        if held.exchange is not None:
            self.leave_exchange(held, held.exchange)
        uid = held.message.uid
        if uid in self._expiring:
            return
        self._expiring.add(uid)
        try:
            tell(self.rule.message_expired, self.entry(held), held.message)
        finally:
            self._expiring.remove(uid)

    def _announce(self, held: Held) -> None:
        for listener in list(self.listeners):
            tell(listener, held.message.copy())

    def _insert(self, held: Held) -> None:
        if self._journal is not None:
            self.note(held)
        held.place = -held.message.priority, self._next_order
        self._next_order += 1
        self._place(held)

    def _place(self, held: Held) -> None:
        self._by_uid[held.message.uid] = held
        if held.exchange is not None:
            self._by_exchange[held.exchange] = held
        self._held.add(held)
        if held.state in _IN_THE_WAY:
            self._in_the_way.add(held)

    def _is_free(self, held: Held) -> bool:
        return self.is_here(held) and held.state is MessageState.AVAILABLE

    def is_here(self, held: Held) -> bool:
        """Return True if the queue still holds this very message."""
        return self._by_uid.get(held.message.uid) is held

    def _is_expired(self, held: Held) -> bool:
        return is_expired(self._deadline_ms(held), self._now_ms())

    def _deadline_ms(self, held: Held) -> int | None:
        message = held.message
        interval_ms = self.attributes.expiry_ms
        return deadline_ms(message.created_ms, held.arrived_ms, message.expire_time, interval_ms)

    def _now_ms(self) -> int:
        return self.site.clock.now_ms()

    def _not_there(self, what: str) -> EveryplaceError:
        return EveryplaceError(rc.MQRC_NO_MSG_AVAILABLE, f"{what}: not on queue {self.name}")
