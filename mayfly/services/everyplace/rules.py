"""The queue rule: the application's hooks at the events of a message's life."""

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
    """Where a message on a queue stands."""

    #: Put under a confirm id, or by the first stage of a transmission: nobody sees it yet.
    PUT_UNCONFIRMED = "put_unconfirmed"
    AVAILABLE = "available"
    #: Got under a confirm id, or pulled by another queue manager and not yet confirmed.
    GET_UNCONFIRMED = "get_unconfirmed"
    #: On an asynchronous remote queue: its transmission has begun.
    SENDING = "sending"


class RuleOwner(Protocol):
    """The queue manager whose rule is called, with the calls that a rule may make on it.

    At run time it is the EveryplaceQueueManager, whose docstrings say what each call does.
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
        """Put a copy of a message and return its identity."""

    def confirm_put_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Make a message available that was put under a confirm id."""

    def get_message(
        self, queue: str, queue_manager: str | None = None, confirm_id: int = 0
    ) -> MessageFields | None:
        """Get the next message, None when there is none."""

    def confirm_get_message(
        self, queue: str, uid: MessageUid, queue_manager: str | None = None
    ) -> None:
        """Remove a message that was got under a confirm id."""

    def undo(self, queue: str, confirm_id: int, queue_manager: str | None = None) -> int:
        """Take back the unconfirmed puts and gets under an id; return how many there were."""

    def delete_message(self, queue: str, uid: MessageUid, queue_manager: str | None = None) -> None:
        """Remove an available message by its identity."""

    def browse_messages(self, queue: str, queue_manager: str | None = None) -> list[MessageFields]:
        """Return copies of the available messages."""

    def inquire_queue_size(self, queue: str, queue_manager: str | None = None) -> int:
        """Return how many messages a queue holds."""

    def transmit_put(self, queue: str, queue_manager: str | None = None) -> int:
        """Begin to transmit an asynchronous remote queue; return how many messages arrived."""

    def transmit_confirm(self, queue: str, queue_manager: str | None = None) -> int:
        """Finish to transmit an asynchronous remote queue; return how many messages are done."""

    def pull(self, queue: str) -> int:
        """Fetch what the home server keeps for a queue; return how many messages came."""

    def stop_trickle(self) -> None:
        """Transmit and pull when called only."""


class QueueEntry(NamedTuple):
    """A message's place on a queue as a rule sees it; times are epoch ms of ``owner``'s clock.

    ``expire_at_ms`` None is never; ``confirm_id`` 0 is none.
    """

    owner: RuleOwner
    queue: str
    uid: MessageUid
    state: MessageState
    arrived_ms: int
    expire_at_ms: int | None
    confirm_id: int


class QueueRule:
    """Called by its queue; derive from it and override what you want to know or decide.

    Raising RuleRefused from a hook that says so refuses what is about to happen. Any other error
    is logged, and all goes on as if there were no rule (M17). A hook may call the queue manager.
    """

    def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Before a message is added; may change its fields, may refuse."""

    def get_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Before a message is got; may refuse."""

    def delete_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Before delete_message removes a message; may refuse."""

    def browse_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """Before a message is shown to a browser; may refuse the browse."""

    def undo(self, entry: QueueEntry, message: MessageFields) -> None:
        """Before an unconfirmed put or get is undone; may refuse."""

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> object:
        """After an expired message was met and before it is forgotten (M2).

        It is gone whatever comes back or is raised; a copy can be put elsewhere from here (M16).
        """

    def duplicate_message(self, entry: QueueEntry, message: MessageFields) -> None:
        """When a message is put that is on the queue already; it is not added."""

    def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
        """Before an asynchronous remote queue sends a message: False keeps it for the next time."""
        return True

    def threshold_exceeded(self, entry: QueueEntry, message: MessageFields) -> None:
        """When a put is refused because the queue holds its ``max_depth``."""

    def queue_activate(self, queue: str) -> None:
        """When the queue comes into memory, after what had expired was removed."""

    def queue_close(self, queue: str) -> None:
        """When the queue leaves memory."""

    def queue_removed(self, queue: str) -> None:
        """When the queue has been deleted."""

    def attribute_change(self, queue: str, attribute: str, value: int | None) -> None:
        """Before an attribute of the queue is altered; may refuse."""

    def add_listener(self, queue: str) -> None:
        """Before a message listener is added; may refuse."""

    def remove_listener(self, queue: str) -> None:
        """Before a message listener is removed; may refuse."""


def class_of(rule: QueueRule) -> str:
    """Return the class of a rule by its name; empty for one that does nothing."""
    kind = type(rule)
    return "" if kind is QueueRule else f"{kind.__module__}.{kind.__qualname__}"


def check_rule(rule: object) -> None:
    """Raise MQRC_OPTIONS_ERROR unless it is a rule or None: a class of rules is none."""
    if rule is not None and not isinstance(rule, QueueRule):
        raise EveryplaceError(rc.MQRC_OPTIONS_ERROR, f"rule {rule!r} is neither None nor QueueRule")


def check_given(queue: str, awaited_rule: str) -> None:
    """Raise MQRC_ENVIRONMENT_ERROR while a queue's rule is not there: it would not be told."""
    if awaited_rule:
        raise EveryplaceError(
            rc.MQRC_ENVIRONMENT_ERROR,
            f"queue {queue} has a rule of class {awaited_rule}: give it with set_rule",
        )


def consult(hook: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
    """Call a hook and return its answer, None when it failed (M17); RuleRefused is passed on."""
    try:
        return hook(*args, **kwargs)
    except RuleRefused:
        raise
    except Exception:  # noqa: BLE001 - an application's code must not stop a queue (M17)
        _log_failure(hook)
        return None


def tell(hook: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a hook that decides nothing: its result is ignored, its error logged (M2, M17)."""
    try:
        hook(*args, **kwargs)
    except Exception:  # noqa: BLE001 - an application's code must not stop a queue (M17)
        _log_failure(hook)


def _log_failure(hook: object) -> None:
    _LOG.exception("%s failed; the default applies", getattr(hook, "__qualname__", hook))
