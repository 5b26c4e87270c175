"""Poison messages: backed out BOTHRESH times, and moved to BOQNAME or the dead-letter queue.

The queue manager itself never moves them (G10): JMS does, and clients that ask for it.
"""

from __future__ import annotations

import logging

from mayfly.client.connection.interface import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Message, token_of

_LOG = logging.getLogger("mayfly.client")


class PoisonMoves:
    """Moves the poison messages that a client gets, in its unit of work; it passes over them.

    A message that no queue takes cannot be passed over: the unit of work that has got it can only
    be backed out.
    """

    def __init__(self, connection: Connection) -> None:
        """Use the connection of a transacted client."""
        self._connection = connection
        #: Why the unit of work can only be backed out, None when it can be committed.
        self.failure: MQError | None = None

    def is_moved(self, handle: int, message: Message) -> bool:
        """Move a got message if it was backed out BOTHRESH times; return True if it was moved.

        ``handle`` is its open queue. Raises MQRC_BACKOUT_THRESHOLD_REACHED when no queue takes it.
        """
        if not exceeds_backout_threshold(self._connection, handle, message):
            return False
        try:
            move_away(self._connection, handle, message)
        except MQError as error:
            self.failure = error
            raise
        return True

    def without(self, handle: int, found: list[Message]) -> list[Message]:
        """Return the messages of ``found`` that are left when its poison messages are moved away.

        Raises the errors of :meth:`is_moved`.
        """
        return [message for message in found if not self.is_moved(handle, message)]

    def check_commit(self) -> None:
        """Raise the error of a move that has failed in the unit of work; else do nothing."""
        if self.failure is not None:
            raise self.failure

    def forget(self) -> None:
        """Forget that a move has failed; call it when the unit of work is backed out."""
        self.failure = None


def check_move_poison(*, transacted: bool, move_poison: bool) -> None:
    """Raise ValueError for ``move_poison`` with a client that is not ``transacted``."""
    if move_poison and not transacted:
        raise ValueError("move_poison is for transacted clients: without it no get is backed out")


def poison_moves(
    connection: Connection, *, transacted: bool, move_poison: bool
) -> PoisonMoves | None:
    """Return the moves of a client, None if it does not want any.

    Raises ValueError for ``move_poison`` without ``transacted``.
    """
    check_move_poison(transacted=transacted, move_poison=move_poison)
    return PoisonMoves(connection) if move_poison else None


def exceeds_backout_threshold(connection: Connection, handle: int, message: Message) -> bool:
    """Return True if a message was backed out at least BOTHRESH times.

    ``handle`` is its open queue. BOTHRESH(0) is no limit.
    """
    backout_count = message.backout_count
    if not backout_count:
        # Most were never backed out: their queue need not be asked.
        return False
    return 0 < connection.call(ask.AskBackoutRule(handle)).threshold <= backout_count


def move_away(connection: Connection, handle: int, message: Message) -> None:
    """Move a message that the unit of work has got to another queue, in the same unit of work.

    It keeps its deadline. It goes to BOQNAME unchanged. If that fails, it goes to the dead-letter
    queue with an MQDLH, or is discarded if its report options have MQRO_DISCARD_MSG. In both of
    these cases an exception report is sent if requested, in the same unit of work.

    Raises MQRC_BACKOUT_THRESHOLD_REACHED if no queue accepts the message, or the report of a
    persistent one. The caller must then back out the unit of work.
    """
    descriptor = message.descriptor
    try:
        name = connection.call(ask.AskBackoutRule(handle)).queue_name
        connection.call(ask.Forward(message.queue, token_of(message), name))
    except MQError as error:
        if descriptor.report & c.MQRO_DISCARD_MSG:
            _LOG.warning("%s on %s is discarded: %s", message.msg_id.hex(), message.queue, error)
        else:
            _dead_letter(connection, message)
        is_sent = connection.call(
            ask.ReportException(message.queue, token_of(message), rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        )
        if not is_sent and descriptor.persistence == c.MQPER_PERSISTENT:
            text = f"nobody takes the exception report of {message.msg_id.hex()}"
            raise mq_error(rc.MQRC_BACKOUT_THRESHOLD_REACHED, text) from error


def _dead_letter(connection: Connection, message: Message) -> None:
    """Put a message that the unit of work has got to the dead-letter queue.

    Raises MQRC_BACKOUT_THRESHOLD_REACHED if that fails.
    """
    try:
        connection.call(
            ask.DeadLetter(message.queue, token_of(message), rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        )
    except MQError as error:
        raise mq_error(
            rc.MQRC_BACKOUT_THRESHOLD_REACHED,
            f"{message.msg_id.hex()} on {message.queue} was backed out {message.backout_count} "
            f"times and can be put neither on BOQNAME nor on the dead-letter queue: {error}",
        ) from error
