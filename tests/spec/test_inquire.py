"""MQINQ and MQSET: every attribute by its selector, several at a time, and who may ask (C7, C8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Session, text_length
from mayfly.engine.api.administration import (
    PROCESS,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    SELF,
    attributes_of,
)
from mayfly.engine.api.programs import inquire, set_attributes
from mayfly.engine.attributes import EVENT_DISABLED, EVENT_ENABLED
from mayfly.engine.objects import administration
from mayfly.engine.objects.inquire import inquire_manager
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs.facts import Value
from tests.over import NewSession
from tests.spec.authority_scene import connect, grant
from tests.spec.scene import OUTPUT, alias, alter_manager, local, refused

ASK = c.MQOO_INQUIRE
JOB: dict[str, Value] = {
    "DESCR": "nightly",
    "APPLTYPE": c.MQAT_UNIX,
    "APPLICID": "run.sh",
    "ENVRDATA": "&",
    "USERDATA": "fast",
}
#: The selectors that belong to a local queue, with the values of a new one.
OF_LOCAL_QUEUE: dict[int, Value] = {
    c.MQCA_Q_NAME: "Q1",
    c.MQIA_Q_TYPE: c.MQQT_LOCAL,
    c.MQIA_DEFINITION_TYPE: c.MQQDT_PREDEFINED,
    c.MQIA_CURRENT_Q_DEPTH: 1,
    c.MQIA_OPEN_INPUT_COUNT: 0,
    c.MQIA_OPEN_OUTPUT_COUNT: 1,
    c.MQIA_MAX_Q_DEPTH: 5_000,
    c.MQIA_MAX_MSG_LENGTH: 4_194_304,
    c.MQIA_MSG_DELIVERY_SEQUENCE: c.MQMDS_PRIORITY,
    c.MQIA_DEF_PRIORITY: 0,
    c.MQIA_DEF_PERSISTENCE: c.MQPER_NOT_PERSISTENT,
    c.MQIA_INHIBIT_GET: c.MQQA_GET_ALLOWED,
    c.MQIA_INHIBIT_PUT: c.MQQA_PUT_ALLOWED,
    c.MQIA_USAGE: c.MQUS_NORMAL,
    c.MQIA_SHAREABILITY: c.MQQA_SHAREABLE,
    c.MQIA_DEF_INPUT_OPEN_OPTION: c.MQOO_INPUT_SHARED,
    c.MQIA_BACKOUT_THRESHOLD: 0,
    c.MQIA_HARDEN_GET_BACKOUT: c.MQQA_BACKOUT_HARDENED,
    c.MQIA_TRIGGER_CONTROL: c.MQTC_OFF,
    c.MQIA_TRIGGER_TYPE: c.MQTT_FIRST,
    c.MQIA_TRIGGER_DEPTH: 1,
    c.MQIA_TRIGGER_MSG_PRIORITY: 0,
    c.MQIA_CAP_EXPIRY: c.MQCEX_NOLIMIT,
    c.MQIA_Q_DEPTH_HIGH_LIMIT: 80,
    c.MQIA_Q_DEPTH_LOW_LIMIT: 20,
    c.MQIA_Q_DEPTH_MAX_EVENT: EVENT_ENABLED,
    c.MQIA_Q_DEPTH_HIGH_EVENT: EVENT_DISABLED,
    c.MQIA_Q_DEPTH_LOW_EVENT: EVENT_DISABLED,
    c.MQCA_STORAGE_CLASS: "DEFAULT",
    c.MQIA_DEF_BIND: c.MQBND_BIND_ON_OPEN,
    c.MQIA_DIST_LISTS: c.MQDL_NOT_SUPPORTED,
    c.MQCA_BACKOUT_REQ_Q_NAME: "",
    c.MQCA_INITIATION_Q_NAME: "",
    c.MQCA_PROCESS_NAME: "",
    c.MQCA_TRIGGER_DATA: "",
    c.MQCA_CUSTOM: "",
    c.MQCA_Q_DESC: "",
}
OF_MANAGER: dict[int, Value] = {
    c.MQCA_Q_MGR_NAME: "QM1",
    c.MQCA_Q_MGR_DESC: "",
    c.MQCA_DEAD_LETTER_Q_NAME: "",
    c.MQCA_DEF_XMIT_Q_NAME: "",
    c.MQIA_COMMAND_LEVEL: 940,
    c.MQIA_PLATFORM: c.MQPL_UNIX,
    c.MQIA_CODED_CHAR_SET_ID: 1208,
    c.MQIA_MAX_PRIORITY: 9,
    c.MQIA_MAX_MSG_LENGTH: 4_194_304,
    c.MQIA_MAX_HANDLES: 256,
    c.MQIA_MAX_UNCOMMITTED_MSGS: 10_000,
    c.MQIA_TRIGGER_INTERVAL: 999_999_999,
    c.MQIA_EXPIRY_INTERVAL: c.MQEXPI_OFF,
    c.MQIA_MSG_MARK_BROWSE_INTERVAL: 5_000,
    c.MQIA_SYNCPOINT: c.MQSP_AVAILABLE,
    c.MQIA_DIST_LISTS: c.MQDL_NOT_SUPPORTED,
}


@pytest.mark.in_process
def test_MQINQ_all_attributes_of_a_local_queue_in_one_call(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    session.put("Q1", b"x")
    handle = session.open("Q1", ASK | OUTPUT)
    inquiry = inquire(queue_manager.engine, handle, list(OF_LOCAL_QUEUE))
    assert dict(zip(OF_LOCAL_QUEUE, inquiry.values, strict=True)) == OF_LOCAL_QUEUE
    assert inquiry.warning == rc.MQRC_NONE


@pytest.mark.in_process
def test_MQINQ_values_stand_in_the_order_of_the_selectors(
    queue_manager: QueueManager, session: Session
) -> None:
    """Also one that is asked for twice; and none at all."""
    local(queue_manager, MAXDEPTH=7)
    handle = session.open("Q1", ASK)
    asked = [c.MQIA_MAX_Q_DEPTH, c.MQCA_Q_NAME, c.MQIA_MAX_Q_DEPTH]
    assert inquire(queue_manager.engine, handle, asked).values == [7, "Q1", 7]
    assert inquire(queue_manager.engine, handle, []).values == []
    assert inquire(queue_manager.engine, handle, [c.MQIA_MAX_Q_DEPTH] * 256).values == [7] * 256
    with refused(rc.MQRC_SELECTOR_LIMIT_EXCEEDED):
        inquire(queue_manager.engine, handle, [c.MQIA_MAX_Q_DEPTH] * 257)


@pytest.mark.in_process
def test_MQINQ_of_an_alias_what_only_others_have_is_a_warning(
    queue_manager: QueueManager, session: Session
) -> None:
    """2068: it comes with the rest; a selector that no queue has fails the call."""
    local(queue_manager)
    alias(queue_manager, "A1", "Q1", CAPEXPRY=600)
    handle = session.open("A1", ASK)
    asked = [c.MQCA_BASE_OBJECT_NAME, c.MQIA_CURRENT_Q_DEPTH, c.MQIA_CAP_EXPIRY, c.MQIA_Q_TYPE]
    inquiry = inquire(queue_manager.engine, handle, asked)
    assert inquiry.values == ["Q1", None, 600, c.MQQT_ALIAS]
    assert inquiry.warning == rc.MQRC_SELECTOR_NOT_FOR_TYPE
    with refused(rc.MQRC_SELECTOR_ERROR):
        inquire(queue_manager.engine, handle, [*asked, c.MQIA_COMMAND_LEVEL])


@pytest.mark.in_process
def test_MQINQ_of_a_remote_queue_its_definition_here_answers(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, "QM2", USAGE=c.MQUS_TRANSMISSION)
    there: dict[str, Value] = {"RNAME": "THERE", "RQMNAME": "QM2", "CAPEXPRY": 60}
    administration.define(queue_manager.engine, QREMOTE, "R1", there)
    handle = session.open("R1", ASK | c.MQOO_SET)
    asked = [
        c.MQIA_Q_TYPE,
        c.MQCA_REMOTE_Q_NAME,
        c.MQCA_REMOTE_Q_MGR_NAME,
        c.MQCA_XMIT_Q_NAME,
        c.MQIA_CAP_EXPIRY,
        c.MQIA_INHIBIT_GET,
    ]
    inquiry = inquire(queue_manager.engine, handle, asked)
    assert inquiry.values == [c.MQQT_REMOTE, "THERE", "QM2", "", 60, None]
    set_attributes(queue_manager.engine, handle, {c.MQIA_INHIBIT_PUT: c.MQQA_PUT_INHIBITED})
    with refused(rc.MQRC_PUT_INHIBITED):
        session.put("R1", b"x")
    with refused(rc.MQRC_SELECTOR_ERROR):
        set_attributes(queue_manager.engine, handle, {c.MQIA_INHIBIT_GET: c.MQQA_GET_INHIBITED})


@pytest.mark.in_process
def test_MQINQ_every_attribute_with_a_selector_can_be_asked_for(
    queue_manager: QueueManager, session: Session
) -> None:
    """The attribute tables themselves: nothing that has a selector is left out."""
    local(queue_manager, "QM2", USAGE=c.MQUS_TRANSMISSION)
    alias(queue_manager, QALIAS, "QM2")
    local(queue_manager, QLOCAL)
    administration.define(queue_manager.engine, QREMOTE, QREMOTE, {"RNAME": "X", "RQMNAME": "QM2"})
    for kind in (QLOCAL, QALIAS, QREMOTE):
        handle = session.open(kind, ASK)
        definition = queue_manager.engine.registry.find(kind)
        assert definition is not None
        for attribute in attributes_of(kind).values():
            if attribute.selector is not None:
                (value,) = inquire(queue_manager.engine, handle, [attribute.selector]).values
                assert value == definition.attributes[attribute.keyword]
    assert set(QUEUE_KINDS) - {QLOCAL, QALIAS, QREMOTE} == {QMODEL}


@pytest.mark.in_process
def test_MQINQ_of_the_queue_manager_through_a_handle_and_without(
    queue_manager: QueueManager, session: Session
) -> None:
    for name in ("", "QM1"):
        handle = session.open_definition(QMGR, name, ASK)
        inquiry = inquire(queue_manager.engine, handle, list(OF_MANAGER))
        assert dict(zip(OF_MANAGER, inquiry.values, strict=True)) == OF_MANAGER
        handle.close()
        with refused(rc.MQRC_HOBJ_ERROR):
            inquire(queue_manager.engine, handle, [c.MQIA_PLATFORM])
        with refused(rc.MQRC_HOBJ_ERROR):
            handle.close()
    assert inquire_manager(queue_manager.engine, list(OF_MANAGER)) == list(OF_MANAGER.values())
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.open_definition(QMGR, "QM2", ASK)


@pytest.mark.in_process
def test_MQINQ_of_a_process(queue_manager: QueueManager, session: Session) -> None:
    administration.define_named(queue_manager.engine, PROCESS, "JOB", JOB)
    handle = session.open_definition(PROCESS, "JOB", ASK)
    asked = {
        c.MQCA_PROCESS_NAME: "JOB",
        c.MQCA_PROCESS_DESC: "nightly",
        c.MQIA_APPL_TYPE: c.MQAT_UNIX,
        c.MQCA_APPL_ID: "run.sh",
        c.MQCA_ENV_DATA: "&",
        c.MQCA_USER_DATA: "fast",
    }
    assert inquire(queue_manager.engine, handle, list(asked)).values == list(asked.values())
    administration.alter_named(queue_manager.engine, PROCESS, "JOB", {"USERDATA": "slow"})
    assert inquire(queue_manager.engine, handle, [c.MQCA_USER_DATA]).values == ["slow"]
    for selector in (c.MQCA_Q_NAME, c.MQIA_CURRENT_Q_DEPTH, 0):
        with refused(rc.MQRC_SELECTOR_ERROR):
            inquire(queue_manager.engine, handle, [c.MQCA_PROCESS_NAME, selector])
    administration.delete_named(queue_manager.engine, PROCESS, "JOB")
    with refused(rc.MQRC_OBJECT_CHANGED):
        inquire(queue_manager.engine, handle, [c.MQCA_USER_DATA])
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.open_definition(PROCESS, "JOB", ASK)


@pytest.mark.in_process
@pytest.mark.parametrize("kind", [PROCESS, QMGR])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (0, rc.MQRC_OPTIONS_ERROR),
        (1 << 30, rc.MQRC_OPTIONS_ERROR),
        (OUTPUT, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE),
        (ASK | c.MQOO_SET, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE),
        (ASK | c.MQOO_BROWSE, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE),
        (c.MQOO_FAIL_IF_QUIESCING, rc.MQRC_OPTION_NOT_VALID_FOR_TYPE),
    ],
)
def test_C8_a_process_and_the_queue_manager_can_only_be_inquired_about(
    queue_manager: QueueManager, session: Session, kind: str, options: int, reason: int
) -> None:
    administration.define_named(queue_manager.engine, PROCESS, "JOB", JOB)
    name = "JOB" if kind == PROCESS else ""
    with refused(reason):
        session.open_definition(kind, name, options)
    handle = session.open_definition(kind, name, ASK | c.MQOO_FAIL_IF_QUIESCING)
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        handle.close(c.MQCO_DELETE)
    handle.close()


@pytest.mark.in_process
def test_C8_handles_of_processes_count_and_end_with_their_session(
    queue_manager: QueueManager,
    new_session: NewSession,
) -> None:
    administration.define_named(queue_manager.engine, PROCESS, "JOB", JOB)
    alter_manager(queue_manager, MAXHANDS=2)
    with new_session(queue_manager) as session:
        first = session.open_definition(PROCESS, "JOB", ASK)
        second = session.open_definition(QMGR, "", ASK)
        with refused(rc.MQRC_HANDLE_NOT_AVAILABLE):
            session.open_definition(PROCESS, "JOB", ASK)
        first.close()
        session.open_definition(PROCESS, "JOB", ASK)
    assert not second.is_open


def test_C7_inquiring_needs_INQ_on_the_object(queue_manager: QueueManager) -> None:
    administration.define_named(queue_manager.engine, PROCESS, "JOB", JOB)
    with connect(queue_manager) as session:
        for kind, name, profile in ((PROCESS, "JOB", "JOB"), (QMGR, "", SELF)):
            with refused(rc.MQRC_NOT_AUTHORIZED):
                session.open_definition(kind, name, ASK)
            grant(queue_manager, "INQ", profile, kind=kind)
            session.open_definition(kind, name, ASK)
        with refused(rc.MQRC_NOT_AUTHORIZED):
            session.open_definition(
                PROCESS, "JOB", ASK | c.MQOO_ALTERNATE_USER_AUTHORITY, alternate_user="bob"
            )


ALL_SETTABLE: dict[int, tuple[str, Value]] = {
    c.MQIA_INHIBIT_PUT: ("PUT", c.MQQA_PUT_INHIBITED),
    c.MQIA_INHIBIT_GET: ("GET", c.MQQA_GET_INHIBITED),
    c.MQIA_TRIGGER_CONTROL: ("TRIGGER", c.MQTC_ON),
    c.MQIA_TRIGGER_TYPE: ("TRIGTYPE", c.MQTT_DEPTH),
    c.MQIA_TRIGGER_DEPTH: ("TRIGDPTH", 5),
    c.MQIA_TRIGGER_MSG_PRIORITY: ("TRIGMPRI", 9),
    c.MQCA_TRIGGER_DATA: ("TRIGDATA", "x" * 64),
}


@pytest.mark.in_process
def test_MQSET_everything_that_can_be_set_in_one_call_and_durably(
    tmp_path: Path, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path) as manager, new_session(manager) as session:
        local(manager)
        handle = session.open("Q1", c.MQOO_SET)
        set_attributes(
            manager.engine, handle, {n: value for n, (_key, value) in ALL_SETTABLE.items()}
        )
    with QueueManager("QM1", tmp_path) as manager, new_session(manager) as session:
        values = inquire(manager.engine, session.open("Q1", ASK), list(ALL_SETTABLE)).values
        assert values == [value for _key, value in ALL_SETTABLE.values()]


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("selector", "value", "reason"),
    [
        (c.MQIA_INHIBIT_PUT, 2, rc.MQRC_INHIBIT_VALUE_ERROR),
        (c.MQIA_INHIBIT_GET, -1, rc.MQRC_INHIBIT_VALUE_ERROR),
        (c.MQIA_TRIGGER_CONTROL, 2, rc.MQRC_TRIGGER_CONTROL_ERROR),
        (c.MQIA_TRIGGER_TYPE, 4, rc.MQRC_TRIGGER_TYPE_ERROR),
        (c.MQIA_TRIGGER_DEPTH, 0, rc.MQRC_TRIGGER_DEPTH_ERROR),
        (c.MQIA_TRIGGER_MSG_PRIORITY, 10, rc.MQRC_TRIGGER_MSG_PRIORITY_ERR),
        (c.MQCA_TRIGGER_DATA, "x" * 65, rc.MQRC_CHAR_ATTR_LENGTH_ERROR),
        (c.MQIA_MAX_Q_DEPTH, 1, rc.MQRC_SELECTOR_ERROR),
        (c.MQCA_PROCESS_NAME, "JOB", rc.MQRC_SELECTOR_ERROR),
        (c.MQIA_DIST_LISTS, 0, rc.MQRC_SELECTOR_ERROR),
        (0, 0, rc.MQRC_SELECTOR_ERROR),
    ],
)
def test_MQSET_a_wrong_value_changes_nothing_of_the_call(
    queue_manager: QueueManager, session: Session, selector: int, value: Value, reason: int
) -> None:
    local(queue_manager)
    handle = session.open("Q1", c.MQOO_SET)
    others = {c.MQIA_TRIGGER_DEPTH: 3, c.MQIA_INHIBIT_PUT: c.MQQA_PUT_INHIBITED}
    with refused(reason):
        set_attributes(queue_manager.engine, handle, {**others, selector: value})
    definition = queue_manager.engine.registry.find("Q1")
    assert definition is not None
    assert (definition.trigdpth, definition.put) == (1, c.MQQA_PUT_ALLOWED)


@pytest.mark.in_process
def test_MQSET_a_text_is_as_long_as_its_bytes_in_UTF_8(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    handle = session.open("Q1", c.MQOO_SET | ASK)
    set_attributes(queue_manager.engine, handle, {c.MQCA_TRIGGER_DATA: "ä" * 32})
    with refused(rc.MQRC_CHAR_ATTR_LENGTH_ERROR):
        set_attributes(queue_manager.engine, handle, {c.MQCA_TRIGGER_DATA: "ä" * 32 + "x"})
    assert inquire(queue_manager.engine, handle, [c.MQCA_TRIGGER_DATA]).values == ["ä" * 32]
    assert text_length(c.MQCA_TRIGGER_DATA) == 64


@pytest.mark.in_process
def test_MQSET_text_and_numbers_are_not_the_same(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    handle = session.open("Q1", c.MQOO_SET)
    with pytest.raises(TypeError, match="TRIGDATA takes text, not 1"):
        set_attributes(queue_manager.engine, handle, {c.MQCA_TRIGGER_DATA: 1})
    with pytest.raises(TypeError, match="PUT takes a number, not '1'"):
        set_attributes(queue_manager.engine, handle, {c.MQIA_INHIBIT_PUT: "1"})


@pytest.mark.in_process
def test_MQSET_on_an_alias_sets_the_alias(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    alias(queue_manager, "A1", "Q1")
    handle = session.open("A1", c.MQOO_SET)
    set_attributes(queue_manager.engine, handle, {c.MQIA_INHIBIT_GET: c.MQQA_GET_INHIBITED})
    with refused(rc.MQRC_GET_INHIBITED):
        session.get("A1")
    assert session.get("Q1") is None
    with refused(rc.MQRC_SELECTOR_ERROR):
        set_attributes(queue_manager.engine, handle, {c.MQIA_TRIGGER_CONTROL: c.MQTC_ON})
