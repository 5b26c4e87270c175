"""Programs that are command lines: their arguments, their end, and who waits for it."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import PROCESS, alter_named, define_named
from mayfly.mqi.constants import MQAT_UNIX
from mayfly.mqi.structures import TM, TMC2
from mayfly.services.trigger_monitor import TriggerMonitor, TriggerOutcome
from tests.spec.scene import JOIN_SECONDS, Running
from tests.spec.trigger_scene import EVERY, INITQ, PROGRAM, triggering

#: Writes its arguments, a line each, to the file that USERDATA names.
TELL = """
import os, sys
*given, tmc2 = map(os.fsencode, sys.argv[1:])
with open(tmc2[556:684].rstrip(), "ab") as file:
    file.write(b"\\n".join([*given, tmc2]))
"""
#: Waits until somebody opens the other end of the named pipe.
HANG = """
import os, sys
open(os.fsencode(sys.argv[-1])[556:684].rstrip(), "rb").read()
"""


@pytest.fixture
def program(manager: QueueManager, tmp_path: Path) -> Callable[..., Path]:
    """Let the process of Q1 be a Python script; returns the file that its USERDATA names."""

    def define(text: str, arguments: str = "", **more: str) -> Path:
        script, told = tmp_path / "p y", tmp_path / "told"
        script.write_text(text)
        line = shlex.join([sys.executable, str(script)]) + arguments
        attributes = {"APPLICID": line, "USERDATA": str(told), **more}
        alter_named(manager.engine, PROCESS, PROGRAM, attributes)
        return told

    return define


@pytest.mark.slow
def test_T8_a_command_gets_the_MQTMC2_as_its_last_argument(
    manager: QueueManager, session: Session, program: Callable[..., Path]
) -> None:
    """No shell sees it: whatever it holds, it is one argument."""
    told = program(TELL, " 'one word' $HOME ;", ENVRDATA="$(reboot) `x` \"'")
    with TriggerMonitor(manager, INITQ, runs_commands=True) as monitor:
        session.put("Q1", b"x")
        assert monitor.run_once()[TriggerOutcome.STARTED] == 1
    one, home, end, tmc2 = told.read_bytes().split(b"\n")
    assert (one, home, end) == (b"one word", b"$HOME", b";")
    fields = TMC2.unpack(tmc2)
    assert len(tmc2) == 732
    assert (fields["QName"], fields["QMgrName"]) == ("Q1", "QM1")
    assert (fields["EnvData"], fields["UserData"]) == ("$(reboot) `x` \"'", str(told))


@pytest.mark.slow
def test_a_command_that_ends_with_another_code_has_failed(
    manager: QueueManager,
    session: Session,
    program: Callable[..., Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    program("raise SystemExit(3)")
    with (
        TriggerMonitor(manager, INITQ, runs_commands=True) as monitor,
        caplog.at_level(logging.WARNING, "mayfly.trigger_monitor"),
    ):
        session.put("Q1", b"x")
        counts = monitor.run_once()
    assert (counts[TriggerOutcome.STARTED], counts[TriggerOutcome.FAILED]) == (1, 1)
    assert caplog.records[0].getMessage().endswith("for 'Q1' ended with 3")


@pytest.mark.slow
def test_T8_a_name_that_came_over_the_wire_is_no_command_and_no_line_of_the_log(
    manager: QueueManager, session: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever may put on the initiation queue makes such a message, and names what is run."""
    script, told = tmp_path / "p y", tmp_path / "told"
    script.write_text(TELL + "\nraise SystemExit(4)")
    name = "Q1\n'; touch x; `id`"
    fields = {
        "QName": name,
        "ApplType": MQAT_UNIX,
        "ApplId": shlex.join([sys.executable, str(script)]),
        "UserData": str(told),
    }
    with (
        TriggerMonitor(manager, INITQ, runs_commands=True) as monitor,
        caplog.at_level(logging.WARNING, "mayfly.trigger_monitor"),
    ):
        session.put(INITQ, TM.pack(fields), format_name="MQTRIG")
        assert monitor.run_once()[TriggerOutcome.FAILED] == 1
    assert TMC2.unpack(told.read_bytes())["QName"] == name
    assert caplog.records[0].getMessage().endswith(f"for {name!r} ended with 4")


@pytest.mark.slow
def test_stop_leaves_a_command_running(
    manager: QueueManager, session: Session, program: Callable[..., Path], tmp_path: Path
) -> None:
    pipe = program(HANG)
    os.mkfifo(pipe)
    session.put("Q1", b"x")
    monitor = TriggerMonitor(manager, INITQ, runs_commands=True)
    running = Running(monitor.run)
    while not monitor.counts[TriggerOutcome.STARTED]:
        assert running.is_under_way
    running.thread.join(0.05)
    assert running.is_under_way
    monitor.close()
    running.finish()
    assert running.error is None
    # It still waits for its pipe, which ends it.
    pipe.write_bytes(b"")


@pytest.mark.slow
def test_a_command_that_hangs_holds_up_nobody_while_others_may_run_beside_it(
    manager: QueueManager,
    session: Session,
    program: Callable[..., Path],
    tmp_path: Path,
) -> None:
    """Two at once: that of Q1 hangs, those of Q2 run one after the other and are waited for."""
    pipe, told = program(HANG), tmp_path / "what Q2 told"
    os.mkfifo(pipe)
    script = tmp_path / "tell"
    script.write_text(TELL + "\nraise SystemExit(3)")
    line = shlex.join([sys.executable, str(script)])
    define_named(manager.engine, PROCESS, "TELL", {"APPLICID": line, "USERDATA": str(told)})
    triggering(manager, "Q2", PROCESS="TELL", TRIGTYPE=EVERY)
    monitor = TriggerMonitor(manager, INITQ, runs_commands=True, commands_at_once=2)
    for name in ("Q1", "Q2", "Q2"):
        session.put(name, b"x")
    counts = monitor.run_once()
    assert (counts[TriggerOutcome.STARTED], counts[TriggerOutcome.FAILED]) == (3, 2)
    assert len(told.read_bytes()) == 2 * 732
    monitor.close()
    pipe.write_bytes(b"")


@pytest.mark.parametrize("number", [0, -1])
def test_less_than_one_command_at_once_is_refused(manager: QueueManager, number: int) -> None:
    with pytest.raises(ValueError, match=f"commands_at_once {number} is less than 1"):
        TriggerMonitor(manager, INITQ, runs_commands=True, commands_at_once=number)


@pytest.mark.slow
def test_a_command_in_the_background_is_not_waited_for(
    manager: QueueManager, session: Session, program: Callable[..., Path]
) -> None:
    pipe = program(HANG, ENVRDATA="&")
    os.mkfifo(pipe)
    session.put("Q1", b"x")
    with TriggerMonitor(manager, INITQ, runs_commands=True) as monitor:
        passing = Running(monitor.run_once)
        passing.finish()
        assert monitor.counts[TriggerOutcome.STARTED] == 1
    writing = threading.Thread(target=pipe.write_bytes, args=(b"",))
    writing.start()
    writing.join(JOIN_SECONDS)
    assert not writing.is_alive()
