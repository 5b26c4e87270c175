"""PCF commands: each does what the MQSC command of the same meaning does, and shows the same."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager, admin
from mayfly.admin.pcf.commands import COMMANDS
from mayfly.admin.pcf.objects import NOUNS, QUEUE_TYPES, keywords_of
from mayfly.pymqi import (
    CFIL,
    CFIN,
    CFST,
    CMQC,
    CMQCFC,
    CMQZC,
    ByteString,
    Filter,
    IntegerFilter,
    StringFilter,
)
from tests.pcf.conftest import Fails, Run

NAME, TYPE, LOCAL = CMQC.MQCA_Q_NAME, CMQC.MQIA_Q_TYPE, CMQC.MQQT_LOCAL
CHANNEL, CHANNEL_TYPE = CMQCFC.MQCACH_CHANNEL_NAME, CMQCFC.MQIACH_CHANNEL_TYPE


def text(value: bytes) -> str:
    """Return a text of a reply without the blanks and NULs at its end."""
    return value.decode().rstrip("\0 ")


def row(queue_manager: QueueManager, command: str) -> dict[str, Any]:
    """Return the one row that a DISPLAY command shows."""
    (shown,) = queue_manager.mqsc(command).rows
    return dict(shown)


# Queues


def test_a_queue_is_created_changed_copied_and_deleted(
    queue_manager: QueueManager, run: Run
) -> None:
    given = {NAME: b"A.1", TYPE: LOCAL, CMQC.MQIA_MAX_Q_DEPTH: 7, CMQC.MQCA_Q_DESC: "Größe"}
    assert run("CREATE_Q", given) == [{}]
    shown = row(queue_manager, "DISPLAY QLOCAL(A.1)")
    assert (shown["MAXDEPTH"], shown["DESCR"]) == (7, "Größe")
    run("CHANGE_Q", {NAME: b"A.1", TYPE: LOCAL, CMQC.MQIA_CAP_EXPIRY: 600})
    shown = row(queue_manager, "DISPLAY QLOCAL(A.1)")
    assert (shown["MAXDEPTH"], shown["CAPEXPRY"]) == (7, 600)
    run(
        "COPY_Q",
        {
            CMQCFC.MQCACF_FROM_Q_NAME: b"A.1",
            CMQCFC.MQCACF_TO_Q_NAME: b"A.2",
            TYPE: LOCAL,
            CMQC.MQIA_MAX_Q_DEPTH: 8,
        },
    )
    shown = row(queue_manager, "DISPLAY QLOCAL(A.2)")
    assert (shown["MAXDEPTH"], shown["CAPEXPRY"]) == (8, 600)
    run("DELETE_Q", {NAME: b"A.2"})
    assert not queue_manager.mqsc("DISPLAY QLOCAL(A.2)").ok


def test_replace_purge_and_clear_do_what_they_say(queue_manager: QueueManager, run: Run) -> None:
    run("CREATE_Q", {NAME: b"A.1", TYPE: LOCAL})
    run("CREATE_Q", {NAME: b"A.1", TYPE: LOCAL, CMQCFC.MQIACF_REPLACE: CMQCFC.MQRP_YES})
    with queue_manager.session() as session:
        session.put("A.1", b"one")
        run("CLEAR_Q", {NAME: b"A.1"})
        assert queue_manager.curdepth("A.1") == 0
        session.put("A.1", b"two")
    run("DELETE_Q", {NAME: b"A.1", CMQCFC.MQIACF_PURGE: CMQCFC.MQPO_YES})


@pytest.mark.parametrize("kind", QUEUE_TYPES)
def test_a_queue_of_each_type_shows_what_mqsc_shows(
    queue_manager: QueueManager, run: Run, kind: str
) -> None:
    assert queue_manager.mqsc(f"DEFINE {kind}(A.1) DESCR('a queue')").ok
    (found,) = run("INQUIRE_Q", {NAME: b"A.1"})
    assert text(found[NAME]) == "A.1"
    assert found[TYPE] == QUEUE_TYPES[kind]
    (record,) = admin.inquire(queue_manager.engine, (kind,), "A.1")
    rows = admin.object_type(kind)
    for keyword, value in record.values.items():
        shown = rows.row(keyword)
        assert shown is not None
        if shown.selector is None:
            assert keyword in {"EXPQ", "TTLFROM", "BODELAY", "BODELMAX"}
            continue
        answered = found[shown.selector]
        assert (text(answered) if isinstance(answered, bytes) else answered) == value


def test_names_may_be_generic_and_attributes_are_chosen(
    queue_manager: QueueManager, run: Run
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1) MAXDEPTH(5)\nDEFINE QLOCAL(A.2)\nDEFINE QALIAS(A.3)")
    wanted = {NAME: b"A.*", CMQCFC.MQIACF_Q_ATTRS: [CMQC.MQIA_MAX_Q_DEPTH]}
    found = run("INQUIRE_Q", wanted)
    assert [(text(each[NAME]), each.get(CMQC.MQIA_MAX_Q_DEPTH)) for each in found] == [
        ("A.1", 5),
        ("A.2", 5_000),
        ("A.3", None),
    ]
    assert found[0].keys() == {NAME, TYPE, CMQC.MQIA_MAX_Q_DEPTH}
    assert len(run("INQUIRE_Q", {**wanted, TYPE: CMQC.MQQT_ALIAS})) == 1
    everything = {NAME: b"A.1", CMQCFC.MQIACF_Q_ATTRS: CMQCFC.MQIACF_ALL}
    assert run("INQUIRE_Q", everything) == run("INQUIRE_Q", {NAME: b"A.1"})


def test_names_come_in_one_message_with_their_types(queue_manager: QueueManager, run: Run) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)\nDEFINE QALIAS(A.2)")
    (found,) = run("INQUIRE_Q_NAMES", {NAME: b"A.*"})
    assert [text(each) for each in found[CMQCFC.MQCACF_Q_NAMES]] == ["A.1", "A.2"]
    assert found[CMQCFC.MQIACF_Q_TYPES] == [LOCAL, CMQC.MQQT_ALIAS]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (Filter(CMQC.MQIA_MAX_Q_DEPTH).less(6), ["A.1"]),
        (Filter(CMQC.MQIA_MAX_Q_DEPTH).not_less(6), ["A.2"]),
        (Filter(CMQC.MQIA_MAX_Q_DEPTH).equal(5), ["A.1"]),
        (Filter(CMQC.MQIA_CAP_EXPIRY).not_equal(-1), ["A.2"]),
        (Filter(CMQC.MQCA_Q_DESC).like(b"left*"), ["A.1"]),
        (Filter(CMQC.MQCA_Q_DESC).not_like(b"left*"), ["A.2"]),
        (Filter(CMQC.MQCA_Q_DESC).equal(b"right"), ["A.2"]),
    ],
)
def test_a_filter_chooses_objects(
    queue_manager: QueueManager, run: Run, condition: IntegerFilter | StringFilter, names: list[str]
) -> None:
    queue_manager.mqsc(
        "DEFINE QLOCAL(A.1) MAXDEPTH(5) DESCR('left side')\n"
        "DEFINE QLOCAL(A.2) MAXDEPTH(6) DESCR('right') CAPEXPRY(10)"
    )
    wanted = {NAME: b"A.*", CMQCFC.MQIACF_Q_ATTRS: [CMQC.MQIA_INHIBIT_PUT]}
    found = run("INQUIRE_Q", wanted, [condition])
    assert [text(each[NAME]) for each in found] == names
    # What is asked for, and what the condition is about.
    assert found[0].keys() == {NAME, TYPE, CMQC.MQIA_INHIBIT_PUT, condition.selector}


def test_the_status_of_a_queue_is_shown(queue_manager: QueueManager, run: Run) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)")
    with queue_manager.session(transacted=True) as session:
        session.put("A.1", b"x")
        (found,) = run("INQUIRE_Q_STATUS", {NAME: b"A.1"})
    assert found[CMQC.MQIA_CURRENT_Q_DEPTH] == 1
    assert found[CMQCFC.MQIACF_UNCOMMITTED_MSGS] == 1
    assert found[CMQCFC.MQIACF_Q_STATUS_TYPE] == CMQCFC.MQIACF_Q_STATUS


# Errors


@pytest.mark.parametrize(
    ("command", "arguments", "reason", "said"),
    [
        ("INQUIRE_Q", {NAME: b"NONE"}, CMQC.MQRC_UNKNOWN_OBJECT_NAME, "'NONE'"),
        ("INQUIRE_Q", {}, CMQCFC.MQRCCF_PARM_MISSING, "MQCA_Q_NAME (2016)"),
        ("INQUIRE_Q", {NAME: 5}, CMQCFC.MQRCCF_CFIN_PARM_ID_ERROR, "MQCA_Q_NAME (2016)"),
        ("INQUIRE_Q", {NAME: b"A", TYPE: 55}, CMQCFC.MQRCCF_PARM_VALUE_ERROR, "55"),
        ("CREATE_Q", {NAME: b"Q1", TYPE: LOCAL}, CMQCFC.MQRCCF_OBJECT_ALREADY_EXISTS, "Q1"),
        ("CREATE_Q", {NAME: b"A"}, CMQCFC.MQRCCF_PARM_MISSING, "MQIA_Q_TYPE (20)"),
        ("CREATE_Q", {NAME: b"a b", TYPE: LOCAL}, CMQCFC.MQRCCF_OBJECT_NAME_ERROR, "a b"),
        (
            "CREATE_Q",
            {NAME: b"A", TYPE: LOCAL, CMQC.MQIA_MAX_Q_DEPTH: -1},
            CMQCFC.MQRCCF_ATTR_VALUE_ERROR,
            "MAXDEPTH(-1)",
        ),
        (
            "CREATE_Q",
            {NAME: b"A", TYPE: CMQC.MQQT_ALIAS, CMQC.MQIA_MAX_Q_DEPTH: 5},
            CMQCFC.MQRCCF_CFIN_PARM_ID_ERROR,
            "MQIA_MAX_Q_DEPTH (15)",
        ),
        ("CHANGE_Q", {NAME: b"A", TYPE: LOCAL}, CMQC.MQRC_UNKNOWN_OBJECT_NAME, "A"),
        ("DELETE_Q", {NAME: b"A"}, CMQC.MQRC_UNKNOWN_OBJECT_NAME, "A"),
        ("RESET_CLUSTER", {NAME: b"A"}, CMQCFC.MQRCCF_CFH_COMMAND_ERROR, "74"),
        (
            "INQUIRE_CHANNEL",
            {CHANNEL: b"NONE"},
            CMQCFC.MQRCCF_CHANNEL_NOT_FOUND,
            "NONE",
        ),
        (
            "INQUIRE_CHANNEL_STATUS",
            {CHANNEL: b"NONE"},
            CMQCFC.MQRCCF_CHL_STATUS_NOT_FOUND,
            "NONE",
        ),
        (
            "START_CHANNEL",
            {CHANNEL: b"NONE"},
            CMQCFC.MQRCCF_CHANNEL_NOT_FOUND,
            "NONE",
        ),
        (
            "RESET_CHANNEL",
            {CHANNEL: b"NONE", CMQCFC.MQIACH_MSG_SEQUENCE_NUMBER: 0},
            CMQCFC.MQRCCF_PARM_VALUE_ERROR,
            "0",
        ),
        (
            "STOP_CONNECTION",
            {CMQCFC.MQBACF_CONNECTION_ID: ByteString(b"x" * 24)},
            CMQCFC.MQRCCF_CONNECTION_ID_ERROR,
            "78",
        ),
    ],
)
def test_a_wrong_command_names_field_and_value(
    queue_manager: QueueManager,
    fails: Fails,
    command: str,
    arguments: dict[int, object],
    reason: int,
    said: str,
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    found, explained = fails(command, arguments)
    assert found == reason
    assert said in explained


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (Filter(CMQC.MQIA_MAX_Q_DEPTH).like(5), CMQCFC.MQRCCF_CFIF_OPERATOR_ERROR),
        (Filter(CMQC.MQCA_Q_DESC).contains(b"x"), CMQCFC.MQRCCF_CFSF_OPERATOR_ERROR),
        (Filter(CMQC.MQIA_PLATFORM).equal(5), CMQCFC.MQRCCF_CFIF_PARM_ID_ERROR),
        (Filter(CMQC.MQCA_Q_MGR_NAME).equal(b"x"), CMQCFC.MQRCCF_CFSF_PARM_ID_ERROR),
    ],
)
def test_a_wrong_filter_is_refused(fails: Fails, condition: object, reason: int) -> None:
    assert fails("INQUIRE_Q", {NAME: b"*"}, [condition])[0] == reason


def test_a_parameter_that_is_given_twice_is_refused(fails: Fails) -> None:
    names = [CFST(Parameter=NAME, String=b"A")] * 2
    assert fails("INQUIRE_Q", names)[0] == CMQCFC.MQRCCF_CFST_DUPLICATE_PARM
    types = [CFIN(Parameter=TYPE, Value=1)] * 2
    assert fails("INQUIRE_Q", [names[0], *types])[0] == CMQCFC.MQRCCF_CFIN_DUPLICATE_PARM
    assert fails("INQUIRE_Q", [CFIL(Parameter=NAME, Values=[1])])[0] == (
        CMQCFC.MQRCCF_CFIL_PARM_ID_ERROR
    )


# The queue manager


def test_the_queue_manager_is_shown_and_changed(queue_manager: QueueManager, run: Run) -> None:
    assert run("PING_Q_MGR") == [{}]
    run("CHANGE_Q_MGR", {CMQC.MQCA_Q_MGR_DESC: b"ours", CMQC.MQIA_EXPIRY_INTERVAL: 5})
    wanted = {CMQCFC.MQIACF_Q_MGR_ATTRS: [CMQC.MQCA_Q_MGR_DESC, CMQC.MQIA_EXPIRY_INTERVAL]}
    (found,) = run("INQUIRE_Q_MGR", wanted)
    assert text(found.pop(CMQC.MQCA_Q_MGR_NAME)) == "QM1"
    assert text(found.pop(CMQC.MQCA_Q_MGR_DESC)) == "ours"
    assert found == {CMQC.MQIA_EXPIRY_INTERVAL: 5}
    (status,) = run("INQUIRE_Q_MGR_STATUS")
    assert status[CMQCFC.MQIACF_Q_MGR_STATUS] == CMQCFC.MQQMSTA_RUNNING
    # This program, and the command server.
    assert status[CMQCFC.MQIACF_CONNECTION_COUNT] == 2


# Channels and connections


def test_channels_are_defined_started_and_stopped(
    queue_manager: QueueManager, run: Run, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(TO.QM2) USAGE(XMITQ)")
    given = {
        CHANNEL: b"TO.QM2",
        CHANNEL_TYPE: CMQC.MQCHT_SENDER,
        CMQCFC.MQCACH_XMIT_Q_NAME: b"TO.QM2",
        CMQCFC.MQCACH_CONNECTION_NAME: b"QM2",
    }
    run("CREATE_CHANNEL", given)
    run("CREATE_CHANNEL", {CHANNEL: b"APP", CHANNEL_TYPE: CMQC.MQCHT_SVRCONN})
    changed = {CHANNEL: b"TO.QM2", CHANNEL_TYPE: CMQC.MQCHT_SENDER, CMQCFC.MQIACH_BATCH_SIZE: 7}
    run("CHANGE_CHANNEL", changed)
    assert row(queue_manager, "DISPLAY CHANNEL(TO.QM2)")["BATCHSZ"] == 7
    (shown,) = run("INQUIRE_CHANNEL", {CHANNEL: b"*", CHANNEL_TYPE: CMQC.MQCHT_SENDER})
    assert (text(shown[CHANNEL]), shown[CMQCFC.MQIACH_BATCH_SIZE]) == ("TO.QM2", 7)
    (names,) = run("INQUIRE_CHANNEL_NAMES", {CHANNEL: b"*"})
    assert [text(each) for each in names[CMQCFC.MQCACH_CHANNEL_NAMES]][:2] == [
        "APP",
        "SYSTEM.DEF.CLNTCONN",
    ]
    run("STOP_CHANNEL", {CHANNEL: b"TO.QM2", CMQCFC.MQIACF_MODE: CMQCFC.MQMODE_FORCE})
    (status,) = run("INQUIRE_CHANNEL_STATUS", {CHANNEL: b"TO.*"})
    assert status[CMQCFC.MQIACH_CHANNEL_STATUS] == CMQCFC.MQCHS_STOPPED
    run("RESET_CHANNEL", {CHANNEL: b"TO.QM2", CMQCFC.MQIACH_MSG_SEQUENCE_NUMBER: 5})
    run("START_CHANNEL", {CHANNEL: b"TO.QM2"})
    run("STOP_CHANNEL", {CHANNEL: b"TO.QM2"})
    run("STOP_CHANNEL", {CHANNEL: b"TO.QM2", CMQCFC.MQIACH_CHANNEL_STATUS: CMQCFC.MQCHS_INACTIVE})
    (status,) = run("INQUIRE_CHANNEL_STATUS", {CHANNEL: b"TO.*"})
    assert status[CMQCFC.MQIACH_CHANNEL_STATUS] == CMQCFC.MQCHS_INACTIVE
    one = {CHANNEL: b"TO.QM2", CMQC.MQCA_Q_MGR_NAME: b"QM2"}
    assert fails("STOP_CHANNEL", one)[0] == CMQCFC.MQRCCF_CHANNEL_NOT_ACTIVE
    address = {CHANNEL: b"APP", CMQCFC.MQCACH_CONNECTION_NAME: b"192.0.2.1"}
    assert fails("STOP_CHANNEL", address)[0] == CMQCFC.MQRCCF_CHANNEL_NOT_ACTIVE
    stopped = {**one, CMQCFC.MQIACH_CHANNEL_STATUS: CMQCFC.MQCHS_STOPPED}
    assert fails("STOP_CHANNEL", stopped)[0] == CMQCFC.MQRCCF_PARM_CONFLICT
    run("DELETE_CHANNEL", {CHANNEL: b"APP"})
    assert not queue_manager.mqsc("DISPLAY CHANNEL(APP)").ok


def test_a_ping_finds_no_partner(queue_manager: QueueManager, run: Run, fails: Fails) -> None:
    queue_manager.mqsc(
        "DEFINE QLOCAL(TO.QM2) USAGE(XMITQ)\n"
        "DEFINE CHANNEL(TO.QM2) CHLTYPE(SDR) XMITQ(TO.QM2) CONNAME(QM2)"
    )
    assert fails("PING_CHANNEL", {CHANNEL: b"TO.QM2"})[0] == CMQCFC.MQRCCF_HOST_NOT_AVAILABLE


def test_a_channel_of_clients_has_a_table_of_its_own(queue_manager: QueueManager, run: Run) -> None:
    given = {
        CHANNEL: b"APP",
        CHANNEL_TYPE: CMQC.MQCHT_CLNTCONN,
        CMQCFC.MQCACH_CONNECTION_NAME: b"host(1414)",
        CMQC.MQCA_Q_MGR_NAME: b"QM1",
    }
    run("CREATE_CHANNEL", given)
    run("CREATE_CHANNEL", {CHANNEL: b"APP", CHANNEL_TYPE: CMQC.MQCHT_SVRCONN})
    found = run("INQUIRE_CHANNEL", {CHANNEL: b"APP"})
    assert [each[CHANNEL_TYPE] for each in found] == [CMQC.MQCHT_SVRCONN, CMQC.MQCHT_CLNTCONN]
    assert text(found[1][CMQC.MQCA_Q_MGR_NAME]) == "QM1"
    table = {CHANNEL: b"APP", CMQCFC.MQIACH_CHANNEL_TABLE: CMQCFC.MQCHTAB_CLNTCONN}
    run("DELETE_CHANNEL", table)
    (left,) = run("INQUIRE_CHANNEL", {CHANNEL: b"APP"})
    assert left[CHANNEL_TYPE] == CMQC.MQCHT_SVRCONN


def test_a_connection_is_shown_and_ended(queue_manager: QueueManager, run: Run) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)")
    session = queue_manager.session("anna", program="orders.py")
    session.open("A.1", CMQC.MQOO_INPUT_SHARED)
    generic = {CMQCFC.MQBACF_GENERIC_CONNECTION_ID: ByteString(b"")}
    only = Filter(CMQCFC.MQCACF_USER_IDENTIFIER).equal(b"anna")
    (found,) = run("INQUIRE_CONNECTION", generic, [only])
    assert text(found[CMQCFC.MQCACF_APPL_TAG]) == "orders.py"
    identifier = ByteString(found[CMQCFC.MQBACF_CONNECTION_ID])
    assert len(identifier) == 24
    handles = {
        CMQCFC.MQBACF_CONNECTION_ID: identifier,
        CMQCFC.MQIACF_CONN_INFO_TYPE: CMQCFC.MQIACF_CONN_INFO_HANDLE,
    }
    (handle,) = run("INQUIRE_CONNECTION", handles)
    assert text(handle[CMQCFC.MQCACF_OBJECT_NAME]) == "A.1"
    run("STOP_CONNECTION", {CMQCFC.MQBACF_CONNECTION_ID: identifier})
    assert not session.is_open


# Topics, subscriptions, processes


def test_topics_and_subscriptions_are_objects_too(queue_manager: QueueManager, run: Run) -> None:
    topic, sub = CMQC.MQCA_TOPIC_NAME, CMQCFC.MQCACF_SUB_NAME
    local = {CMQC.MQIA_TOPIC_TYPE: CMQC.MQTOPT_LOCAL}
    run("CREATE_TOPIC", {topic: b"GATES", **local, CMQC.MQCA_TOPIC_STRING: b"gates"})
    run("CHANGE_TOPIC", {topic: b"GATES", CMQC.MQIA_INHIBIT_PUB: CMQC.MQTA_PUB_INHIBITED})
    assert row(queue_manager, "DISPLAY TOPIC(GATES)")["PUB"] == "DISABLED"
    (names,) = run("INQUIRE_TOPIC_NAMES", {topic: b"G*"})
    assert [text(each) for each in names[CMQCFC.MQCACF_TOPIC_NAMES]] == ["GATES"]
    (found,) = run("INQUIRE_TOPIC", {topic: b"GATES", **local})
    assert found[CMQC.MQIA_TOPIC_TYPE] == CMQC.MQTOPT_LOCAL
    assert text(found[CMQC.MQCA_TOPIC_STRING]) == "gates"
    queue_manager.mqsc("DEFINE QLOCAL(A.1)")
    given = {
        sub: b"watch it",
        CMQC.MQCA_TOPIC_STRING: b"gates/A1",
        CMQCFC.MQCACF_DESTINATION: b"A.1",
    }
    run("CREATE_SUBSCRIPTION", given)
    (found,) = run("INQUIRE_SUBSCRIPTION", {sub: b"watch it"})
    identifier = found[CMQCFC.MQBACF_SUB_ID]
    assert len(identifier) == 24
    by_id = {CMQCFC.MQBACF_SUB_ID: ByteString(identifier)}
    run("CHANGE_SUBSCRIPTION", {**by_id, CMQCFC.MQCACF_SUB_USER_DATA: b"gate"})
    (found,) = run("INQUIRE_SUBSCRIPTION", by_id)
    assert text(found[CMQCFC.MQCACF_SUB_USER_DATA]) == "gate"
    (status,) = run("INQUIRE_SUB_STATUS", {sub: b"*"})
    assert status[CMQCFC.MQIACF_DURABLE_SUBSCRIPTION] == CMQC.MQSUB_DURABLE_YES
    (status,) = run("INQUIRE_TOPIC_STATUS", {CMQC.MQCA_TOPIC_STRING: b"gates/A1"})
    assert status[CMQC.MQIA_INHIBIT_PUB] == CMQC.MQTA_PUB_INHIBITED
    assert status[CMQC.MQIA_SUB_COUNT] == 1
    clear = {
        CMQC.MQCA_TOPIC_STRING: b"gates/A1",
        CMQCFC.MQIACF_CLEAR_TYPE: CMQCFC.MQCLRT_RETAINED,
    }
    assert run("CLEAR_TOPIC_STRING", clear) == [{}]
    run("DELETE_SUBSCRIPTION", {sub: b"watch it"})
    run("DELETE_TOPIC", {topic: b"GATES"})


def test_processes_and_auth_information_are_objects_too(run: Run, fails: Fails) -> None:
    run("CREATE_PROCESS", {CMQC.MQCA_PROCESS_NAME: b"JOB", CMQC.MQCA_APPL_ID: b"run.sh"})
    (found,) = run("INQUIRE_PROCESS", {CMQC.MQCA_PROCESS_NAME: b"*"})
    assert text(found[CMQC.MQCA_APPL_ID]) == "run.sh"
    (names,) = run("INQUIRE_PROCESS_NAMES", {CMQC.MQCA_PROCESS_NAME: b"*"})
    assert [text(each) for each in names[CMQCFC.MQCACF_PROCESS_NAMES]] == ["JOB"]
    run("DELETE_PROCESS", {CMQC.MQCA_PROCESS_NAME: b"JOB"})
    given = {CMQC.MQCA_AUTH_INFO_NAME: b"OURS", CMQC.MQIA_AUTH_INFO_TYPE: CMQC.MQAIT_IDPW_OS}
    run("CREATE_AUTH_INFO", given)
    (found,) = run("INQUIRE_AUTH_INFO", {CMQC.MQCA_AUTH_INFO_NAME: b"OURS"})
    assert found[CMQC.MQIA_AUTH_INFO_TYPE] == CMQC.MQAIT_IDPW_OS
    assert len(run("INQUIRE_AUTH_INFO", {**given, CMQC.MQCA_AUTH_INFO_NAME: b"*"})) == 2
    other = {**given, CMQC.MQIA_AUTH_INFO_TYPE: CMQC.MQAIT_CRL_LDAP}
    assert fails("INQUIRE_AUTH_INFO", other)[0] == CMQC.MQRC_UNKNOWN_OBJECT_NAME


# Access


def test_authority_records_are_set_shown_and_deleted(
    queue_manager: QueueManager, run: Run, fails: Fails
) -> None:
    profile = {
        CMQCFC.MQCACF_AUTH_PROFILE_NAME: b"A.*",
        CMQCFC.MQIACF_OBJECT_TYPE: CMQC.MQOT_Q,
    }
    anna = {CMQCFC.MQCACF_PRINCIPAL_ENTITY_NAMES: [b"anna"]}
    added = [CMQCFC.MQAUTH_INPUT, CMQCFC.MQAUTH_BROWSE]
    run("SET_AUTH_REC", {**profile, **anna, CMQCFC.MQIACF_AUTH_ADD_AUTHS: added})
    shown = row(queue_manager, "DISPLAY AUTHREC PROFILE(A.*) OBJTYPE(QUEUE)")
    assert (shown["ENTITY"], shown["AUTHLIST"]) == ("anna", "BROWSE,GET")
    options = CMQCFC.MQAUTHOPT_NAME_ALL_MATCHING | CMQCFC.MQAUTHOPT_ENTITY_EXPLICIT
    (found,) = run(
        "INQUIRE_AUTH_RECS",
        {
            CMQCFC.MQIACF_AUTH_OPTIONS: options,
            CMQCFC.MQCACF_AUTH_PROFILE_NAME: b"A.1",
            CMQCFC.MQIACF_OBJECT_TYPE: CMQC.MQOT_Q,
            CMQCFC.MQCACF_ENTITY_NAME: b"anna",
            CMQCFC.MQIACF_ENTITY_TYPE: CMQZC.MQZAET_PRINCIPAL,
        },
    )
    assert text(found[CMQCFC.MQCACF_AUTH_PROFILE_NAME]) == "A.*"
    assert sorted(found[CMQCFC.MQIACF_AUTHORIZATION_LIST]) == sorted(added)
    (found,) = run(
        "INQUIRE_ENTITY_AUTH",
        {
            CMQCFC.MQCACF_OBJECT_NAME: b"A.1",
            CMQCFC.MQIACF_OBJECT_TYPE: CMQC.MQOT_Q,
            CMQCFC.MQCACF_ENTITY_NAME: b"anna",
            CMQCFC.MQIACF_ENTITY_TYPE: CMQZC.MQZAET_PRINCIPAL,
        },
    )
    assert sorted(found[CMQCFC.MQIACF_AUTHORIZATION_LIST]) == sorted(added)
    run("DELETE_AUTH_REC", {**profile, **anna})
    assert fails("DELETE_AUTH_REC", {**profile, **anna})[0] == CMQC.MQRC_UNKNOWN_OBJECT_NAME
    assert fails("INQUIRE_AUTH_RECS", {CMQCFC.MQCACF_AUTH_PROFILE_NAME: b"A.1"})[0] == (
        CMQCFC.MQRCCF_NONE_FOUND
    )
    manager = {CMQCFC.MQIACF_OBJECT_TYPE: CMQC.MQOT_Q_MGR}
    control = {**manager, **anna, CMQCFC.MQIACF_AUTH_ADD_AUTHS: [CMQCFC.MQAUTH_CONTROL]}
    run("SET_AUTH_REC", {**control, CMQCFC.MQCACF_AUTH_PROFILE_NAME: b"**"})
    shown = row(queue_manager, "DISPLAY AUTHREC OBJTYPE(QMGR)")
    assert (shown["PROFILE"], shown["AUTHLIST"]) == ("SELF", "CTRL")
    create = {**manager, **anna, CMQCFC.MQIACF_AUTH_ADD_AUTHS: [CMQCFC.MQAUTH_CREATE]}
    run("SET_AUTH_REC", {**create, CMQCFC.MQCACF_AUTH_PROFILE_NAME: b"@class"})
    assert queue_manager.mqsc("DISPLAY AUTHREC PROFILE('@class') OBJTYPE(QMGR)").ok
    wrong = {**profile, **anna, CMQCFC.MQIACF_AUTH_ADD_AUTHS: [99]}
    assert fails("SET_AUTH_REC", wrong)[0] == CMQCFC.MQRCCF_PARM_VALUE_ERROR


def test_rules_for_channels_are_set_shown_and_removed(
    queue_manager: QueueManager, run: Run, fails: Fails
) -> None:
    users = {
        CHANNEL: b"APP.*",
        CMQCFC.MQIACF_CHLAUTH_TYPE: CMQCFC.MQCAUT_BLOCKUSER,
        CMQCFC.MQCACH_MCA_USER_ID_LIST: [b"eve", b"mallory"],
    }
    run("SET_CHLAUTH_REC", {**users, CMQCFC.MQIACF_ACTION: CMQCFC.MQACT_ADD})
    assert row(queue_manager, "DISPLAY CHLAUTH(APP.*)")["USERLIST"] == "eve,mallory"
    match = {CHANNEL: b"APP.*", CMQCFC.MQIACH_MATCH: CMQCFC.MQMATCH_EXACT}
    (found,) = run("INQUIRE_CHLAUTH_RECS", match)
    assert found[CMQCFC.MQCACH_MCA_USER_ID_LIST] == [b"eve    ", b"mallory"]
    assert found[CMQCFC.MQIACF_CHLAUTH_TYPE] == CMQCFC.MQCAUT_BLOCKUSER
    partner = {
        CHANNEL: b"APP.1",
        CMQCFC.MQIACH_MATCH: CMQCFC.MQMATCH_RUNCHECK,
        CMQCFC.MQCACH_CONNECTION_NAME: b"127.0.0.1",
        CMQCFC.MQCACH_CLIENT_USER_ID: b"eve",
    }
    (met,) = run("INQUIRE_CHLAUTH_RECS", partner)
    assert text(met[CHANNEL]) == "APP.*"
    (met,) = run("INQUIRE_CHLAUTH_RECS", {**partner, CMQCFC.MQCACH_CLIENT_USER_ID: b"anna"})
    assert text(met[CMQCFC.MQCACH_MCA_USER_ID]) == "anna"
    run("SET_CHLAUTH_REC", {**users, CMQCFC.MQIACF_ACTION: CMQCFC.MQACT_REMOVE})
    assert fails("INQUIRE_CHLAUTH_RECS", match)[0] == CMQCFC.MQRCCF_CHLAUTH_NOT_FOUND
    assert run("REFRESH_SECURITY") == [{}]


def test_a_namelist_has_its_names_in_order_and_their_count(run: Run, fails: Fails) -> None:
    name, names = CMQC.MQCA_NAMELIST_NAME, [b"Q.B", b"Q.A"]
    given = {name: b"ALL.QUEUES", CMQC.MQCA_NAMES: names, CMQC.MQCA_NAMELIST_DESC: b"two"}
    run("CREATE_NAMELIST", given)
    (found,) = run("INQUIRE_NAMELIST", {name: b"ALL.*"})
    assert [text(each) for each in found[CMQC.MQCA_NAMES]] == ["Q.B", "Q.A"]
    assert (found[CMQC.MQIA_NAME_COUNT], text(found[CMQC.MQCA_NAMELIST_DESC])) == (2, "two")
    wanted = {name: b"ALL.QUEUES", CMQCFC.MQIACF_NAMELIST_ATTRS: [CMQC.MQIA_NAME_COUNT]}
    (counted,) = run("INQUIRE_NAMELIST", wanted)
    assert counted[CMQC.MQIA_NAME_COUNT] == 2
    assert CMQC.MQCA_NAMES not in counted
    run("CHANGE_NAMELIST", {name: b"ALL.QUEUES", CMQC.MQCA_NAMES: [b"Q.C"]})
    (changed,) = run("INQUIRE_NAMELIST", wanted)
    assert changed[CMQC.MQIA_NAME_COUNT] == 1
    (listed,) = run("INQUIRE_NAMELIST_NAMES", {name: b"*"})
    assert [text(each) for each in listed[CMQCFC.MQCACF_NAMELIST_NAMES]] == ["ALL.QUEUES"]
    run("DELETE_NAMELIST", {name: b"ALL.QUEUES"})
    reason, _explained = fails("INQUIRE_NAMELIST", {name: b"ALL.QUEUES"})
    assert reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME


# All of them


def test_each_attribute_with_a_number_can_be_set_by_it() -> None:
    """A row of the model is a parameter: nothing else names attributes."""
    for noun in NOUNS:
        for kind in noun.kinds:
            rows = admin.object_type(kind).attributes.values()
            numbered = [row.keyword for row in rows if row.selector is not None]
            assert set(numbered) <= set(keywords_of(kind).values())
            assert len(keywords_of(kind)) >= len(numbered)


def test_each_command_has_a_number_of_its_own() -> None:
    of_nouns = sum(
        bool(number)
        for noun in NOUNS
        for number in (
            noun.inquire,
            noun.inquire_names,
            noun.create,
            noun.change,
            noun.copy,
            noun.delete,
        )
    )
    assert len(COMMANDS) == of_nouns + 25 + 15
    names = {value for name, value in vars(CMQCFC).items() if name.startswith("MQCMD_")}
    assert COMMANDS.keys() <= names
