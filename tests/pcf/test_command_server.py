"""The command server: messages in and out, whose authority counts, and how it begins and ends."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mayfly import MQError, QueueManager, pymqi
from mayfly.admin.pcf.commands import COMMANDS
from mayfly.admin.security.roles import Role
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.pcf import Header, PcfMessage, Structure, integer, pack, string, unpack
from mayfly.pymqi import CMQC, CMQCFC, MD, PMO
from mayfly.runtime.virtual_clock import VirtualClock
from mayfly.services.command_server import COMMAND_QUEUE, start_command_server
from mayfly.verbs.messages import Message

WAIT_MS = 60_000


@pytest.fixture
def qm(queue_manager: QueueManager) -> QueueManager:
    """``QM1`` with its command server, and a queue for replies."""
    queue_manager.mqsc("DEFINE QLOCAL(REPLIES)\nDEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)")
    start_command_server(queue_manager)
    return queue_manager


def command(number: int, *structures: Structure, big_endian: bool = False) -> bytes:
    """Return a command as bytes."""
    return pack(Header(k.MQCFT_COMMAND, number), structures, big_endian=big_endian)


PING = command(k.MQCMD_PING_Q_MGR)
CREATE = command(
    k.MQCMD_CREATE_Q,
    string(CMQC.MQCA_Q_NAME, "A.1"),
    integer(CMQC.MQIA_Q_TYPE, CMQC.MQQT_LOCAL),
)


def put(
    qm: QueueManager, body: bytes, user: str | None = None, options: int = 0, **md: object
) -> MD:
    """Put a command as a program of a user does; return its descriptor."""
    given = {"Format": CMQC.MQFMT_ADMIN, "MsgType": CMQC.MQMT_REQUEST, "ReplyToQ": b"REPLIES", **md}
    descriptor = MD(**given)
    connection = pymqi.connect(qm.name, user=user)
    connection.put1(COMMAND_QUEUE, body, descriptor, PMO(Options=options))
    connection.disconnect()
    return descriptor


def reply(qm: QueueManager) -> tuple[PcfMessage, Message]:
    """Wait for the next reply."""
    with qm.session() as session:
        message = session.get("REPLIES", wait_ms=WAIT_MS)
    assert message is not None
    return unpack(message.body), message


def reason_of(qm: QueueManager, body: bytes, user: str | None = None, options: int = 0) -> int:
    """Give a command as a user, and return the reason code of the answer."""
    put(qm, body, user, options)
    return reply(qm)[0].header.reason


def test_an_answer_has_a_message_for_each_object(qm: QueueManager) -> None:
    qm.mqsc("DEFINE QLOCAL(A.1)\nDEFINE QLOCAL(A.2)\nDEFINE QLOCAL(A.3)")
    put(qm, command(k.MQCMD_INQUIRE_Q, string(CMQC.MQCA_Q_NAME, "A.*")))
    headers = [reply(qm)[0].header for _ in range(3)]
    assert [(each.sequence_number, each.control) for each in headers] == [
        (1, k.MQCFC_NOT_LAST),
        (2, k.MQCFC_NOT_LAST),
        (3, k.MQCFC_LAST),
    ]
    assert {(each.type, each.command, each.comp, each.reason) for each in headers} == {
        (k.MQCFT_RESPONSE, k.MQCMD_INQUIRE_Q, c.MQCC_OK, 0)
    }


def test_a_reply_is_tied_to_its_command_and_lives_as_long_as_nobody_gets_it(
    qm: QueueManager,
) -> None:
    sent = put(qm, PING, Expiry=100, Priority=7, Persistence=CMQC.MQPER_PERSISTENT)
    _answer, message = reply(qm)
    assert message.correl_id == sent.MsgId
    assert message.msg_id != sent.MsgId
    assert message.expire_at_ms is None
    descriptor = message.descriptor
    assert (descriptor.format, descriptor.msg_type) == ("MQADMIN", c.MQMT_REPLY)
    assert (descriptor.priority, descriptor.persistence) == (7, CMQC.MQPER_PERSISTENT)


def test_report_options_pass_ids_and_expiry_to_the_reply(
    qm: QueueManager, clock: VirtualClock
) -> None:
    report = CMQC.MQRO_PASS_MSG_ID | CMQC.MQRO_PASS_CORREL_ID | CMQC.MQRO_PASS_DISCARD_AND_EXPIRY
    sent = put(qm, PING, Expiry=100, Report=report, CorrelId=b"c" * 24)
    _answer, message = reply(qm)
    assert (message.msg_id, message.correl_id) == (sent.MsgId, b"c" * 24)
    assert message.remaining_tenths == 100
    assert message.expire_at_ms == clock.now_ms() + 10_000


def test_an_expired_command_is_not_run(queue_manager: QueueManager, clock: VirtualClock) -> None:
    queue_manager.mqsc(f"DEFINE QLOCAL({COMMAND_QUEUE})\nDEFINE QLOCAL(REPLIES)")
    put(queue_manager, CREATE, Expiry=10)
    clock.advance(1_000)
    start_command_server(queue_manager)
    assert reason_of(queue_manager, PING) == 0
    assert not queue_manager.mqsc("DISPLAY QLOCAL(A.1)").ok


def test_a_command_may_have_the_high_byte_first(qm: QueueManager) -> None:
    body = command(
        k.MQCMD_CREATE_Q,
        string(CMQC.MQCA_Q_NAME, "A.1"),
        integer(CMQC.MQIA_Q_TYPE, CMQC.MQQT_LOCAL),
        integer(CMQC.MQIA_MAX_Q_DEPTH, 7),
        big_endian=True,
    )
    put(qm, body, Encoding=CMQC.MQENC_INTEGER_NORMAL)
    answer, message = reply(qm)
    assert answer.header.reason == 0
    assert message.descriptor.encoding == c.MQENC_NATIVE
    assert qm.mqsc("DISPLAY QLOCAL(A.1)").rows[0]["MAXDEPTH"] == 7


def test_texts_are_read_in_the_character_set_of_the_message(qm: QueueManager) -> None:
    name = Structure(k.MQCFT_STRING, CMQC.MQCA_Q_NAME, "A.1".encode("cp500"))
    put(qm, command(k.MQCMD_INQUIRE_Q, name), CodedCharSetId=500)
    assert reply(qm)[0].header.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    put(qm, command(k.MQCMD_INQUIRE_Q, name), CodedCharSetId=77_777)
    answer, _message = reply(qm)
    assert answer.header.reason == k.MQRCCF_CCSID_ERROR
    number, text = answer.structures
    assert (number.parameter, number.value) == (k.MQIACF_PARAMETER_ID, CMQC.MQCA_Q_NAME)
    assert "77777" in text.text()


@pytest.mark.parametrize(
    ("body", "md", "reason"),
    [
        (b"DEFINE QLOCAL(A.1)", {}, k.MQRCCF_MSG_LENGTH_ERROR),
        (PING, {"Format": CMQC.MQFMT_STRING}, k.MQRCCF_MD_FORMAT_ERROR),
        (PING, {"Encoding": CMQC.MQENC_INTEGER_NORMAL}, k.MQRCCF_CFH_LENGTH_ERROR),
        (
            pack(Header(k.MQCFT_USER, k.MQCMD_PING_Q_MGR), []),
            {},
            k.MQRCCF_CFH_TYPE_ERROR,
        ),
        (
            pack(Header(k.MQCFT_COMMAND, k.MQCMD_PING_Q_MGR, sequence_number=2), []),
            {},
            k.MQRCCF_CFH_MSG_SEQ_NUMBER_ERR,
        ),
        (
            pack(Header(k.MQCFT_COMMAND, k.MQCMD_PING_Q_MGR, control=k.MQCFC_NOT_LAST), []),
            {},
            k.MQRCCF_CFH_CONTROL_ERROR,
        ),
        (command(9_999), {}, k.MQRCCF_CFH_COMMAND_ERROR),
    ],
)
def test_what_is_no_command_has_one_answer_with_the_reason(
    qm: QueueManager, body: bytes, md: dict[str, Any], reason: int
) -> None:
    put(qm, body, **md)
    header = reply(qm)[0].header
    assert (header.comp, header.reason) == (c.MQCC_FAILED, reason)
    assert header.control == k.MQCFC_LAST


def test_a_datagram_is_run_without_an_answer(qm: QueueManager) -> None:
    put(qm, CREATE, MsgType=CMQC.MQMT_DATAGRAM)
    put(qm, CREATE, MsgType=CMQC.MQMT_REPLY)
    # The next command comes after it.
    assert reason_of(qm, CREATE) == k.MQRCCF_OBJECT_ALREADY_EXISTS
    assert qm.curdepth("REPLIES") == 0


@pytest.mark.parametrize(("report", "dead_count"), [(0, 1), (CMQC.MQRO_DISCARD_MSG, 0)])
def test_a_reply_that_is_refused_is_a_dead_letter_unless_it_may_be_discarded(
    qm: QueueManager, report: int, dead_count: int
) -> None:
    put(qm, PING, ReplyToQ=b"NOWHERE", Report=report)
    assert reason_of(qm, PING) == 0
    assert qm.curdepth("DEAD") == dead_count


def test_a_reply_that_can_go_nowhere_is_lost_and_the_server_goes_on(
    qm: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    qm.mqsc("ALTER QMGR DEADQ(' ')")
    with caplog.at_level(logging.WARNING, "mayfly.command_server"):
        put(qm, PING, ReplyToQ=b"NOWHERE")
        assert reason_of(qm, PING) == 0
    assert "is lost" in caplog.text


# Authority


def test_the_user_of_the_message_needs_the_role_of_the_command(qm: QueueManager) -> None:
    qm.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT,DSP)\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('oskar') AUTHADD(CONNECT,CHG)\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('eve') AUTHADD(CONNECT)\n"
        f"SET AUTHREC PROFILE({COMMAND_QUEUE}) OBJTYPE(QUEUE) GROUP('nobody') AUTHADD(PUT)\n"
        "SET AUTHREC PROFILE(REPLIES) OBJTYPE(QUEUE) GROUP('nobody') AUTHADD(PUT)"
    )
    start = command(k.MQCMD_START_CHANNEL, string(k.MQCACH_CHANNEL_NAME, "NONE"))
    found = {
        user: [reason_of(qm, body, user) for body in (PING, start, CREATE)]
        for user in ("eve", "anna", "oskar", "mqm", None)
    }
    refused, unknown, exists = (
        rc.MQRC_NOT_AUTHORIZED,
        k.MQRCCF_CHANNEL_NOT_FOUND,
        k.MQRCCF_OBJECT_ALREADY_EXISTS,
    )
    assert found == {
        "eve": [refused, refused, refused],
        "anna": [0, refused, refused],
        "oskar": [0, unknown, refused],
        "mqm": [0, unknown, 0],
        None: [0, unknown, exists],
    }


def test_a_user_without_records_may_do_nothing_even_where_nothing_is_checked(
    qm: QueueManager,
) -> None:
    assert reason_of(qm, PING, "eve") == rc.MQRC_NOT_AUTHORIZED
    assert reason_of(qm, CREATE, "eve") == rc.MQRC_NOT_AUTHORIZED


def test_a_command_without_context_is_nobodys(qm: QueueManager) -> None:
    assert reason_of(qm, PING, options=CMQC.MQPMO_NO_CONTEXT) == rc.MQRC_NOT_AUTHORIZED
    assert reason_of(qm, PING, "eve", CMQC.MQPMO_NO_CONTEXT) == rc.MQRC_NOT_AUTHORIZED


def test_a_reply_goes_only_where_the_user_may_put(qm: QueueManager) -> None:
    qm.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT,DSP)\n"
        f"SET AUTHREC PROFILE({COMMAND_QUEUE}) OBJTYPE(QUEUE) PRINCIPAL('anna') AUTHADD(PUT)"
    )
    put(qm, PING, "anna")
    assert reason_of(qm, PING) == 0
    assert qm.curdepth("DEAD") == 1


def test_each_command_needs_the_role_of_its_mqsc_command() -> None:
    names = {value: name for name, value in vars(CMQCFC).items() if name.startswith("MQCMD_")}
    for number, found in COMMANDS.items():
        if number == CMQCFC.MQCMD_ESCAPE:
            continue
        verb = names[number].split("_")[1]
        expected = Role.ADMINISTER
        if verb in ("INQUIRE", "PING"):
            expected = Role.LOOK
        elif verb in ("START", "STOP", "RESET", "RESOLVE"):
            expected = Role.OPERATE
        assert found.role is expected, names[number]


# Begin and end


def test_it_goes_on_when_its_connection_is_stopped_or_its_queue_is_made_anew(
    qm: QueueManager,
) -> None:
    [row] = qm.mqsc("DISPLAY CONN(*) WHERE(APPLTAG EQ 'mayfly commands')").rows
    assert qm.mqsc(f"STOP CONN({row['CONN']})").ok
    assert reason_of(qm, PING) == 0
    assert qm.mqsc(f"ALTER QLOCAL({COMMAND_QUEUE}) GET(DISABLED)").ok
    assert qm.mqsc(f"ALTER QLOCAL({COMMAND_QUEUE}) GET(ENABLED)").ok
    assert reason_of(qm, PING) == 0


def test_it_is_started_once_and_ends_with_the_queue_manager(tmp_path: Path) -> None:
    for _ in range(2):
        with QueueManager("QM1", tmp_path) as manager:
            server = start_command_server(manager)
            assert start_command_server(manager) is server
            manager.mqsc("DEFINE QLOCAL(REPLIES)")
            assert reason_of(manager, PING) == 0
            shown = manager.mqsc("DISPLAY CONN(*) WHERE(APPLTAG EQ 'mayfly commands')")
            assert len(shown.rows) == 1
        server.stop()
    with pytest.raises(pymqi.MQMIError):
        pymqi.PCFExecute("QM1")


def test_programs_that_start_it_together_have_one(queue_manager: QueueManager) -> None:
    with ThreadPoolExecutor(8) as pool:
        servers = list(pool.map(lambda _: start_command_server(queue_manager), range(8)))
    assert all(each is servers[0] for each in servers)
    queue_manager.mqsc("DEFINE QLOCAL(REPLIES)")
    assert reason_of(queue_manager, PING) == 0
    shown = queue_manager.mqsc("DISPLAY CONN(*) WHERE(APPLTAG EQ 'mayfly commands')")
    assert len(shown.rows) == 1


def test_a_queue_manager_that_is_closed_starts_none(tmp_path: Path) -> None:
    manager = QueueManager("QM1", tmp_path)
    manager.close()
    for _ in range(2):
        with pytest.raises(MQError) as raised:
            start_command_server(manager)
        assert raised.value.reason == rc.MQRC_CONNECTION_BROKEN


def test_more_replies_than_a_unit_of_work_may_have_all_come(qm: QueueManager) -> None:
    qm.mqsc("ALTER QMGR MAXUMSGS(7)")
    qm.mqsc("\n".join(f"DEFINE QLOCAL(A.{n})" for n in range(20)))
    found = pymqi.PCFExecute(pymqi.connect("QM1")).MQCMD_INQUIRE_Q(
        {CMQC.MQCA_Q_NAME: b"A.*", CMQCFC.MQIACF_Q_ATTRS: [CMQC.MQIA_MAX_Q_DEPTH]}
    )
    assert len(found) == 20
