"""Messages that a program has got and that stay: held as deliveries, or moved to other queues."""

from __future__ import annotations

from operator import index

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import packed_descriptor
from mayfly.verbs.messages import Delivery, Message, token_of
from mayfly.verbs.requests import Calls


class Held:
    """Messages that this conversation holds one by one, for programs that wait for them."""

    def __init__(self, call: Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

    def get(
        self, handle: int, options: int = c.MQGMO_NONE, *, wait_ms: int = c.MQWI_UNLIMITED
    ) -> Delivery:
        """Get a message as ``Asynchronous.get`` does, and return it, to be settled like that.

        Raises the reason codes of a get, MQRC_NO_MSG_AVAILABLE first of all.
        """
        _check_held(options, c.MQGMO_SYNCPOINT | c.MQGMO_BROWSE_FIRST)
        return self._call(ask.GetAny([index(handle)], options, wait_ms))

    def take(self, handle: int, options: int, most: int, most_bytes: int) -> list[Delivery]:
        """Get messages that are there, as :meth:`get` without waiting, in one turn.

        Returns at most ``most`` messages, and stops behind the one with which their bodies together
        reach ``most_bytes``. There may be more on the queue: over a network an answer has 1,000 of
        them or 1 MiB. Returns [] in the place of MQRC_NO_MSG_AVAILABLE; raises the other reason
        codes of a get.
        """
        _check_held(options, c.MQGMO_SYNCPOINT | c.MQGMO_BROWSE_FIRST | c.MQGMO_WAIT)
        return self._call(ask.TakeHeld(index(handle), options, most, most_bytes))


class Many:
    """Messages that a program gets many at a time."""

    def __init__(self, call: Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

    def get(self, handle: int, options: int, most: int, most_bytes: int) -> list[Message]:
        """Get messages that are there, as a loop of MQGET does, without waiting.

        Returns at most ``most`` messages, and stops behind the one with which their bodies together
        reach ``most_bytes``. There may be more on the queue: over a network an answer has 1,000 of
        them or 1 MiB. Outside of syncpoint one transaction
        takes them all. Properties come in an MQRFH2: other options than
        MQGMO_PROPERTIES_FORCE_MQRFH2, and those of syncpoint and of quiescing, are
        MQRC_OPTIONS_ERROR, as is a handle with a selector. Returns [] in the place of
        MQRC_NO_MSG_AVAILABLE; raises the other reason codes of a get when it has none.
        """
        return self._call(ask.GetMany(index(handle), options, most, most_bytes))


class Onward:
    """Verbs that move or answer a message in the unit of work that gets it.

    All but :meth:`move` and :meth:`reply` take a message as a get has returned it. Over a network
    its queue and MsgToken are sent, and the server looks for the message among those that the unit
    of work has got.
    """

    def __init__(self, call: Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

    def forward(self, message: Message, name: str) -> None:
        """Put a message on another queue as it is; its life goes on (E21, Q2).

        ``name`` may be ``QUEUE@MANAGER``. Raises the reason codes of open and put,
        MQRC_UNKNOWN_OBJECT_NAME for a blank name and a model queue.
        """
        self._call(ask.Forward(message.queue, token_of(message), name))

    def move(
        self,
        handle: int,
        name: str,
        *,
        descriptor: Descriptor | None = None,
        header_bytes: int = 0,
        putter: str | None = None,
    ) -> int:
        """Move the message under the browse cursor of a queue to another queue (Q2).

        The message is put first, as by :meth:`forward`, so that a put that fails raises no backout
        count; then it is got. ``descriptor`` replaces its own, ``header_bytes`` are left off the
        front of its data, and ``putter`` is a user who must be allowed to put there. Returns a
        number: messages that come onto its queue later have a higher arrival number.

        Raises as :meth:`forward`; MQRC_NO_MSG_UNDER_CURSOR when it has expired or somebody else has
        it, MQRC_OPTIONS_ERROR for the queue where it is. After an error the caller backs the unit
        of work out.
        """
        packed = None if descriptor is None else packed_descriptor(descriptor)
        return self._call(ask.Move(index(handle), name, packed, header_bytes, putter))

    def reply(
        self,
        name: str,
        manager: str,
        body: bytes,
        descriptor: Descriptor,
        *,
        putter: str,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        time_to_live_ms: int | None = None,
    ) -> int:
        """Put a reply to a ReplyToQ and ReplyToQMgr, with the context of the descriptor.

        ``putter`` is the user who must be allowed to put there, as with reports (R6). A reply that
        its queue does not take goes to the dead-letter queue with the reason, which is returned;
        else 0. An empty name is MQRC_MISSING_REPLY_TO_Q. Raises MQRC_SYNCPOINT_LIMIT_REACHED, the
        reason of a dead-letter queue that does not take the reply, and MQRC_NOT_AUTHORIZED for a
        user with limited authority. After an error the caller backs the unit of work out.
        """
        packed = packed_descriptor(descriptor)
        return self._call(
            ask.Reply(name, manager, body, packed, putter, msg_id, correl_id, time_to_live_ms)
        )

    def dead_letter(self, message: Message, reason: int) -> None:
        """Put a message on the dead-letter queue behind an MQDLH with a reason (Q1).

        Raises the reason codes of open and put.
        """
        self._call(ask.DeadLetter(message.queue, token_of(message), reason))

    def report_exception(self, message: Message, reason: int) -> bool:
        """Send the exception report that a message owes; False when no queue takes it (R6)."""
        return self._call(ask.ReportException(message.queue, token_of(message), reason))


def _check_held(options: int, wrong: int) -> None:
    if options & wrong:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"GMO.Options {options:#x} of what is held")
