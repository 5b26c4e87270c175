"""Calls of a session over Flight about dead letters: a handler that works here."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from mayfly.contracts.reasons import BAD_REQUEST
from mayfly.contracts.sessions import LONGEST_WAIT_MS
from mayfly.dead_letter import DeadLetterHandler, RuleTableError, parse_rules
from mayfly.lifetime.times import SECOND_MS
from mayfly.queue_manager import QueueManager
from mayfly.servers.flight_calls import CallRefused, Request, fields_of


class LetterWork:
    """The handler of a session, if there is one; it works on a thread of its own."""

    def __init__(self, manager: QueueManager) -> None:
        """Work on the letters of a queue manager when it is asked for."""
        self._manager = manager
        self._handler: DeadLetterHandler | None = None
        self._threads = ThreadPoolExecutor(1, "mayfly-letters")
        self._work: Future[object] | None = None

    def open(self, rules: str, queue: str) -> str:
        """Make the handler and return the queue it works on; raises MQError and CallRefused."""
        if self._handler is not None:
            raise CallRefused(BAD_REQUEST, "a session has one handler of dead letters")
        try:
            table = parse_rules(rules)
        except RuleTableError as error:
            raise CallRefused(BAD_REQUEST, f"rules: {error}") from error
        assert isinstance(self._manager, QueueManager)
        self._handler = DeadLetterHandler(self._manager, table, queue=queue)
        return self._handler.queue

    def start(self, *, is_once: bool) -> None:
        """Begin to work: through the queue once, or as long as WAIT says."""
        handler = self._opened()
        if self._work is not None and not self._work.done():
            raise CallRefused(BAD_REQUEST, "the handler works already")
        self._work = self._threads.submit(handler.run_once if is_once else handler.run)

    def stop(self) -> None:
        """End the work, soon."""
        self._opened().stop()

    def standing(self) -> Any:
        """Return whether the work is over, counts and failures; waits for that a while.

        Raises what has ended the work: MQError.
        """
        handler = self._opened()
        if self._work is None:
            raise CallRefused(BAD_REQUEST, "the handler was not started")
        wait([self._work], LONGEST_WAIT_MS / SECOND_MS)
        is_over = self._work.done()
        if is_over:
            self._work.result()
        return is_over, list(handler.counts.items()), list(handler.failures.items())

    def close(self) -> None:
        """End the work and the handler; the letter in work is finished or left as it was."""
        if self._handler is not None:
            self._handler.stop()
        self._threads.shutdown()
        if self._handler is not None:
            self._handler.close()

    def _opened(self) -> DeadLetterHandler:
        if self._handler is None:
            raise CallRefused(BAD_REQUEST, "no handler of dead letters was opened")
        return self._handler


def _open(work: LetterWork, request: Request) -> str:
    return work.open(*fields_of(request, rules=str, queue=str))


def _start(work: LetterWork, request: Request) -> None:
    (is_once,) = fields_of(request, once=bool)
    work.start(is_once=is_once)


def _stop(work: LetterWork, request: Request) -> None:
    fields_of(request)
    work.stop()


def _standing(work: LetterWork, request: Request) -> Any:
    fields_of(request)
    return work.standing()


LETTER_VERBS: dict[str, Callable[[LetterWork, Request], Any]] = {
    "letters-open": _open,
    "letters-start": _start,
    "letters-stop": _stop,
    "letters-standing": _standing,
}
