"""PCFExecute and the PCF structures, with the manners of pymqi."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from mayfly import QueueManager, pymqi
from mayfly.mqi import pcf
from mayfly.pymqi import (
    CFBF,
    CFBS,
    CFGR,
    CFH,
    CFIF,
    CFIL,
    CFIL64,
    CFIN,
    CFIN64,
    CFSF,
    CFSL,
    CFST,
    CMQC,
    CMQCFC,
    PCFExecute,
)
from mayfly.pymqi.pcf import PcfStructure
from mayfly.services.command_server import start_command_server

ALL = [
    CFIN(Parameter=20, Value=-5),
    CFIN64(Parameter=20, Value=2**40),
    CFIL(Parameter=20, Values=[1, 2]),
    CFIL64(Parameter=20, Values=[2**40]),
    CFST(Parameter=20, String=b"QM1"),
    CFSL(Parameter=20, Strings=[b"A", b"BBB"]),
    CFBS(Parameter=20, String=b"\1\2"),
    CFIF(Parameter=20, Operator=CMQCFC.MQCFOP_GREATER, FilterValue=3),
    CFSF(Parameter=20, Operator=CMQCFC.MQCFOP_LIKE, FilterValue=b"A*"),
    CFBF(Parameter=20, Operator=CMQCFC.MQCFOP_EQUAL, FilterValue=b"\1"),
]


@pytest.mark.parametrize("structure", ALL, ids=lambda each: type(each).__name__)
def test_a_structure_is_packed_with_its_lengths_and_unpacked(structure: PcfStructure) -> None:
    packed = structure.pack()
    kind, length, parameter = struct.unpack("<3i", packed[:12])
    assert (kind, length, parameter) == (structure.Type, structure.StrucLength, 20)
    assert length == len(packed) == structure.get_length()
    assert length % 4 == 0
    again = type(structure)()
    again.unpack(packed)
    assert again.pack() == packed
    assert list(again.get()) == list(structure.get())


def test_lengths_and_counts_follow_from_the_value() -> None:
    assert CFST(String=b"QM1").get() == {
        "Type": CMQCFC.MQCFT_STRING,
        "StrucLength": 24,
        "Parameter": 0,
        "CodedCharSetId": 0,
        "StringLength": 3,
        "String": b"QM1",
    }
    texts = CFSL(Strings=["A", b"BBB"])
    assert (texts["Count"], texts["StringLength"], texts["StrucLength"]) == (2, 3, 32)
    assert CFIL().Values == []
    assert CFIL(Values=[1, 2, 3]).Count == 3
    assert CFST(String="Größe", StringLength=10).String == "Größe".encode() + b"\0\0\0"
    assert CFSF(FilterValue=b"A*", FilterValueLength=4).FilterValue == b"A*\0\0"
    assert CFGR(Parameter=8001, ParameterCount=2).pack() == struct.pack("<4i", 20, 16, 8001, 2)
    assert CFH().pack() == struct.pack("<9i", 1, 36, 1, 0, 1, 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: CFIN(Vaule=1), AttributeError, "CFIN has no field 'Vaule'"),
        (lambda: CFIN(Value="1"), TypeError, "Value takes an integer, not str"),
        (lambda: CFIN(Value=2**31), ValueError, "2147483648"),
        (lambda: CFIL(Values=5), TypeError, "Values takes a list, not int"),
        (lambda: CFIL(Values=[2**31]), ValueError, "2147483648"),
        (lambda: CFST(String=5), TypeError, "String takes bytes, not int"),
        (lambda: CFSL(Strings=[5]), TypeError, "Strings takes bytes, not int"),
        (lambda: CFIN().unpack(b"x"), ValueError, "CFIN"),
        (lambda: CFIN().unpack(CFST().pack()), ValueError, "CFIN has type 3, not 4"),
        (lambda: CFIN()["Nothing"], AttributeError, "CFIN has no field 'Nothing'"),
        (lambda: pymqi.Filter(9_000).equal(1), pymqi.Error, "9000"),
        (lambda: pymqi.Filter(20).about(1), pymqi.Error, "about"),
    ],
)
def test_a_wrong_value_is_named(
    make: Callable[[], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as raised:
        make()
    assert said in str(raised.value)


def test_groups_lists_and_filters_are_unpacked_as_values() -> None:
    header = CFH(Type=CMQCFC.MQCFT_STATISTICS, Command=CMQCFC.MQCMD_STATISTICS_Q, ParameterCount=5)
    message = b"".join(
        each.pack()
        for each in (
            header,
            CFST(Parameter=CMQC.MQCA_Q_MGR_NAME, String=b"QM1"),
            CFGR(Parameter=CMQCFC.MQGACF_Q_STATISTICS_DATA, ParameterCount=2),
            CFIN64(Parameter=1, Value=10),
            CFIL64(Parameter=2, Values=[1, 2, 3]),
            CFGR(Parameter=CMQCFC.MQGACF_Q_STATISTICS_DATA, ParameterCount=1),
            CFIF(Parameter=3, Operator=CMQCFC.MQCFOP_GREATER, FilterValue=0),
            CFSF(Parameter=4, Operator=CMQCFC.MQCFOP_LIKE, FilterValue=b"A*"),
            CFSL(Parameter=5, Strings=[b"A", b"BB"]),
        )
    )
    values, unpacked = PCFExecute.unpack(message)
    assert values == {
        CMQC.MQCA_Q_MGR_NAME: b"QM1\0",
        CMQCFC.MQGACF_Q_STATISTICS_DATA: [{1: 10, 2: [1, 2, 3]}, {3: (4, 0)}],
        4: (CMQCFC.MQCFOP_LIKE, b"A*\0\0"),
        5: [b"A ", b"BB"],
    }
    assert unpacked.Command == CMQCFC.MQCMD_STATISTICS_Q
    assert unpacked.Type == CMQCFC.MQCFT_STATISTICS


def test_a_message_with_the_high_byte_first_is_unpacked() -> None:
    message = pcf.pack(pcf.Header(8, 0), [pcf.integer(20, 5)], big_endian=True)
    assert PCFExecute.unpack(message)[0] == {20: 5}


def test_what_is_no_pcf_message_is_an_error(fails: Callable[..., pymqi.MQMIError]) -> None:
    assert fails(PCFExecute.unpack, b"abc").reason == CMQCFC.MQRCCF_MSG_LENGTH_ERROR


# PCFExecute


@pytest.fixture
def served(connection: pymqi.QueueManager, queue_manager: QueueManager) -> pymqi.QueueManager:
    """A connection to ``QM1``, whose command server runs as under `mayfly serve`."""
    start_command_server(queue_manager)
    return connection


def test_commands_are_given_as_a_dictionary_or_as_structures(
    served: pymqi.QueueManager,
) -> None:
    execute = PCFExecute(served)
    given: Any = {
        CMQC.MQCA_Q_NAME: "A.1",
        CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL,
        CMQC.MQIA_MAX_Q_DEPTH: 7,
    }
    assert execute.MQCMD_CREATE_Q(given) == [{}]
    attributes = [
        CFST(Parameter=CMQC.MQCA_Q_NAME, String=b"A.*"),
        CFIL(Parameter=CMQCFC.MQIACF_Q_ATTRS, Values=[CMQC.MQIA_MAX_Q_DEPTH]),
    ]
    condition = CFIF(Parameter=CMQC.MQIA_MAX_Q_DEPTH, Operator=CMQCFC.MQCFOP_LESS, FilterValue=10)
    expected = [
        {
            CMQC.MQCA_Q_NAME: b"A.1".ljust(48),
            CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL,
            CMQC.MQIA_MAX_Q_DEPTH: 7,
        }
    ]
    assert execute.MQCMD_INQUIRE_Q(attributes, [condition]) == expected
    named = {
        CMQC.MQCA_Q_NAME: b"A.*",
        # A number in place of a list of attributes, and the older spelling of commands.
        CMQCFC.MQIACF_Q_ATTRS: CMQC.MQIA_MAX_Q_DEPTH,
    }
    found = execute.CMQCFC.MQCMD_INQUIRE_Q(named, [pymqi.Filter(CMQC.MQIA_MAX_Q_DEPTH).less(10)])
    assert found == expected
    assert PCFExecute.stringify_keys(found[0]) == {
        "MQCA_Q_NAME": b"A.1".ljust(48),
        "MQIA_Q_TYPE": CMQC.MQQT_LOCAL,
        "MQIA_MAX_Q_DEPTH": 7,
    }
    execute.disconnect()


def test_a_command_that_fails_has_its_reason_and_says_why(
    served: pymqi.QueueManager, fails: Callable[..., pymqi.MQMIError]
) -> None:
    execute = PCFExecute(served)
    error = fails(execute.MQCMD_INQUIRE_Q, {CMQC.MQCA_Q_NAME: b"NONE"})
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_UNKNOWN_OBJECT_NAME)
    assert "'NONE'" in error.__notes__[0]
    error = fails(execute.MQCMD_RECOVER_CF_STRUC, {})
    assert str(error).endswith("FAILED: MQRCCF_CFH_COMMAND_ERROR")
    with pytest.raises(TypeError, match=r"parameter 20 takes no float: 0\.5"):
        execute.MQCMD_PING_Q_MGR({20: 0.5})
    with pytest.raises(AttributeError, match="PCFExecute has no MQCMD_NEVER"):
        _ = execute.MQCMD_NEVER
    execute.disconnect()


def test_disconnecting_closes_the_reply_queue_and_what_was_connected_here(
    served: pymqi.QueueManager, queue_manager: QueueManager
) -> None:
    execute = PCFExecute(served, dynamic_queue_name=b"REPLY.*")
    assert execute.reply_queue
    assert execute.reply_queue_name is not None
    assert execute.reply_queue_name.startswith(b"REPLY.")
    was_connected = execute.is_connected
    execute.disconnect()
    execute.disconnect()
    assert was_connected
    left: tuple[object, object] = (execute.reply_queue, execute.reply_queue_name)
    assert left == (None, None)
    assert not execute.is_connected
    assert served.is_connected
    assert not queue_manager.mqsc("DISPLAY QLOCAL(REPLY.*)").ok
    with pytest.raises(pymqi.PYIFError, match="not connected"):
        execute.MQCMD_PING_Q_MGR()
    own = PCFExecute("QM1")
    assert own.MQCMD_PING_Q_MGR() == [{}]
    own.disconnect()
    with pytest.raises(pymqi.PYIFError):
        own.get_handle()


@pytest.mark.in_process
def test_no_answer_in_time_says_so(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(ELSEWHERE)")
    execute = PCFExecute(
        pymqi.connect("QM1"), command_queue_name=b"ELSEWHERE", response_wait_interval=0
    )
    with pytest.raises(pymqi.MQMIError) as raised:
        execute.MQCMD_PING_Q_MGR()
    assert raised.value.reason == CMQC.MQRC_NO_MSG_AVAILABLE
    assert "no command server has answered" in raised.value.__notes__[0]
    execute.disconnect()
