"""PCF commands to a queue manager that `mayfly serve` has open, from another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly import pymqi
from mayfly.pymqi import CMQC
from mayfly.services.command_server import start_command_server
from mayfly.testing.served import PASSWORDS, ServedQueueManager

PROGRAM = """
import pymqi
from pymqi import CMQC, CMQCFC

qmgr = pymqi.QueueManager("QM1")
pcf = pymqi.PCFExecute(qmgr)
if pcf.MQCMD_INQUIRE_Q_NAMES({CMQC.MQCA_Q_NAME: b"*"})[0][CMQCFC.MQCACF_Q_NAMES][0][:3] != b"A.1":
    pcf.MQCMD_CREATE_Q({CMQC.MQCA_Q_NAME: "A.1", CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL})
    print("created")
for queue in pcf.MQCMD_INQUIRE_Q(
    {CMQC.MQCA_Q_NAME: b"A.*"}, [pymqi.Filter(CMQC.MQIA_CURRENT_Q_DEPTH).equal(0)]
):
    print(queue[CMQC.MQCA_Q_NAME].strip().decode())
try:
    pcf.MQCMD_DELETE_Q({CMQC.MQCA_Q_NAME: b"NONE"})
except pymqi.MQMIError as error:
    print(error.reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME)
pcf.disconnect()
qmgr.disconnect()
"""


@contextmanager
def serving(folder: Path) -> Iterator[None]:
    """Serve ``QM1`` to programs of this machine in a process, and kill that in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mayfly", "serve", "QM1", "--mq", "127.0.0.1:0", "--json"],
        env={**os.environ, "MAYFLY_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), process.communicate()[1]
        yield
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_program_of_pymqi_gives_commands_to_a_server_before_and_after_its_kill(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, "utf-8")
    said = []
    for _ in range(2):
        with serving(tmp_path):
            done = subprocess.run(
                [sys.executable, "-W", "error", "-m", "mayfly.pymqi", program],
                env={**os.environ, "MAYFLY_HOME": str(tmp_path)},
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                check=False,
            )
        assert (done.returncode, done.stderr) == (0, "")
        said.append(done.stdout.split())
    assert said == [["created", "A.1", "True"], ["A.1", "True"]]


def test_over_a_network_an_administrator_gives_commands_and_a_program_does_not(
    served_queue_manager: ServedQueueManager,
) -> None:
    served = served_queue_manager
    start_command_server(served.queue_manager)

    def connected(channel: str, user: str) -> pymqi.QueueManager:
        return pymqi.connect("QM1", channel, served.conn_info, user, PASSWORDS[user])

    administrator = connected("DEV.ADMIN.SVRCONN", "admin")
    execute = pymqi.PCFExecute(administrator)
    given = {CMQC.MQCA_Q_NAME: b"A.1", CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL}
    assert execute.MQCMD_CREATE_Q(given) == [{}]
    execute.disconnect()
    program = connected("DEV.APP.SVRCONN", "app")
    execute = pymqi.PCFExecute(program)
    delete = {CMQC.MQCA_Q_NAME: b"A.1"}
    refused = []
    for _ in range(2):
        with pytest.raises(pymqi.MQMIError) as raised:
            execute.MQCMD_DELETE_Q(delete)
        refused.append(raised.value.reason)
        # The program may now put commands, and still has no role.
        changed = (
            "SET AUTHREC PROFILE(SYSTEM.ADMIN.COMMAND.QUEUE) OBJTYPE(QUEUE) "
            "PRINCIPAL('app') AUTHADD(PUT)"
        )
        assert served.queue_manager.mqsc(changed).ok
    assert refused == [CMQC.MQRC_NOT_AUTHORIZED] * 2
    assert "user 'app' is no administrator" in raised.value.__notes__[0]
    assert served.queue_manager.mqsc("DISPLAY QLOCAL(A.1)").ok
    execute.disconnect()
    program.disconnect()
    administrator.disconnect()
