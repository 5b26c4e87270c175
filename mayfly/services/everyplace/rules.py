"""Rules of queues: hooks of the application, called when a message is put, got or expires."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from mayfly.lifetime.everyplace import Timepiece
from mayfly.mqi import reasons as rc
from mayfly.services.everyplace.errors import EveryplaceError, RuleRefused
from mayfly.services.everyplace.fields import MessageFields, MessageUid

P = ParamSpec("P")
R = TypeVar("R")

_LOG = logging.getLogger("mayfly.everyplace")


class MessageState(StrEnum):
    """The state of a message on a queue."""

    #: Put under a confirm id, or by the first stage of a transmission: nobody sees it yet.
    PUT_UNCONFIRMED = "put_unconfirmed"
    AVAILABLE = "available"
    #: Got under a confirm id, or pulled by another queue manager and not yet confirmed.
    GET_UNCONFIRMED = "get_unconfirmed"
    #: On an asynchronous remote queue: its transmission has begun.
    SENDING = "sending"


class RuleOwner(Protocol):
    """The queue manager that calls the rule, with the calls that a rule may make on it.

    At run time it is the EveryplaceQueueManager, whose docstrings describe each call in full.
    """

    name: str
    clock: Timepiece

    def put_message(
        self,
        queue: str,
        fields: MessageFields,
        queue_manager: str | None = None,
        confirm_id: int = 0,
    ) -> MessageUid:
        """Put a copy of a message and return its identity; see EveryplaceQueueManager."""

    def confirm_put_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Make a message available that was put with a confirm id.

        Raises MQRC_NO_MSG_AVAILABLE when the queue has no such message.
        """

    def get_message(
        self, queue: str, queue_manager: str | None = None, confirm_id: int = 0
    ) -> MessageFields | None:
        """Get the next message; None if no message is available; see EveryplaceQueueManager."""

    def confirm_get_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Delete a message that was got with a confirm id.

        Raises MQRC_NO_MSG_AVAILABLE when the queue has no such message.
        """

    def undo(self, queue: str, confirm_id: int, queue_manager: str | None = None) -> int:
        """Undo the unconfirmed puts and gets with this confirm id; return their number."""

    def delete_message(self, queue: str, uid: MessageUid, queue_manager: str | None = None) -> None:
        """Delete an available message by its identity.

        Raises MQRC_NO_MSG_AVAILABLE when the queue has no such message.
        """

    def browse_messages(self, queue: str, queue_manager: str | None = None) -> list[MessageFields]:
        """Return copies of the available messages, which stay on the queue; [] without any."""

    def inquire_queue_size(self, queue: str, queue_manager: str | None = None) -> int:
        """Return how many messages a queue holds, locked and unconfirmed ones included."""

    def transmit_put(self, queue: str, queue_manager: str | None = None) -> int:
        """Run the first stage of transmission; return how many messages have arrived there."""

    def transmit_confirm(self, queue: str, queue_manager: str | None = None) -> int:
        """Run the second stage of transmission; return how many messages became available there."""

    def pull(self, queue: str) -> int:
        """Fetch the messages that the home server keeps for a queue; return their number."""

    def stop_trickle(self) -> None:
        """Stop the trickle: from now on messages are transmitted and pulled only by calls."""


class QueueEntry(NamedTuple):
    """A message on a queue, as a rule receives it; times are epoch ms of ``owner``'s clock.

    ``expire_at_ms`` None means that it never expires, ``confirm_id`` 0 that it has none.
    """

    owner: RuleOwner
    queue: str
    uid: MessageUid
    state: MessageState
    arrived_ms: int
    expire_at_ms: int | None
    confirm_id: int


class QueueRule:
    """The base of queue rules: derive from it and override the hooks you need.

    A hook refuses its event by raising RuleRefused, where its description allows that. Any
    other error is logged, and the queue works as without a rule (M17). A hook may call the queue
    manager.
    """

    def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Called before a message is added; may change its fields.

        RuleRefused, raised here, refuses the message. Any other exception is logged, and the
        message is added.
        """

    def get_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Called before a message is got; RuleRefused, raised here, makes the get fail.

        The message stays on the queue then. Any other exception is logged, and the message is got.
        """

    def delete_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Called before delete_message removes a message; RuleRefused, raised here, keeps it.

        Any other exception is logged, and the message is removed.
        """

    def browse_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Called before a message is shown to a browser.

        RuleRefused, raised here, makes the whole browse fail. Any other exception is logged.
        """

    def undo(self, entry: QueueEntry, message: MessageFields) -> None:
        """Called before an unconfirmed put or get is undone.

        RuleRefused, raised here, ends the undo, and nothing is undone. Any other exception is
        logged.
        """

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> object:
        """Called after an expired message was detected and removed from the queue (M2).

        The message is gone, whatever the hook returns or raises. The hook may put a copy elsewhere
        (M16).
        """

    def duplicate_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Called when a message is put that is on the queue already; the put adds nothing."""

    def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
        """Called before an asynchronous remote queue sends a message; True, here always, sends it.

        False keeps it for the next time.
        """
        return True

    def threshold_exceeded(self, entry: QueueEntry, message: MessageFields) -> None:
        """Called when a put is refused because the queue holds ``max_depth`` messages."""

    def queue_activate(self, queue: str) -> None:
        """Called when the queue is activated, after its expired messages were removed."""

    def queue_close(self, queue: str) -> None:
        """Called when the queue is deactivated."""

    def queue_removed(self, queue: str) -> None:
        """Called when the queue has been deleted."""

    def attribute_change(self, queue: str, attribute: str, value: int | None) -> None:
        """Called before an attribute of the queue is altered to ``value``.

        RuleRefused, raised here, prevents the change. Any other exception is logged.
        """

    def add_listener(self, queue: str) -> None:
        """Called before a message listener is added; RuleRefused, raised here, prevents it.

        Any other exception is logged.
        """

    def remove_listener(self, queue: str) -> None:
        """Called before a message listener is removed; RuleRefused, raised here, prevents it.

        Any other exception is logged.
        """


def class_of(rule: QueueRule) -> str:
    """Return the qualified class name of a rule, ``'myapp.rules.MyRule'``.

    Returns an empty text for QueueRule itself, which does nothing.
    """
    kind = type(rule)
    return "" if kind is QueueRule else f"{kind.__module__}.{kind.__qualname__}"


def check_rule(rule: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless the rule is None or an instance of QueueRule."""
    if rule is not None and not isinstance(rule, QueueRule):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"rule {rule!r} is neither None nor QueueRule")


def check_given(queue: str, awaited_rule: str) -> None:
    """Raise MQRC_ENVIRONMENT_ERROR if a queue's rule was not set again after a restart.

    ``awaited_rule`` is the class name of the missing rule, empty if no rule is missing.
    """
    if awaited_rule:
        raise EveryplaceError(
            rc.MQRC_ENVIRONMENT_ERROR,
            f"queue {queue} has a rule of class {awaited_rule}: give it with set_rule",
        )


def consult(hook: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
    """Call a hook that may refuse, and return its result.

    Raises RuleRefused when the hook raises it. Any other exception is logged, and the result is
    None (M17).
    """
    try:
        return hook(*args, **kwargs)
    except RuleRefused:
        raise
    except Exception:  # noqa: BLE001 - an application's code must not stop a queue (M17)
        _log_failure(hook)
        return None


def notify(hook: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a hook that cannot refuse; ignore its result, and log its exception (M2, M17)."""
    try:
        hook(*args, **kwargs)
    except Exception:  # noqa: BLE001 - an application's code must not stop a queue (M17)
        _log_failure(hook)


def _log_failure(hook: object) -> None:
    """Log the exception of a hook, inside its ``except`` block."""
    _LOG.exception("%s failed; the default applies", getattr(hook, "__qualname__", hook))
