"""The trigger monitor: starts the programs that trigger messages name; see docs/LISTENERS.md.

A trigger message on an initiation queue names the queue that has work, and the program to start for
it (T8): a Python callable, or a command line.
"""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from mayfly.client.connection import Connection, LocalConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ConnectionBroken, MQError, NoMessage, mq_error
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.structures import TM, TMC2
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime, Thread
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Message, token_of

_LOG = logging.getLogger("mayfly.trigger_monitor")
_TRIGGER_FORMAT = "MQTRIG"
#: A trigger message is read as it was put.
_GET = c.MQGMO_SYNCPOINT | c.MQGMO_PROPERTIES_FORCE_MQRFH2
#: ENVRDATA of a command that is not counted among those that run at once.
_IN_BACKGROUND = "&"
#: Output of commands goes to stderr: the monitor's stdout is for its own result.
_STDERR = 2


class TriggerMessage(NamedTuple):
    """The fields of an MQTM without padding; ``appl_type`` is an MQAT_* constant."""

    queue: str
    process: str
    trigger_data: str
    appl_type: int
    appl_id: str
    env_data: str
    user_data: str

    def tmc2(self, manager_name: str) -> bytes:
        """Return the MQTMC2 for the started program: 732 bytes, with a blank ApplType.

        ``manager_name`` is the name of the queue manager in it.
        """
        return TMC2.pack(
            {
                "QName": self.queue,
                "ProcessName": self.process,
                "TriggerData": self.trigger_data,
                "ApplId": self.appl_id,
                "EnvData": self.env_data,
                "UserData": self.user_data,
                "QMgrName": manager_name,
            }
        )


def trigger_message_of(message: Message) -> TriggerMessage:
    """Parse the trigger message (MQTM) in a message; raises MQRC_TM_ERROR if it is not one."""
    descriptor = message.descriptor
    if descriptor.format.strip() != _TRIGGER_FORMAT:
        raise mq_error(rc.MQRC_TM_ERROR, f"Format {descriptor.format!r} is not {_TRIGGER_FORMAT!r}")
    fields = TM.unpack(message.body, big_endian=is_big_endian(descriptor.encoding))
    appl_type = fields["ApplType"]
    assert isinstance(appl_type, int)
    return TriggerMessage(
        str(fields["QName"]),
        str(fields["ProcessName"]),
        str(fields["TriggerData"]),
        appl_type,
        str(fields["ApplId"]),
        str(fields["EnvData"]),
        str(fields["UserData"]),
    )


#: Called with the trigger message; its result is ignored.
Program = Callable[[TriggerMessage], object]


class CannotStart(Exception):
    """A program cannot be started; ``feedback`` is the MQFB_* code of the reason."""

    def __init__(self, feedback: int, text: str) -> None:
        """Take the code ``feedback`` (MQFB_*), and a text that names the program and the reason."""
        super().__init__(text)
        self.feedback = feedback


class Programs:
    """Starts the programs of trigger messages; used by one thread, apart from :meth:`stop`."""

    def __init__(
        self,
        callables: Mapping[str, Program],
        command_limit: int,
        note_failure: Callable[[], None],
        runtime: Runtime,
    ) -> None:
        """Take callables by ApplId; other ApplIds of type MQAT_UNIX are command lines.

        At most ``command_limit`` commands run at once; 0 allows no commands. ``note_failure`` is
        called, from any thread, when a program has failed.
        """
        self._callables = callables
        self._command_limit = command_limit
        self._note_failure = note_failure
        self._is_stopped = False
        #: How many commands run, without those in the background; ``_ended`` guards it.
        self._running_count = 0
        self._runtime = runtime
        self._ended = runtime.condition()

    def start(self, trigger: TriggerMessage, manager_name: str) -> Callable[[], None]:
        """Start the program of a trigger message; return a function that waits for the next start.

        A command starts at once; the function waits until another command may run. A callable runs
        inside the function. Raises CannotStart.
        """
        program = self._callables.get(trigger.appl_id)
        if program is not None:
            return partial(self._call, program, trigger)
        if self._command_limit and trigger.appl_type != c.MQAT_UNIX:
            text = f"ApplType {trigger.appl_type} of {trigger.appl_id!r} is not {c.MQAT_UNIX}"
            raise CannotStart(c.MQFB_APPL_TYPE_ERROR, text)
        if not self._command_limit:
            raise CannotStart(c.MQFB_APPL_CANNOT_BE_STARTED, f"no program {trigger.appl_id!r}")
        process = _start_command(trigger, manager_name)
        is_counted = trigger.env_data.strip() != _IN_BACKGROUND
        with self._ended:
            self._running_count += is_counted
        # Daemons: a command that outlives the monitor keeps nobody.
        watch = partial(self._watch, process, trigger, is_counted)
        self._runtime.thread(watch, "mayfly-trigger-command").start()
        return self._wait_for_capacity

    def stop(self) -> None:
        """End the waits for commands; running commands continue."""
        with self._ended:
            self._is_stopped = True
            self._ended.notify_all()

    def _wait_for_capacity(self) -> None:
        """Wait until another command may run, or until :meth:`stop`."""
        with self._ended:
            while not self._is_stopped and self._running_count >= self._command_limit:
                self._ended.wait()

    def _watch(
        self, process: subprocess.Popen[bytes], trigger: TriggerMessage, is_counted: bool
    ) -> None:
        """Wait for the end of a command; an exit code other than 0 is logged and counted.

        A command in the background (not ``is_counted``) is only logged.
        """
        code = process.wait()
        if code:
            _LOG.warning("%r for %r ended with %d", trigger.appl_id, trigger.queue, code)
        if not is_counted:
            return
        with self._ended:
            self._running_count -= 1
            if code and not self._is_stopped:
                self._note_failure()
            self._ended.notify_all()

    def _call(self, program: Program, trigger: TriggerMessage) -> None:
        """Call a program; its errors are logged and counted, not raised."""
        try:
            program(trigger)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's own failure
            if isinstance(error, SystemExit) and error.code in (0, None):
                return
            name = trigger.appl_id
            _LOG.warning("%r for %r raised %r", name, trigger.queue, error, exc_info=error)
            self._note_failure()


def _start_command(trigger: TriggerMessage, manager_name: str) -> subprocess.Popen[bytes]:
    """Start a command line without a shell; its last argument is the MQTMC2.

    The command has a new session, so that an interrupt at the terminal ends only the monitor.
    Raises CannotStart if the command is blank, malformed or cannot be executed.
    """
    try:
        words = shlex.split(trigger.appl_id)
        if not words:
            raise ValueError("blank")
        return subprocess.Popen(
            [*words, trigger.tmc2(manager_name)],
            stdin=subprocess.DEVNULL,
            stdout=_STDERR,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        text = f"ApplId {trigger.appl_id!r}: {error}"
        raise CannotStart(c.MQFB_APPL_CANNOT_BE_STARTED, text) from error


_NO_PROGRAMS: Mapping[str, Program] = {}


class TriggerOutcome(StrEnum):
    """The outcomes of trigger messages, which a monitor counts."""

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
    """Starts programs for the trigger messages of one initiation queue, in their order.

    A context manager; used by one thread, apart from :meth:`stop`. Any thread may read ``counts``.
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
        """Open the initiation queue, after which queues may trigger at once.

        ``programs`` are callables by ApplId. With ``runs_commands`` every other ApplId of type
        MQAT_UNIX is a command line; while ``commands_at_once`` of them run, no trigger message is
        taken. ``source`` is a queue manager of this process, used as ``user``, where None means the
        user that opened it; or a connection, which the monitor closes. Raises ValueError for a
        limit below 1, and the reason codes of an open for input.
        """
        if commands_at_once < 1:
            raise ValueError(f"commands_at_once {commands_at_once} is less than 1")
        if isinstance(source, QueueManager):
            session = source.session(user, program="mayfly trigger", groups=None)
            source = LocalConnection(session, source)
        self._connection = connection = source
        runtime = self._runtime = connection.runtime
        limit = commands_at_once if runs_commands else 0
        note_failure = partial(self._count, TriggerOutcome.FAILED)
        self._programs = Programs(programs, limit, note_failure, runtime)
        try:
            self._opened = connection.call(ask.Open(queue, c.MQOO_INPUT_SHARED))
        except MQError:
            connection.close(commit=False)
            raise
        self._stopped = runtime.event()
        self._thread: Thread | None = None
        self.counts = Counter(dict.fromkeys(TriggerOutcome, 0))
        self._counting = runtime.lock("trigger monitor")

    @property
    def queue(self) -> str:
        """The name of the initiation queue."""
        return self._opened.queue

    def run_once(self) -> Counter[TriggerOutcome]:
        """Handle the trigger messages that are on the queue now; return the number of each outcome.

        Raises MQRC_GET_INHIBITED, MQRC_Q_DELETED or MQRC_CONNECTION_BROKEN.
        """
        before = self.counts.copy()
        while (message := self._next(0)) is not None:
            self._process(message)
        return self.counts - before

    def run(self) -> None:
        """Handle trigger messages as they come, until :meth:`stop`.

        Raises MQRC_GET_INHIBITED, MQRC_Q_DELETED or MQRC_CONNECTION_BROKEN.
        """
        while (message := self._next(c.MQWI_UNLIMITED)) is not None:
            self._process(message)

    def start(self) -> None:
        """Start a thread that does the work of :meth:`run`; errors are logged.

        Raises RuntimeError at the second call.
        """
        if self._thread is not None:
            raise RuntimeError(f"the trigger monitor of {self.queue} was started before")
        self._thread = self._runtime.thread(self._serve, "mayfly-trigger")
        self._thread.start()

    def stop(self) -> None:
        """Stop for good, from any thread: a running callable ends first, a command runs on.

        Called inside a callable, it does not wait for the end of the callable. The connection stays
        open.
        """
        self._stopped.set()
        self._programs.stop()
        with suppress(MQError):
            self._connection.call(ask.CloseObject(self._opened.handle))
        if self._thread is not None and self._thread.ident != self._runtime.thread_id():
            self._thread.join()

    def close(self) -> None:
        """Stop, and disconnect from the queue manager."""
        self.stop()
        self._connection.close(commit=False)

    def __enter__(self) -> Self:
        """Return the monitor, which the end of the ``with`` block closes; nothing is started."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the monitor, and disconnect from the queue manager."""
        self.close()

    def _serve(self) -> None:
        """Do the work of :meth:`run` on a thread; errors of the queue manager are logged."""
        try:
            self.run()
        except ConnectionBroken as error:
            _LOG.info("the trigger monitor of %s ends: %s", self.queue, error)
        except MQError as error:
            _LOG.error("the trigger monitor of %s stops: %s", self.queue, error)

    def _next(self, wait_ms: int) -> Message | None:
        """Get the next trigger message under syncpoint, waiting up to ``wait_ms``.

        Returns None if none came, or after the stop.
        """
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

    def _process(self, message: Message) -> None:
        """Start the program of a trigger message, or dead-letter the message; then commit.

        The get is committed before a callable runs: a callable that fails does not bring the
        message back.
        """
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
        self._connection.call(ask.Commit())
        self._count(TriggerOutcome.STARTED)
        wait()

    def _count(self, outcome: TriggerOutcome) -> None:
        """Add one to an outcome's count; any thread may call it."""
        # A command may end on a thread of its own.
        with self._counting:
            self.counts[outcome] += 1

    def _refuse(self, message: Message, feedback: int, why: Exception) -> None:
        """Move a trigger message to the dead-letter queue, commit, and count the outcome.

        ``feedback`` (MQFB_*) becomes the reason in the MQDLH; ``why`` is logged. If no dead-letter
        queue takes it, the message is lost, with a log entry. Raises ConnectionBroken.
        """
        _LOG.warning("%s: %s", message, why)
        try:
            self._connection.call(ask.DeadLetter(message.queue, token_of(message), feedback))
            outcome = TriggerOutcome.DEAD_LETTERED
        except ConnectionBroken:
            raise
        except MQError as error:
            _LOG.error("%s is lost: %s", message, error)
            outcome = TriggerOutcome.LOST
        self._connection.call(ask.Commit())
        self._count(outcome)
