"""Configuration and command events (V11, V12)."""

from __future__ import annotations

import pytest

import mayfly
from mayfly import admin, pymqi
from mayfly.admin import QLOCAL
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import event_constants as e
from mayfly.pymqi import CMQC, CMQCFC
from tests.spec.event_scene import (
    COMMANDS,
    CONFIGURATION,
    MANAGER,
    SeenEvent,
    seen,
    turned_on,
    value_of,
)


def test_V11_an_object_that_is_made_changed_and_deleted_makes_its_events(
    queue_manager: mayfly.QueueManager,
) -> None:
    turned_on(queue_manager, "ALTER QMGR CONFIGEV(ENABLED)")
    turned_on(
        queue_manager,
        "DEFINE QLOCAL(Q1) MAXDEPTH(5)\nALTER QLOCAL(Q1) MAXDEPTH(6)\nDELETE QLOCAL(Q1)\n"
        "DEFINE CHANNEL(C1) CHLTYPE(SVRCONN)",
    )
    assert not queue_manager.mqsc("ALTER QLOCAL(NONE) PUT(DISABLED)").ok
    with queue_manager.session() as session:
        made, before, after, deleted, channel = seen(session, CONFIGURATION)
    assert [event.reason for event in (made, before, after, deleted, channel)] == [
        e.MQRC_CONFIG_CREATE_OBJECT,
        e.MQRC_CONFIG_CHANGE_OBJECT,
        e.MQRC_CONFIG_CHANGE_OBJECT,
        e.MQRC_CONFIG_DELETE_OBJECT,
        e.MQRC_CONFIG_CREATE_OBJECT,
    ]
    depths = [event.value(c.MQIA_MAX_Q_DEPTH) for event in (made, before, after, deleted)]
    assert depths == [5, 5, 6, 6]
    header = made.content.header
    assert (header.command, header.version) == (e.MQCMD_CONFIG_EVENT, 2)
    assert made.parameters[:5] == [
        e.MQCACF_EVENT_USER_ID,
        e.MQIACF_EVENT_ORIGIN,
        e.MQCACF_EVENT_Q_MGR,
        k.MQIACF_OBJECT_TYPE,
        c.MQCA_Q_NAME,
    ]
    assert made.value(e.MQIACF_EVENT_ORIGIN) == e.MQEVO_CONSOLE
    assert (made.value(k.MQIACF_OBJECT_TYPE), made.value(c.MQCA_Q_NAME)) == (c.MQOT_Q, "Q1")
    assert channel.value(k.MQIACF_OBJECT_TYPE) == c.MQOT_CHANNEL
    # The two messages about one change belong together.
    assert before.message.correl_id == after.message.correl_id != bytes(24)
    headers = [event.content.header for event in (before, after)]
    assert [(h.sequence_number, h.control) for h in headers] == [
        (1, k.MQCFC_NOT_LAST),
        (2, k.MQCFC_LAST),
    ]


def test_V11_refresh_makes_an_event_for_each_object_that_is_asked_for(
    queue_manager: mayfly.QueueManager,
) -> None:
    turned_on(
        queue_manager,
        "DEFINE QLOCAL(A1)\nDEFINE QALIAS(A2) TARGET(A1)\nDEFINE PROCESS(A3)\n"
        "ALTER QMGR CONFIGEV(ENABLED)\nREFRESH QMGR TYPE(CONFIGEV) OBJECT(QUEUE) NAME(A*)",
    )
    with queue_manager.session() as session:
        found = seen(session, CONFIGURATION)
    assert [(event.reason, event.value(c.MQCA_Q_NAME)) for event in found] == [
        (e.MQRC_CONFIG_REFRESH_OBJECT, "A1"),
        (e.MQRC_CONFIG_REFRESH_OBJECT, "A2"),
    ]


def about(event: SeenEvent) -> tuple[int, object]:
    """Return reason and type of object of a configuration event."""
    return event.reason, event.value(k.MQIACF_OBJECT_TYPE)


CREATED, CHANGED = e.MQRC_CONFIG_CREATE_OBJECT, e.MQRC_CONFIG_CHANGE_OBJECT
DELETED, REFRESHED = e.MQRC_CONFIG_DELETE_OBJECT, e.MQRC_CONFIG_REFRESH_OBJECT


def test_V11_authority_records_make_events(queue_manager: mayfly.QueueManager) -> None:
    turned_on(
        queue_manager,
        "ALTER QMGR CONFIGEV(ENABLED)\n"
        "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)\n"
        "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET)\n"
        "DELETE AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('bob')",
    )
    with queue_manager.session() as session:
        found = seen(session, CONFIGURATION)
    made, before, after, deleted = [each for each in found if about(each)[1] == c.MQOT_AUTH_REC]
    assert [each.reason for each in (made, before, after, deleted)] == [
        CREATED,
        CHANGED,
        CHANGED,
        DELETED,
    ]
    assert made.parameters[-6:] == [
        k.MQIACF_OBJECT_TYPE,
        k.MQCACF_AUTH_PROFILE_NAME,
        e.MQIACF_AUTH_REC_TYPE,
        k.MQIACF_AUTHORIZATION_LIST,
        k.MQCACF_ENTITY_NAME,
        k.MQIACF_ENTITY_TYPE,
    ]
    assert made.value(k.MQCACF_AUTH_PROFILE_NAME) == "Q1"
    assert made.value(e.MQIACF_AUTH_REC_TYPE) == c.MQOT_Q
    assert made.value(k.MQCACF_ENTITY_NAME) == "bob"
    assert made.value(k.MQIACF_ENTITY_TYPE) == k.MQZAET_PRINCIPAL
    assert before.value(k.MQIACF_AUTHORIZATION_LIST) == (k.MQAUTH_OUTPUT,)
    both = (k.MQAUTH_INPUT, k.MQAUTH_OUTPUT)
    assert after.value(k.MQIACF_AUTHORIZATION_LIST) == both
    assert deleted.value(k.MQIACF_AUTHORIZATION_LIST) == both


def test_V11_of_several_rules_for_a_channel_only_the_one_that_is_set_makes_events(
    queue_manager: mayfly.QueueManager,
) -> None:
    rule = "SET CHLAUTH('APP*') TYPE(ADDRESSMAP) ADDRESS('192.0.2.{}') {}\n"
    turned_on(
        queue_manager,
        "ALTER QMGR CONFIGEV(ENABLED)\n"
        + rule.format(1, "USERSRC(CHANNEL)")
        + rule.format(2, "USERSRC(CHANNEL)")
        + rule.format(2, "USERSRC(NOACCESS) ACTION(REPLACE)")
        + rule.format(2, "ACTION(REMOVE)"),
    )
    with queue_manager.session() as session:
        found = [each for each in seen(session, CONFIGURATION) if about(each)[1] == c.MQOT_CHLAUTH]
    assert [each.reason for each in found] == [CREATED, CREATED, CHANGED, CHANGED, DELETED]
    addresses = [each.value(k.MQCACH_CONNECTION_NAME) for each in found]
    assert addresses == ["192.0.2.1", *["192.0.2.2"] * 4]
    sources = [each.value(k.MQIACH_USER_SOURCE) for each in found]
    channel, nobody = c.MQUSRC_CHANNEL, c.MQUSRC_NOACCESS
    assert sources == [channel, channel, channel, nobody, nobody]
    assert found[0].value(k.MQCACH_CHANNEL_NAME) == "APP*"


def test_V11_mqset_makes_an_event_with_the_user_and_its_own_origin(
    queue_manager: mayfly.QueueManager,
) -> None:
    turned_on(queue_manager, "ALTER QMGR CONFIGEV(ENABLED)\nDEFINE QLOCAL(Q1)")
    with queue_manager.session() as session:
        seen(session, CONFIGURATION)
        connection = pymqi.connect(queue_manager.name, user="root")
        queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_SET)
        queue.set(CMQC.MQIA_INHIBIT_PUT, CMQC.MQQA_PUT_INHIBITED)
        before, after = seen(session, CONFIGURATION)
        connection.disconnect()
    assert [about(each) for each in (before, after)] == [(CHANGED, c.MQOT_Q)] * 2
    origin = e.MQEVO_MQSET
    assert [each.value(e.MQIACF_EVENT_ORIGIN) for each in (before, after)] == [origin] * 2
    assert after.value(e.MQCACF_EVENT_USER_ID) == "root"
    assert [each.value(c.MQIA_INHIBIT_PUT) for each in (before, after)] == [0, 1]


def test_V11_refresh_by_mqsc_and_by_pcf_chooses_records_and_rules(
    queue_manager: mayfly.QueueManager,
) -> None:
    turned_on(
        queue_manager,
        "SET AUTHREC PROFILE('A.**') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)\n"
        "SET AUTHREC PROFILE('B.**') OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(PUT)\n"
        "SET CHLAUTH('A*') TYPE(BLOCKUSER) USERLIST('eve')\nDEFINE QLOCAL(A.1)\n"
        "ALTER QMGR CONFIGEV(ENABLED)",
    )
    kinds = {"AUTHREC": c.MQOT_AUTH_REC, "CHLAUTH": c.MQOT_CHLAUTH, "QLOCAL": c.MQOT_Q}
    numbers = {**kinds, "QLOCAL": c.MQOT_LOCAL_Q}
    executor = pymqi.PCFExecute(pymqi.connect(queue_manager.name))
    with queue_manager.session() as session:
        seen(session, CONFIGURATION)
        for kind, number in kinds.items():
            turned_on(queue_manager, f"REFRESH QMGR TYPE(CONFIGEV) OBJECT({kind}) NAME(A*)")
            assert [about(each) for each in seen(session, CONFIGURATION)] == [(REFRESHED, number)]
            executor.MQCMD_REFRESH_Q_MGR(
                {
                    CMQCFC.MQIACF_REFRESH_TYPE: CMQCFC.MQRT_CONFIGURATION,
                    CMQCFC.MQIACF_OBJECT_TYPE: numbers[kind],
                    CMQCFC.MQCACF_OBJECT_NAME: b"A*",
                }
            )
            assert [about(each) for each in seen(session, CONFIGURATION)] == [(REFRESHED, number)]
        executor.disconnect()
    turned_on(queue_manager, "REFRESH QMGR TYPE(PROXYSUB)")


def test_V11_a_change_by_python_makes_its_event_too(queue_manager: mayfly.QueueManager) -> None:
    turned_on(queue_manager, "ALTER QMGR CONFIGEV(ENABLED)")
    admin.define(queue_manager.engine, QLOCAL, "Q1", {})
    with queue_manager.session() as session:
        [made] = seen(session, CONFIGURATION)
    assert made.value(e.MQIACF_EVENT_ORIGIN) == e.MQEVO_OTHER


@pytest.mark.parametrize(("switch", "count"), [("ENABLED", 3), ("NODISPLAY", 2)])
def test_V12_a_command_that_was_done_is_an_event_with_its_text(
    queue_manager: mayfly.QueueManager, switch: str, count: int
) -> None:
    turned_on(queue_manager, f"ALTER QMGR CMDEV({switch})")
    queue_manager.mqsc(
        "DEFINE QLOCAL(Q1) +\n  DESCR('one')\nDIS QLOCAL(Q1)\nALTER QLOCAL(NONE) PUT(DISABLED)\n"
        "DEFINE CHANNEL(C1) CHLTYPE(CLNTCONN) CONNAME(h) USERID(u) PASSWORD('open) sesame')"
    )
    with queue_manager.session() as session:
        turning, *found = seen(session, COMMANDS)
    assert len(found) == count
    context, data = found[0].content.structures
    assert found[0].reason == e.MQRC_COMMAND_MQSC
    assert (found[0].content.header.version, turning.reason) == (3, e.MQRC_COMMAND_MQSC)
    assert (context.parameter, data.parameter) == (
        e.MQGACF_COMMAND_CONTEXT,
        e.MQGACF_COMMAND_DATA,
    )
    assert value_of(context.value, e.MQIACF_EVENT_ORIGIN) == e.MQEVO_CONSOLE
    assert value_of(data.value, e.MQCACF_COMMAND_MQSC) == "DEFINE QLOCAL(Q1) DESCR('one')"
    last = value_of(found[-1].content.structures[1].value, e.MQCACF_COMMAND_MQSC)
    assert "sesame" not in str(last)
    assert str(last).endswith("PASSWORD(********)")


def test_V12_a_pcf_command_is_an_event_with_its_context_and_a_refused_one_of_authority(
    queue_manager: mayfly.QueueManager,
) -> None:
    turned_on(
        queue_manager,
        "ALTER QMGR CMDEV(NODISPLAY) AUTHOREV(ENABLED)\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT,INQ)\n"
        "SET AUTHREC PROFILE('SYSTEM.**') OBJTYPE(QUEUE) PRINCIPAL('bob') "
        "AUTHADD(PUT,GET,DSP,INQ,BROWSE)",
    )
    with queue_manager.session() as session:
        seen(session, COMMANDS)
        executor = pymqi.PCFExecute(pymqi.connect(queue_manager.name))
        seen(session, COMMANDS)
        executor.MQCMD_CREATE_Q({CMQC.MQCA_Q_NAME: b"Q1", CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL})
        executor.MQCMD_INQUIRE_Q({CMQC.MQCA_Q_NAME: b"Q1"})
        executor.disconnect()
        [made] = seen(session, COMMANDS)
        context, data = made.content.structures
        assert made.reason == e.MQRC_COMMAND_PCF
        assert value_of(context.value, e.MQIACF_EVENT_ORIGIN) == e.MQEVO_MSG
        assert value_of(context.value, e.MQIACF_COMMAND) == k.MQCMD_CREATE_Q
        assert value_of(data.value, c.MQCA_Q_NAME) == "Q1"
        connection = pymqi.connect(queue_manager.name, user="bob")
        refused = pymqi.PCFExecute(connection)
        with pytest.raises(pymqi.MQMIError) as raised:
            refused.MQCMD_DELETE_Q({CMQC.MQCA_Q_NAME: b"Q1"})
        assert raised.value.reason == CMQC.MQRC_NOT_AUTHORIZED
        refused.disconnect()
        [event] = [
            each
            for each in seen(session, MANAGER)
            if each.value(e.MQIACF_REASON_QUALIFIER) == e.MQRQ_CMD_NOT_AUTHORIZED
        ]
        assert event.value(e.MQIACF_COMMAND) == k.MQCMD_DELETE_Q
        assert event.value(k.MQCACF_USER_IDENTIFIER) == "bob"
