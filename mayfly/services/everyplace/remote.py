"""Synchronous remote queues: each call goes through the link at once and answers from there."""

from __future__ import annotations

from mayfly.services.everyplace import requests
from mayfly.services.everyplace.fields import MessageFields, MessageUid
from mayfly.services.everyplace.records import SYNCHRONOUS
from mayfly.services.everyplace.requests import Call, R
from mayfly.services.everyplace.rules import (
    MessageState,
    QueueEntry,
    QueueRule,
    check_given,
    consult,
)
from mayfly.services.everyplace.site import Site


class SynchronousQueue:
    """A queue of another queue manager; nothing is held here, so nothing expires here.

    The rule of its definition here is asked before a put; all others are asked where the queue is.
    """

    kind = SYNCHRONOUS

    def __init__(self, site: Site, name: str, partner: str, rule: QueueRule | None) -> None:
        """Stand for queue ``name`` at ``partner``."""
        self.site = site
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
        now_ms = self.site.clock.now_ms()
        state = MessageState.PUT_UNCONFIRMED if confirm_id else MessageState.AVAILABLE
        owner = self.site.rule_owner
        entry = QueueEntry(owner, self.name, message.uid, state, now_ms, None, confirm_id)
        consult(self.rule.put_message, entry, message)
        self._there(requests.Add(self.name, message, confirm_id))

    def confirm_put(self, uid: MessageUid) -> None:
        """Confirm a put there."""
        self._there(requests.ConfirmPut(self.name, uid))

    def take(self, confirm_id: int = 0) -> MessageFields | None:
        """Get the next message from there."""
        return self._there(requests.Take(self.name, confirm_id))

    def confirm_get(self, uid: MessageUid) -> None:
        """Confirm a get there."""
        self._there(requests.ConfirmGet(self.name, uid))

    def undo(self, confirm_id: int) -> int:
        """Undo there."""
        return self._there(requests.Undo(self.name, confirm_id)) or 0

    def delete(self, uid: MessageUid) -> None:
        """Delete a message there."""
        self._there(requests.Delete(self.name, uid))

    def browse(self) -> list[MessageFields]:
        """Browse there."""
        return self._there(requests.Browse(self.name)) or []

    def size(self) -> int:
        """Ask for the size there, where what has expired is removed first (M10)."""
        return self._there(requests.Size(self.name)) or 0

    def delete_there(self) -> None:
        """Delete the queue there, as its own queue manager would (M9)."""
        self._there(requests.DeleteQueue(self.name))

    def _there(self, call: Call[R]) -> R | None:
        """Return the answer; None when the call has been done, or given up, before."""
        peers = self.site.peers
        exchange = peers.begin(self.partner)
        try:
            return peers.carry(exchange, call)
        finally:
            peers.end(exchange)
