"""``mayfly apply``, and the scripts that a configuration names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.hosting import apply_script
from mayfly.cli.outcomes import CommandFailed, ExitCode
from tests.cli.conftest import Invoke

SCRIPT = """\
DEFINE QLOCAL(Q1) MAXDEPTH(8) REPLACE
DEFINE QALIAS(A1) TARGET(Q1)
DISPLAY QMGR
"""


@pytest.fixture
def script(home: Path) -> Path:
    (home / "queues.mqsc").write_text(SCRIPT)
    return home / "queues.mqsc"


def test_a_plan_changes_nothing_and_apply_changes_what_differs(queue: Invoke, script: Path) -> None:
    queue("mqsc", "QM1", "-c", "ALTER QLOCAL(Q1) DESCR('mine')")
    planned = queue("apply", "QM1", str(script), "--plan")
    assert planned.exit_code == ExitCode.NOTHING
    assert planned.stdout.splitlines() == [
        "alter  QLOCAL(Q1)",
        "         MAXDEPTH 5000 -> 8",
        "define QALIAS(A1)",
        "left   QMGR: DISPLAY is no definition: mayfly mqsc runs it",
        "2 to change, 0 the same",
    ]
    assert "MAXDEPTH(5000)" in queue("mqsc", "QM1", "-c", "DISPLAY QLOCAL(Q1) MAXDEPTH").stdout
    applied = queue("apply", "QM1", str(script))
    assert (applied.exit_code, applied.stdout.splitlines()[-1]) == (0, "2 changed, 0 the same")
    shown = queue("mqsc", "QM1", "-c", "DISPLAY QLOCAL(Q1) MAXDEPTH DESCR").stdout
    assert "MAXDEPTH(8)" in shown
    assert "DESCR(mine)" in shown
    again = queue("apply", "QM1", str(script), "--plan")
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (0, "0 to change, 2 the same")


def test_a_program_reads_the_steps(queue: Invoke, script: Path) -> None:
    answer = queue("apply", "QM1", str(script), "--json")
    found = json.loads(answer.stdout)
    assert found["applied"] is True
    assert found["steps"][0] == {
        "action": "alter",
        "object": "QLOCAL(Q1)",
        "command": "ALTER QLOCAL(Q1) MAXDEPTH(8)",
        "changes": [{"attribute": "MAXDEPTH", "old": 5000, "new": 8}],
        "reason": "",
    }


def test_a_script_with_a_wrong_command_changes_nothing(queue: Invoke, script: Path) -> None:
    script.write_text("DEFINE QLOCAL(Q2)\nDEFINE QLOCAL(Q3) MAXDEPTH(-1)\n")
    answer = queue("apply", "QM1", str(script))
    assert answer.exit_code == ExitCode.MQ
    assert "nothing is changed: DEFINE QLOCAL(Q3) MAXDEPTH(-1): line 2, column 19" in answer.stderr
    assert "AMQ8147E" in queue("mqsc", "QM1", "-c", "DISPLAY QLOCAL(Q2)").stdout


def test_deletion_has_to_be_allowed(queue: Invoke, script: Path) -> None:
    script.write_text("DELETE QLOCAL(Q1)\n")
    left = queue("apply", "QM1", str(script))
    assert "left   QLOCAL(Q1): nothing is deleted without --delete" in left.stdout
    assert queue("apply", "QM1", str(script), "--delete").stdout.startswith("delete QLOCAL(Q1)")
    assert "AMQ8147E" in queue("mqsc", "QM1", "-c", "DISPLAY QLOCAL(Q1)").stdout


def test_a_queue_manager_that_does_not_exist_is_made_but_not_by_a_plan(
    mayfly: Invoke, home: Path, script: Path
) -> None:
    assert mayfly("apply", "QM1", str(script), "--plan").exit_code == ExitCode.MQ
    assert not (home / "QM1").exists()
    assert mayfly("apply", "QM1", str(script)).exit_code == ExitCode.DONE
    assert (home / "QM1").is_dir()


def test_a_script_of_the_configuration_never_undoes_unseen_what_an_operator_altered(
    home: Path, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = home / "QM1"
    with QueueManager("QM1", folder) as manager:
        apply_script(manager, folder, script)
        apply_script(manager, folder, script)
        assert capsys.readouterr().err == ""
        manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(9)")
    with QueueManager("QM1", folder) as manager:
        apply_script(manager, folder, script)
        kept = "QLOCAL(Q1) is kept: an operator has altered it: MAXDEPTH 9 -> 8"
        assert capsys.readouterr().err == f"mayfly: {script}: {kept}\n"
        script.write_text(SCRIPT.replace("(8)", "(10)"))
        apply_script(manager, folder, script)
        assert manager.mqsc("DISPLAY QLOCAL(Q1) MAXDEPTH").rows[0]["MAXDEPTH"] == 10
        (folder / "applied.json").write_text("[]")
        with pytest.raises(CommandFailed, match=r"applied\.json is damaged"):
            apply_script(manager, folder, script)
