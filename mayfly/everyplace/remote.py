"""Synchronous remote queues: each call goes through the link at once and answers from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from mayfly.everyplace.exchanges import Exchange
from mayfly.everyplace.fields import MessageFields, MessageUid
from mayfly.everyplace.queues import MessageQueue
from mayfly.everyplace.records import SYNCHRONOUS
from mayfly.everyplace.rules import MessageState, QueueEntry, QueueRule, check_given, consult

if TYPE_CHECKING:
    from mayfly.everyplace.manager import EveryplaceQueueManager

R = TypeVar("R")


class SynchronousQueue:
    """A queue of another queue manager; nothing is held here, so nothing expires here.

    The rule of its definition here is asked before a put; all others are asked where the queue is.
    """

    kind = SYNCHRONOUS

    def __init__(
        self, owner: EveryplaceQueueManager, name: str, partner: str, rule: QueueRule | None
    ) -> None:
        """Stand for queue ``name`` at ``partner``."""
        self.owner = owner
        self.name = name
        self.partner = partner
        self.rule = rule or QueueRule()
        #: The class of the rule that it had before a restart and has not been given again.
        self.awaited_rule = ""

    def limits(self) -> dict[str, int | None]:
        """Return its attributes by name: it has none."""
        return {}

    def add(self, message: MessageFields, confirm_id: int = 0) -> None:
        """Add a message there."""
        check_given(self.name, self.awaited_rule)
        now_ms = self.owner.clock.now_ms()
        state = MessageState.PUT_UNCONFIRMED if confirm_id else MessageState.AVAILABLE
        entry = QueueEntry(self.owner, self.name, message.uid, state, now_ms, None, confirm_id)
        consult(self.rule.put_message, entry, message)
        self._there(lambda queue: queue.add(message.copy(), confirm_id))

    def confirm_put(self, uid: MessageUid) -> None:
        """Confirm a put there."""
        self._there(lambda queue: queue.confirm_put(uid))

    def take(self, confirm_id: int = 0) -> MessageFields | None:
        """Get the next message from there."""
        return self._there(lambda queue: queue.take(confirm_id))

    def confirm_get(self, uid: MessageUid) -> None:
        """Confirm a get there."""
        self._there(lambda queue: queue.confirm_get(uid))

    def undo(self, confirm_id: int) -> int:
        """Undo there."""
        return self._there(lambda queue: queue.undo(confirm_id)) or 0

    def delete(self, uid: MessageUid) -> None:
        """Delete a message there."""
        self._there(lambda queue: queue.delete(uid))

    def browse(self) -> list[MessageFields]:
        """Browse there."""
        return self._there(lambda queue: queue.browse()) or []

    def size(self) -> int:
        """Ask for the size there, where what has expired is removed first (M10)."""
        return self._there(lambda queue: queue.size()) or 0

    def delete_there(self) -> None:
        """Delete the queue there, as its own queue manager would (M9)."""
        self._there(lambda queue: queue.owner.delete_queue(queue.name, queue.owner.name))

    def _there(self, call: Callable[[MessageQueue], R]) -> R | None:
        peers = self.owner.peers
        exchange = peers.begin(self.partner)
        try:
            return peers.carry(exchange, lambda other, its: serve(other, its, self.name, call))
        finally:
            peers.end(exchange)


def serve(
    server: EveryplaceQueueManager,
    exchange: Exchange,
    queue: str,
    call: Callable[[MessageQueue], R],
) -> R | None:
    """Do a call of another queue manager once; None when it has been done, or given up, before."""
    if server.peers.is_over(exchange):
        return None
    server.peers.finish(exchange)
    return call(server.directory.local_queue(queue))
