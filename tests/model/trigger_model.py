"""Triggering as T1-T6 say it, slow and obvious: messages on each queue, and its open handles."""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST, EVERY, DEPTH = 1, 2, 3
#: States of a message: it waits for its delivery time, or for a commit, or it is on its queue, or
#: an open unit of work has got it.
DELAYED, UNCOMMITTED, THERE, TAKEN = "delayed", "uncommitted", "there", "taken"


@dataclass
class Held:
    """One message."""

    label: int
    queue: str
    priority: int
    persistent: bool
    expire_at_ms: int | None
    state: str
    owner: int = 0
    due_ms: int = 0


@dataclass
class Rules:
    """The trigger attributes of a queue, and the state of its trigger."""

    trigger_type: int
    least_priority: int
    depth: int
    is_on: bool = True
    has_initiation_queue: bool = True
    inputs: int = 0
    last_ms: int | None = None
    has_arrived_since: bool = False

    def forget(self) -> None:
        """A queue that does not trigger for a while begins anew."""
        self.last_ms, self.has_arrived_since = None, False


@dataclass
class TriggerModel:
    """Says for which queues trigger messages are made; ``made`` collects them."""

    now_ms: int
    interval_ms: int
    queues: dict[str, Rules] = field(default_factory=dict)
    messages: dict[int, Held] = field(default_factory=dict)
    monitors: int = 0
    takes_puts: bool = True
    allows_gets: bool = True
    has_process: bool = True
    #: Whether nothing fits onto the initiation queue; there is no dead-letter queue.
    is_full: bool = False
    made: list[str] = field(default_factory=list)

    def counted(self, name: str) -> list[Held]:
        """Committed, of enough priority; expired or not (T5)."""
        rules = self.queues[name]
        return [
            m
            for m in self.messages.values()
            if m.queue == name and m.state == THERE and m.priority >= rules.least_priority
        ]

    def arrive(self, messages: list[Held]) -> None:
        """Messages come onto their queues together (T2-T5)."""
        for message in messages:
            message.state = THERE
        for name, rules in self.queues.items():
            new = [m for m in self.counted(name) if m in messages]
            if not new or not rules.is_on or not rules.has_initiation_queue:
                continue
            if rules.trigger_type == EVERY:
                self.trigger(name, len(new))
            elif rules.trigger_type == DEPTH:
                self.look_at(name)
            elif not rules.inputs:
                was_empty = len(self.counted(name)) == len(new)
                last_ms = rules.last_ms
                is_long_ago = last_ms is None or self.now_ms - last_ms >= self.interval_ms
                if was_empty or is_long_ago:
                    self.trigger(name, 1)
                else:
                    rules.has_arrived_since = True

    def look_at(self, name: str) -> None:
        """The conditions may have come true, whether or not something arrives (T2)."""
        rules = self.queues[name]
        needed = rules.depth if rules.trigger_type == DEPTH else 1
        is_free = not rules.inputs or rules.trigger_type == EVERY
        triggers = rules.is_on and rules.has_initiation_queue
        if triggers and is_free and len(self.counted(name)) >= needed:
            self.trigger(name, 1)

    def trigger(self, name: str, count: int) -> None:
        """Make trigger messages, if a monitor can have them (T1); lost ones never were (T9)."""
        rules = self.queues[name]
        if not self.monitors or not self.has_process:
            return
        if not self.takes_puts or not self.allows_gets:
            return
        if self.is_full:
            rules.forget()
            return
        self.made += [name] * count
        rules.last_ms, rules.has_arrived_since = self.now_ms, False
        if rules.trigger_type == DEPTH:
            rules.is_on = False
            rules.forget()

    def advance(self, ms: int) -> None:
        """Let time pass: delayed messages arrive, intervals end."""
        end_ms = self.now_ms + ms
        while True:
            moments = [m.due_ms for m in self.messages.values() if m.state == DELAYED]
            moments += [
                rules.last_ms + self.interval_ms
                for rules in self.queues.values()
                if rules.has_arrived_since and rules.last_ms is not None
            ]
            due_ms = min(moments, default=end_ms + 1)
            if due_ms > end_ms:
                self.now_ms = end_ms
                return
            self.now_ms = max(self.now_ms, due_ms)
            self.arrive(
                [m for m in self.messages.values() if m.state == DELAYED and m.due_ms <= due_ms]
            )
            for name, rules in self.queues.items():
                if not rules.has_arrived_since or rules.last_ms is None:
                    continue
                if rules.last_ms + self.interval_ms <= self.now_ms:
                    rules.has_arrived_since = False
                    self.look_at(name)

    def commit(self, owner: int) -> None:
        """End a unit of work for good."""
        mine = [m for m in self.messages.values() if m.owner == owner]
        for message in mine:
            if message.state == TAKEN:
                del self.messages[message.label]
        arriving = [m for m in mine if m.state == UNCOMMITTED]
        for message in arriving:
            message.owner = 0
            if message.due_ms:
                message.state = DELAYED
        self.arrive([m for m in arriving if m.state == UNCOMMITTED])
        # A message that is due by now was staged all the same: it arrives by its release.
        self.advance(0)

    def backout(self, owner: int) -> None:
        """Undo a unit of work: messages that it got arrive again."""
        mine = [m for m in self.messages.values() if m.owner == owner]
        for message in mine:
            if message.state == UNCOMMITTED:
                del self.messages[message.label]
        back = [m for m in mine if m.state == TAKEN]
        for message in back:
            message.owner = 0
        self.arrive(back)

    def get(self, label: int, owner: int) -> bool:
        """Get one message by its id; return True if it comes. An expired one is discarded (T6)."""
        message = self.messages.get(label)
        if message is None:
            return False
        is_over = message.expire_at_ms is not None and message.expire_at_ms <= self.now_ms
        if message.state == UNCOMMITTED and message.owner == owner:
            # Not yet delayed, it can be got by nobody; nor is an expired one discarded before.
            if is_over or message.due_ms:
                return False
            del self.messages[label]
            return True
        if message.state != THERE:
            return False
        if is_over or not owner:
            del self.messages[label]
        else:
            message.state, message.owner = TAKEN, owner
        return not is_over

    def restart(self) -> None:
        """Close all; messages that are persistent and committed are there again."""
        for message in list(self.messages.values()):
            if message.state == UNCOMMITTED or not message.persistent:
                del self.messages[message.label]
            elif message.state == TAKEN:
                message.state, message.owner = THERE, 0
        for rules in self.queues.values():
            rules.inputs = 0
            rules.forget()
        self.monitors = 0
