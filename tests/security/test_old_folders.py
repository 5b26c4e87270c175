"""A folder of an earlier Mayfly gets rules and models for clients when it is opened, once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import mayfly
from mayfly.admin.security.admission import Admission, Applicant
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock

FIXTURES = Path(__file__).parents[1] / "store" / "fixtures"
CLOSED_MS = 1_700_000_001_000


@pytest.mark.parametrize("version", ["version_10"])
def test_an_old_folder_gets_rules_models_and_a_check_of_passwords_once(
    tmp_path: Path, version: str
) -> None:
    folder = Path(shutil.copytree(FIXTURES / version, tmp_path / "OLD"))
    before: list[object] = []
    for _ in range(2):
        with mayfly.QueueManager("OLD", folder, clock=VirtualClock(CLOSED_MS)) as qm:
            asked = ("CHLAUTH(*)", "CHANNEL(SYSTEM.DEF.*)", "AUTHINFO(*)", "QMGR CONNAUTH CHLAUTH")
            found: list[object] = [qm.mqsc(f"DISPLAY {what}").rows for what in asked]
            assert [len(rows) for rows in found if isinstance(rows, list)] == [3, 2, 1, 1]
            assert before in ([], found)
            before = found
            admission = Admission([qm.engine])
            applicant = Applicant(
                queue_manager="OLD", address="", channel="SYSTEM.DEF.SVRCONN", user="anna"
            )
            with pytest.raises(MQError) as caught:
                admission.admit(applicant)
            assert caught.value.reason == rc.MQRC_NOT_AUTHORIZED
            admission.close()
