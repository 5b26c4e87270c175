"""The monitor itself: waits on an initiation queue and starts what its messages name."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Self

from mayfly.client.connection import Connection, LocalConnection
from mayfly.mqi import constants as c
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Thread
from mayfly.services.trigger_monitor.messages import trigger_message_of
from mayfly.services.trigger_monitor.programs import CannotStart, Program, Programs
from mayfly.verbs.messages import Message

_LOG = logging.getLogger("mayfly.trigger_monitor")
#: A trigger message is read as it was put.
_GET = c.MQGMO_SYNCPOINT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
_NO_PROGRAMS: Mapping[str, Program] = {}


class Outcome(StrEnum):
    """The outcomes that a monitor counts."""

    #: A program was started, whatever became of it.
    STARTED = "started"
    #: Of those: it raised, or ended with another code than 0 before the monitor was stopped; not
    #: counted in the background.
    FAILED = "failed"
    #: The trigger message went to the dead-letter queue.
    DEAD_LETTERED = "dead_lettered"
    #: It did not, as no dead-letter queue takes it.
    LOST = "lost"


class TriggerMonitor:
    """Starts programs for the trigger messages of one queue, in their order.

    A context manager; used by one thread but for :meth:`stop`. ``counts`` can be read from any.
    """

    def __init__(
        self,
        source: QueueManager | Connection,
        queue: str,
        programs: Mapping[str, Program] = _NO_PROGRAMS,
        *,
        runs_commands: bool = False,
        commands_at_once: int = 1,
        user: str | None = None,
    ) -> None:
        """Open the initiation queue, which may let queues trigger at once (T2).

        ``programs`` are callables by ApplId; with ``runs_commands`` every other ApplId of type
        MQAT_UNIX is a command line. While ``commands_at_once`` of them run, no trigger message is
        taken. ``source`` is a queue manager of this process, which it reads as ``user``, None for
        who opened the queue manager; or a connection, which it closes in the end. Raises ValueError
        for a limit below 1, and the reason codes of an open for input.
        """
        if commands_at_once < 1:
            raise ValueError(f"commands_at_once {commands_at_once} is less than 1")
        if isinstance(source, QueueManager):
            session = source.session(user, program="mayfly trigger", groups=None)
            source = LocalConnection(session, source)
        self._connection = connection = source
        runtime = self._runtime = connection.runtime
        limit = commands_at_once if runs_commands else 0
        note_failure = partial(self._count, Outcome.FAILED)
        self._programs = Programs(programs, limit, note_failure, runtime)
        try:
            self._opened = connection.open(queue, c.MQOO_INPUT_SHARED)
        except MQError:
            connection.close(commit=False)
            raise
        self._stopped = runtime.event()
        self._thread: Thread | None = None
        self.counts = Counter(dict.fromkeys(Outcome, 0))
        self._counting = runtime.lock("trigger monitor")

    @property
    def queue(self) -> str:
        """The initiation queue."""
        return self._opened.queue

    def run_once(self) -> Counter[Outcome]:
        """See to the trigger messages that are there and return what happened; waits for none.

        Raises MQRC_GET_INHIBITED, MQRC_Q_DELETED, MQRC_CONNECTION_BROKEN.
        """
        before = self.counts.copy()
        while (message := self._next(0)) is not None:
            self._deal_with(message)
        return self.counts - before

    def run(self) -> None:
        """See to trigger messages as they come, until :meth:`stop`; raises as :meth:`run_once`."""
        while (message := self._next(c.MQWI_UNLIMITED)) is not None:
            self._deal_with(message)

    def start(self) -> None:
        """Let a thread do what :meth:`run` does; raises RuntimeError for a second one."""
        if self._thread is not None:
            raise RuntimeError(f"the trigger monitor of {self.queue} was started before")
        self._thread = self._runtime.thread(self._serve, "mayfly-trigger")
        self._thread.start()

    def stop(self) -> None:
        """End it from any thread, for good: a callable in work ends first, a command runs on.

        From inside of a callable it does not wait.
        """
        self._stopped.set()
        self._programs.stop()
        with suppress(MQError):
            self._connection.close_object(self._opened.handle)
        if self._thread is not None and self._thread.ident != self._runtime.thread_id():
            self._thread.join()

    def close(self) -> None:
        """Stop, and disconnect from the queue manager."""
        self.stop()
        self._connection.close(commit=False)

    def __enter__(self) -> Self:
        """Return the monitor."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop and disconnect."""
        self.close()

    def _serve(self) -> None:
        try:
            self.run()
        except ConnectionBroken as error:
            _LOG.info("the trigger monitor of %s ends: %s", self.queue, error)
        except MQError as error:
            _LOG.error("the trigger monitor of %s stops: %s", self.queue, error)

    def _next(self, wait_ms: int) -> Message | None:
        """Take the next trigger message in the unit of work; None for none, or once stopped."""
        if self._stopped.is_set():
            return None
        options = _GET | (c.MQGMO_WAIT if wait_ms else c.MQGMO_NO_WAIT)
        try:
            return self._connection.get(self._opened.handle, options, wait_ms=wait_ms).message
        except NoMessage:
            return None
        except MQError:
            if self._stopped.is_set():
                return None
            raise

    def _deal_with(self, message: Message) -> None:
        try:
            trigger = trigger_message_of(message)
            wait = self._programs.start(trigger, self._connection.name)
        except MQError as error:
            self._refuse(message, c.MQFB_TM_ERROR, error)
            return
        except CannotStart as error:
            self._refuse(message, error.feedback, error)
            return
        except Exception as error:  # noqa: BLE001 - a trigger message that nobody expected
            _LOG.exception("%s cannot be dealt with", message)
            self._refuse(message, c.MQFB_TM_ERROR, error)
            return
        # The program is not part of the unit of work.
        self._connection.commit()
        self._count(Outcome.STARTED)
        wait()

    def _count(self, outcome: Outcome) -> None:
        # A command may end on a thread of its own.
        with self._counting:
            self.counts[outcome] += 1

    def _refuse(self, message: Message, feedback: int, why: Exception) -> None:
        """Put a trigger message on the dead-letter queue; where that fails, it is lost (T9)."""
        _LOG.warning("%s: %s", message, why)
        try:
            self._connection.onward.dead_letter(message, feedback)
            outcome = Outcome.DEAD_LETTERED
        except ConnectionBroken:
            raise
        except MQError as error:
            _LOG.error("%s is lost: %s", message, error)
            outcome = Outcome.LOST
        self._connection.commit()
        self._count(outcome)
