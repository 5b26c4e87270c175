"""The programs a trigger monitor can start: Python callables by name, and command lines."""

from __future__ import annotations

import logging
import shlex
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from threading import Event, Thread

from mayfly.mqi.constants import MQAT_UNIX, MQFB_APPL_CANNOT_BE_STARTED, MQFB_APPL_TYPE_ERROR
from mayfly.trigger_monitor.messages import TriggerMessage

_LOG = logging.getLogger("mayfly.trigger_monitor")
#: Called with the trigger message; what it returns is not looked at.
Program = Callable[[TriggerMessage], object]
#: ENVRDATA that lets a command run on while the monitor looks for the next trigger message.
_IN_BACKGROUND = "&"
#: A command writes where the monitor complains: what the monitor prints is its own.
_STDERR = 2


class CannotStart(Exception):
    """A program cannot be started; ``feedback`` is the MQFB_* that says why."""

    def __init__(self, feedback: int, text: str) -> None:
        """Say in ``text`` which program, and why not."""
        super().__init__(text)
        self.feedback = feedback


class Programs:
    """What may be started; used by one thread but for :meth:`stop`."""

    def __init__(self, callables: Mapping[str, Program], *, runs_commands: bool) -> None:
        """Take callables by ApplId; other ApplIds of type MQAT_UNIX are command lines, if any."""
        self._callables = callables
        self._runs_commands = runs_commands
        self._is_stopped = False
        #: Set at the end of the command that is waited for, or when it is no longer.
        self._turn = Event()

    def start(self, trigger: TriggerMessage, manager_name: str) -> Callable[[], bool]:
        """Start what a trigger message names, and return what sees it to its end.

        A callable begins only then, a command at once. That returns False when the program has
        failed. Raises CannotStart.
        """
        program = self._callables.get(trigger.appl_id)
        if program is not None:
            return partial(_call, program, trigger)
        if self._runs_commands and trigger.appl_type != MQAT_UNIX:
            said = f"ApplType {trigger.appl_type} of {trigger.appl_id!r} is not {MQAT_UNIX}"
            raise CannotStart(MQFB_APPL_TYPE_ERROR, said)
        if not self._runs_commands:
            raise CannotStart(MQFB_APPL_CANNOT_BE_STARTED, f"no program {trigger.appl_id!r}")
        process = _started(trigger, manager_name)
        return partial(self._wait_for, process, trigger)

    def stop(self) -> None:
        """Wait for no command any more; those that run do so on their own."""
        self._is_stopped = True
        self._turn.set()

    def _wait_for(self, process: subprocess.Popen[bytes], trigger: TriggerMessage) -> bool:
        turn = self._turn = Event()
        # Daemons: a command that outlives the monitor keeps nobody.
        Thread(target=_watch, args=(process, trigger, turn), daemon=True).start()
        if trigger.env_data.strip() != _IN_BACKGROUND and not self._is_stopped:
            turn.wait()
        return process.returncode in (0, None)


def _call(program: Program, trigger: TriggerMessage) -> bool:
    try:
        program(trigger)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's own failure
        if isinstance(error, SystemExit) and error.code in (0, None):
            return True
        name = trigger.appl_id
        _LOG.warning("%r for %r raised %r", name, trigger.queue, error, exc_info=error)
        return False
    return True


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


def _watch(process: subprocess.Popen[bytes], trigger: TriggerMessage, turn: Event) -> None:
    code = process.wait()
    if code:
        _LOG.warning("%r for %r ended with %d", trigger.appl_id, trigger.queue, code)
    turn.set()
