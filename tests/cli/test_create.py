"""``mayfly create``: a queue manager is made for its platform, once."""

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import PLATFORMS
from tests.cli.conftest import Invoke


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_a_queue_manager_is_made_for_its_platform(
    mayfly: Invoke, home: Path, platform: str
) -> None:
    options = "--command-level", "930", "--setting", "expiry.max_check=always"
    made = mayfly("create", "QM1", "--platform", platform, *options)
    assert (made.exit_code, made.stdout) == (0, "")
    assert made.stderr == f"mayfly: made queue manager QM1 in {home / 'QM1'}\n"
    with QueueManager("QM1", home / "QM1") as qm:
        assert (qm.engine.platform, qm.engine.command_level) == (platform, 930)
        assert qm.engine.settings.given == {"expiry.max_check": "always"}
        assert qm.engine.settings.in_force["xqh.check_expiry"] == (platform != "ibmi")
        is_staging_defined = qm.mqsc("DISPLAY QLOCAL(SYSTEM.DDELAY.LOCAL.QUEUE)").ok
        assert is_staging_defined == (platform != "zos")


def test_one_that_is_there_stays_as_it_is(mayfly: Invoke, home: Path) -> None:
    folder = home / "elsewhere"
    assert mayfly("create", "QM1", "--path", str(folder)).exit_code == 0
    again = mayfly("create", "QM1", "--path", str(folder), "--platform", "zos")
    assert again.exit_code == 3
    assert again.stderr == (
        f"mayfly: MQRC_OBJECT_ALREADY_EXISTS (2100): there is a queue manager in {folder}; "
        "ALTER SETTING changes what it was made with\n"
    )
    with QueueManager("QM1", folder) as qm:
        assert qm.engine.platform == "distributed"


def test_a_wrong_platform_or_name_makes_nothing(mayfly: Invoke, home: Path) -> None:
    wrong = mayfly("create", "QM1", "--platform", "vms")
    assert (wrong.exit_code, "'vms'" in wrong.stderr) == (2, True)
    assert mayfly("create", "a b").exit_code == 3
    assert not (home / "QM1" / "mayfly.db").exists()
