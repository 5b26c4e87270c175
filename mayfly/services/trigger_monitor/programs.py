"""The programs a trigger monitor can start: Python callables by name, and command lines."""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Callable, Mapping
from functools import partial

from mayfly.mqi.constants import MQAT_UNIX, MQFB_APPL_CANNOT_BE_STARTED, MQFB_APPL_TYPE_ERROR
from mayfly.runtime import Runtime
from mayfly.services.trigger_monitor.messages import TriggerMessage

_LOG = logging.getLogger("mayfly.trigger_monitor")
#: Called with the trigger message; its result is ignored.
Program = Callable[[TriggerMessage], object]
#: ENVRDATA of a command that is not counted among those that run at once.
_IN_BACKGROUND = "&"
#: Output of commands goes to stderr: the monitor's stdout is for its own result.
_STDERR = 2


class CannotStart(Exception):
    """A program cannot be started; ``feedback`` is the MQFB_* that says why."""

    def __init__(self, feedback: int, text: str) -> None:
        """Say in ``text`` which program, and why not."""
        super().__init__(text)
        self.feedback = feedback


class Programs:
    """The programs that may be started; used by one thread but for :meth:`stop`."""

    def __init__(
        self,
        callables: Mapping[str, Program],
        command_limit: int,
        note_failure: Callable[[], None],
        runtime: Runtime,
    ) -> None:
        """Take callables by ApplId; other ApplIds of type MQAT_UNIX are command lines.

        So many of those run at once; 0: there are none. ``note_failure`` is called, from any
        thread, when a program has failed.
        """
        self._callables = callables
        self._command_limit = command_limit
        self._note_failure = note_failure
        self._is_stopped = False
        #: How many commands run, without those in the background; told when one has ended.
        self._running_count = 0
        self._runtime = runtime
        self._ended = runtime.condition()

    def start(self, trigger: TriggerMessage, manager_name: str) -> Callable[[], None]:
        """Start what a trigger message names, and return what waits until the next one may come.

        A callable begins only then, a command at once. Raises CannotStart.
        """
        program = self._callables.get(trigger.appl_id)
        if program is not None:
            return partial(self._call, program, trigger)
        if self._command_limit and trigger.appl_type != MQAT_UNIX:
            said = f"ApplType {trigger.appl_type} of {trigger.appl_id!r} is not {MQAT_UNIX}"
            raise CannotStart(MQFB_APPL_TYPE_ERROR, said)
        if not self._command_limit:
            raise CannotStart(MQFB_APPL_CANNOT_BE_STARTED, f"no program {trigger.appl_id!r}")
        process = _started(trigger, manager_name)
        is_counted = trigger.env_data.strip() != _IN_BACKGROUND
        with self._ended:
            self._running_count += is_counted
        # Daemons: a command that outlives the monitor keeps nobody.
        watch = partial(self._watch, process, trigger, is_counted)
        self._runtime.thread(watch, "mayfly-trigger-command").start()
        return self._wait_for_room

    def stop(self) -> None:
        """Wait for no command any more; those that run do so on their own."""
        with self._ended:
            self._is_stopped = True
            self._ended.notify_all()

    def _wait_for_room(self) -> None:
        with self._ended:
            while not self._is_stopped and self._running_count >= self._command_limit:
                self._ended.wait()

    def _watch(
        self, process: subprocess.Popen[bytes], trigger: TriggerMessage, is_counted: bool
    ) -> None:
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
        try:
            program(trigger)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's own failure
            if isinstance(error, SystemExit) and error.code in (0, None):
                return
            name = trigger.appl_id
            _LOG.warning("%r for %r raised %r", name, trigger.queue, error, exc_info=error)
            self._note_failure()


def _started(trigger: TriggerMessage, manager_name: str) -> subprocess.Popen[bytes]:
    """Start a command line, without a shell: its last argument is the MQTMC2.

    It is in a session of its own, so that an interrupt at the terminal ends the monitor alone.
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
        said = f"ApplId {trigger.appl_id!r}: {error}"
        raise CannotStart(MQFB_APPL_CANNOT_BE_STARTED, said) from error
