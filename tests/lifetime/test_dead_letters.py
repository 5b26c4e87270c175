"""The MQDLH before a dead letter: the same whoever makes it."""

from __future__ import annotations

from mayfly.lifetime.dead_letters import Refusal, behind_header
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.structures import DLH

#: 2023-11-14 22:13:20.987.
AT_MS = 1_700_000_000_987
GIVEN = Descriptor(format="MQSTR", encoding=273, coded_char_set_id=1208, priority=7, report=1)


def test_Q1_the_header_says_what_the_data_are_and_the_descriptor_what_the_header_is() -> None:
    refusal = Refusal(rc.MQRC_Q_FULL, "Q1", "QM1", c.MQAT_QMGR, "app", AT_MS)
    dead, header = behind_header(GIVEN, refusal)
    assert dead == GIVEN._replace(
        format="MQDEAD", encoding=c.MQENC_NATIVE, coded_char_set_id=c.MQCCSI_Q_MGR
    )
    assert len(header) == 172
    said = DLH.unpack(header)
    assert said == {
        "StrucId": "DLH",
        "Version": 1,
        "Reason": rc.MQRC_Q_FULL,
        "DestQName": "Q1",
        "DestQMgrName": "QM1",
        "Encoding": 273,
        "CodedCharSetId": 1208,
        "Format": "MQSTR",
        "PutApplType": c.MQAT_QMGR,
        "PutApplName": "app",
        "PutDate": "20231114",
        "PutTime": "22132098",
    }


def test_Q1_what_does_not_fit_its_field_is_cut_and_what_is_not_ASCII_a_question_mark() -> None:
    refusal = Refusal(0, "ü" + "Q" * 60, "", 0, "é" + "p" * 40, AT_MS)
    said = DLH.unpack(behind_header(GIVEN._replace(format="F" * 12), refusal)[1])
    assert said["DestQName"] == "?" + "Q" * 47
    assert said["PutApplName"] == "?" + "p" * 27
    assert said["Format"] == "F" * 8
