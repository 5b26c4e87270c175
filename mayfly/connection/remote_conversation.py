"""A conversation of a client: its verbs as requests, its handles, its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from mayfly.connection.remote_link import Link
from mayfly.connection.remote_requests import OnAnswer, OnMet, Request, answer_of
from mayfly.connection.virtual_time import VirtualTime
from mayfly.contracts.wire_fields import Packer, Row
from mayfly.contracts.wire_mistakes import reason_of
from mayfly.contracts.wire_rows import PUT_MESSAGE
from mayfly.contracts.wire_verbs import FORMS, Verb
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

#: The gets that may wait, and the place of their wait interval.
_GETS: Final = (Verb.GET, Verb.GET_ANY)
_WAIT_FIELD: Final = 2


class Conversation:
    """One of those that share a link."""

    def __init__(self, link: Link) -> None:
        """Begin one; its first verb is CONNECT."""
        self.link = link
        #: The virtual clock of the server, where that is in this process.
        self.virtual_time: VirtualTime | None = None
        self.number = next(link.conversation_numbers)
        link.members.add(self)
        self.is_closed = self.is_dropped = False
        #: Whether the server makes changes of the schedule part of the unit of work.
        self.changes_in_unit = False
        #: The objects that are open: MQOT_* by number.
        self.open_handles: dict[int, int] = {}
        self._packer, self._packing = Packer(), link.runtime.lock("wire-pack")
        #: Functions that end objects that the program has dropped; the next verb calls them.
        self.dropped: deque[Callable[[], None]] = deque()

    def call(self, verb: Verb, fields: list[Any], *, is_doubtful: bool = False) -> Any:
        """Run a verb and return its answer; raises MQError, as ``Link.call``."""
        if self.is_closed or self.dropped:
            self._look_round()
        payload, kind = self._packed(verb, fields), FORMS[verb].answer
        wait = (
            None if self.virtual_time is None else self._wait_for(self.virtual_time, verb, fields)
        )
        return self.link.call(self.number, payload, kind, is_doubtful=is_doubtful, wait=wait)

    def begin(
        self,
        verb: Verb,
        fields: list[Any],
        on_done: Callable[[Any], object],
        *,
        is_doubtful: bool = False,
        on_met: OnMet | None = None,
    ) -> int:
        """Begin a verb that ends with ``on_done``, told its answer or MQError; raises MQError."""
        if self.is_closed or self.dropped:
            self._look_round()
        kind = FORMS[verb].answer

        def tell(payload: bytes | MQError) -> None:
            try:
                answer = answer_of(payload, kind)
            except MQError as error:
                on_done(error)
            else:
                on_done(answer)

        told: OnAnswer = tell
        payload = self._packed(verb, fields)
        return self.link.begin(self.number, payload, told, is_doubtful=is_doubtful, on_met=on_met)

    def packed_message(self, fields: list[Any]) -> bytes:
        """Return one of several messages to be put as it travels; raises MQError."""
        if self.is_closed or self.dropped:
            self._look_round()
        try:
            with self._packing:
                return self._packer.packed(fields)
        except (ValueError, TypeError) as error:
            raise _refused(Verb.PUT, PUT_MESSAGE, fields, error) from None

    def gather(self, packed: Callable[[], bytes], request: Request) -> None:
        """Send a request soon, packed then; raises MQError. See ``Sender.gather``."""
        self.link.gather(self.number, packed, request)

    def close(self) -> None:
        """Forget it; its link ends with the last conversation."""
        if not self.is_closed:
            while self.dropped:
                self.dropped.popleft()()
            self.is_closed = True
            self.open_handles.clear()
            self.link.members.discard(self)
            if not self.link.members:
                self.link.close()

    def leave(self) -> None:
        """End one that nobody waits for; the server backs out."""
        with suppress(MQError):
            self.link.post(self.number, self._packed(Verb.DISCONNECT, [False]))
        self.close()

    def drop(self) -> None:
        """End a conversation that its program has dropped; the server backs out.

        Python may collect it at any moment, also while a frame is being sent, so nothing is sent
        here. When others share the socket, the next verb of one of them tells the server.
        """
        if self.is_closed:
            return
        self.is_dropped = True
        others = [each for each in tuple(self.link.members) if not each.is_dropped]
        if others:
            others[0].dropped.append(self.leave)
        else:
            self.is_closed = True
            self.link.abort()

    def _wait_for(
        self, time: VirtualTime, verb: Verb, fields: list[Any]
    ) -> Callable[[int, Request], None] | None:
        """Return what waits for the answer of a get under the virtual clock of this process."""
        clock = time.clock
        if clock.autojump:
            clock.note_use()
        if verb not in _GETS or not fields[_WAIT_FIELD]:
            return None

        def wait(number: int, request: Request) -> None:
            # Behind its answer the get has its own, or stands.
            self.turn()
            if not request.is_open:
                return
            try:
                if clock.autojump:
                    clock.wait_until(partial(self._is_over, request), self.turn)
                else:
                    time.check()
            except RuntimeError:
                if self.call(Verb.CANCEL, [number]):
                    raise

        return wait

    def turn(self) -> None:
        """Return when all verbs before have been run, or stand: verbs run in turn."""
        self.call(Verb.NOW, [])

    def _is_over(self, request: Request) -> bool:
        self.link.check()
        return not request.is_open

    def _look_round(self) -> None:
        if self.is_closed:
            raise mq_error(rc.MQRC_HCONN_ERROR, "the connection is closed")
        while self.dropped:
            self.dropped.popleft()()

    def _packed(self, verb: Verb, fields: list[Any]) -> bytes:
        try:
            with self._packing:
                return self._packer.packed([int(verb), *fields])
        except (ValueError, TypeError) as error:
            raise _refused(verb, FORMS[verb].request, fields, error) from None


def _refused(verb: Verb, row: Row, fields: list[Any], error: Exception) -> MQError:
    """Return why fields cannot travel."""
    field = row.field_that_cannot_travel(fields)
    return mq_error(reason_of(verb, field), f"{verb.name.lower()}.{field}: {error}")
