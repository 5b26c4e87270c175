"""MQINQ and MQSET through pymqi."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC

Fails = Callable[..., pymqi.MQMIError]

OF_QUEUE = [
    (CMQC.MQCA_Q_NAME, b"Q1".ljust(48)),
    (CMQC.MQCA_Q_DESC, b"orders".ljust(64)),
    (CMQC.MQIA_Q_TYPE, CMQC.MQQT_LOCAL),
    (CMQC.MQIA_CURRENT_Q_DEPTH, 2),
    (CMQC.MQIA_OPEN_INPUT_COUNT, 1),
    (CMQC.MQIA_OPEN_OUTPUT_COUNT, 1),
    (CMQC.MQIA_MAX_Q_DEPTH, 5_000),
    (CMQC.MQIA_MAX_MSG_LENGTH, 4_194_304),
    (CMQC.MQIA_DEFINITION_TYPE, CMQC.MQQDT_PREDEFINED),
    (CMQC.MQIA_CAP_EXPIRY, 600),
    (CMQC.MQCA_CREATION_TIME, b" " * 8),
    (CMQC.MQIA_NPM_CLASS, CMQC.MQNPM_CLASS_NORMAL),
    (CMQC.MQIA_INHIBIT_PUT, CMQC.MQQA_PUT_ALLOWED),
]
OF_MANAGER = [
    (CMQC.MQCA_Q_MGR_NAME, b"QM1".ljust(48)),
    (CMQC.MQCA_Q_MGR_DESC, b" " * 64),
    (CMQC.MQCA_VERSION, b"09040000"),
    (CMQC.MQCA_COMMAND_INPUT_Q_NAME, b"SYSTEM.ADMIN.COMMAND.QUEUE".ljust(48)),
    (CMQC.MQCA_QSG_NAME, b" " * 4),
    (CMQC.MQCA_INSTALLATION_PATH, b" " * 256),
    (CMQC.MQCA_ALTERATION_DATE, b" " * 12),
    (CMQC.MQIA_AMQP_CAPABILITY, CMQC.MQCAP_SUPPORTED),
    (CMQC.MQIA_XR_CAPABILITY, CMQC.MQCAP_NOT_SUPPORTED),
    (CMQC.MQIA_COMMAND_LEVEL, 940),
    (CMQC.MQIA_PLATFORM, CMQC.MQPL_UNIX),
    (CMQC.MQIA_CODED_CHAR_SET_ID, 1208),
    (CMQC.MQIA_MAX_PRIORITY, 9),
    (CMQC.MQIA_SYNCPOINT, CMQC.MQSP_AVAILABLE),
    (CMQC.MQIA_MAX_MSG_LENGTH, 4_194_304),
    (CMQC.MQIA_MAX_UNCOMMITTED_MSGS, 10_000),
]


@pytest.mark.parametrize(("selector", "value"), OF_QUEUE, ids=str)
def test_queue_attributes(
    queue_manager: QueueManager, queue: pymqi.Queue, selector: int, value: int | bytes
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) DESCR('orders') CAPEXPRY(600)")
    for _ in range(2):
        queue.put(b"x")
    asking = pymqi.Queue(pymqi.connect("QM1"), "Q1")
    assert asking.inquire(selector) == value


@pytest.mark.parametrize(("selector", "value"), OF_MANAGER, ids=str)
def test_queue_manager_attributes(
    connection: pymqi.QueueManager, selector: int, value: int | bytes
) -> None:
    assert connection.inquire(selector) == value


def test_alias_answers_for_itself(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE QALIAS(A1) TARGET(Q1) PUT(DISABLED)")
    alias = pymqi.Queue(connection, "A1")
    assert alias.inquire(CMQC.MQIA_Q_TYPE) == CMQC.MQQT_ALIAS
    assert alias.inquire(CMQC.MQCA_BASE_Q_NAME) == b"Q1".ljust(48)
    assert alias.inquire(CMQC.MQIA_INHIBIT_PUT) == CMQC.MQQA_PUT_INHIBITED
    for selector in (CMQC.MQIA_CURRENT_Q_DEPTH, CMQC.MQIA_MAX_Q_DEPTH):
        error = fails(alias.inquire, selector)
        assert (error.comp, error.reason) == (CMQC.MQCC_WARNING, CMQC.MQRC_SELECTOR_NOT_FOR_TYPE)


@pytest.mark.parametrize("selector", [0, -1, 1_999, 5_000, CMQC.MQIA_COMMAND_LEVEL])
def test_unknown_selector_of_a_queue_is_2067(
    connection: pymqi.QueueManager, fails: Fails, selector: int
) -> None:
    error = fails(pymqi.Queue(connection, "Q1").inquire, selector)
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_SELECTOR_ERROR)


def test_unknown_selector_of_the_queue_manager_is_2067(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    error = fails(connection.inquire, CMQC.MQIA_CURRENT_Q_DEPTH)
    assert error.reason == CMQC.MQRC_SELECTOR_ERROR


def test_C08_queue_not_open_for_inquire_or_set(queue: pymqi.Queue, fails: Fails) -> None:
    assert fails(queue.inquire, CMQC.MQCA_Q_NAME).reason == CMQC.MQRC_NOT_OPEN_FOR_INQUIRE
    error = fails(queue.set, CMQC.MQIA_INHIBIT_PUT, CMQC.MQQA_PUT_INHIBITED)
    assert error.reason == CMQC.MQRC_NOT_OPEN_FOR_SET


def test_set_inhibits_and_allows(
    connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    setter = pymqi.Queue(connection, "Q1")
    setter.set(CMQC.MQIA_INHIBIT_PUT, CMQC.MQQA_PUT_INHIBITED)
    assert fails(queue.put, b"x").reason == CMQC.MQRC_PUT_INHIBITED
    setter.set(CMQC.MQIA_INHIBIT_PUT, CMQC.MQQA_PUT_ALLOWED)
    queue.put(b"x")
    setter.set(CMQC.MQIA_INHIBIT_GET, CMQC.MQQA_GET_INHIBITED)
    assert fails(queue.get).reason == CMQC.MQRC_GET_INHIBITED


@pytest.mark.parametrize(
    ("selector", "value", "reason"),
    [
        (CMQC.MQIA_MAX_Q_DEPTH, 1, CMQC.MQRC_SELECTOR_ERROR),
        (CMQC.MQCA_Q_DESC, 1, CMQC.MQRC_SELECTOR_ERROR),
        # As in IBM MQ: MQSET knows inhibits and triggers, the limits of events are for MQSC.
        (CMQC.MQIA_Q_DEPTH_HIGH_LIMIT, 90, CMQC.MQRC_SELECTOR_ERROR),
        (CMQC.MQIA_Q_DEPTH_MAX_EVENT, 0, CMQC.MQRC_SELECTOR_ERROR),
        (CMQC.MQIA_INHIBIT_PUT, 2, CMQC.MQRC_INHIBIT_VALUE_ERROR),
        (CMQC.MQIA_INHIBIT_GET, -1, CMQC.MQRC_INHIBIT_VALUE_ERROR),
    ],
)
def test_set_of_anything_else_changes_nothing(
    connection: pymqi.QueueManager, fails: Fails, selector: int, value: int, reason: int
) -> None:
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_SET | CMQC.MQOO_INQUIRE)
    before = queue.inquire(selector)
    assert fails(queue.set, selector, value).reason == reason
    assert queue.inquire(selector) == before


def test_set_is_durable(tmp_path: Path) -> None:
    with QueueManager("QD", tmp_path / "QD") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        queue = pymqi.Queue(pymqi.connect("QD"), "Q1")
        queue.set(CMQC.MQIA_INHIBIT_GET, CMQC.MQQA_GET_INHIBITED)
    with QueueManager("QD", tmp_path / "QD"):
        queue = pymqi.Queue(pymqi.connect("QD"), "Q1")
        assert queue.inquire(CMQC.MQIA_INHIBIT_GET) == CMQC.MQQA_GET_INHIBITED


def test_closed_handle_and_deleted_queue_are_told(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_INQUIRE)
    stale = pymqi.Queue(connection)
    stale.set_handle(queue.get_handle())
    assert queue_manager.mqsc("DELETE QLOCAL(Q1)").ok
    assert fails(queue.inquire, CMQC.MQCA_Q_NAME).reason == CMQC.MQRC_Q_DELETED
    queue.close()
    assert fails(stale.inquire, CMQC.MQCA_Q_NAME).reason == CMQC.MQRC_HOBJ_ERROR


OF_PROCESS = [
    (CMQC.MQCA_PROCESS_NAME, b"JOB".ljust(48)),
    (CMQC.MQCA_PROCESS_DESC, b"nightly".ljust(64)),
    (CMQC.MQIA_APPL_TYPE, CMQC.MQAT_UNIX),
    (CMQC.MQCA_APPL_ID, b"run.sh".ljust(256)),
    (CMQC.MQCA_ENV_DATA, b"&".ljust(128)),
    (CMQC.MQCA_USER_DATA, b"fast".ljust(128)),
]
DEFINE_JOB = (
    "DEFINE PROCESS(JOB) DESCR('nightly') APPLTYPE(UNIX) APPLICID('run.sh')"
    " ENVRDATA('&') USERDATA('fast')"
)


def test_process_attributes(queue_manager: QueueManager, connection: pymqi.QueueManager) -> None:
    assert queue_manager.mqsc(DEFINE_JOB).ok
    process = pymqi.Queue(connection, pymqi.OD(ObjectType=CMQC.MQOT_PROCESS, ObjectName=b"JOB"))
    assert [process.inquire(selector) for selector, _value in OF_PROCESS] == [
        value for _selector, value in OF_PROCESS
    ]
    process.close()


def test_queue_manager_is_opened_as_an_object(connection: pymqi.QueueManager, fails: Fails) -> None:
    """As pymqi does it for QueueManager.inquire: ObjectQMgrName says which."""
    od = pymqi.OD(ObjectType=CMQC.MQOT_Q_MGR, ObjectQMgrName=b"QM1")
    manager = pymqi.Queue(connection, od, CMQC.MQOO_INQUIRE)
    for selector, value in OF_MANAGER:
        assert manager.inquire(selector) == value
    assert fails(manager.inquire, CMQC.MQIA_CURRENT_Q_DEPTH).reason == CMQC.MQRC_SELECTOR_ERROR
    od = pymqi.OD(ObjectType=CMQC.MQOT_Q_MGR, ObjectQMgrName=b"QM2")
    error = fails(pymqi.Queue, connection, od, CMQC.MQOO_INQUIRE)
    assert error.reason == CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE


def test_C08_nothing_but_inquire_works_on_a_process(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc(DEFINE_JOB)
    od = pymqi.OD(ObjectType=CMQC.MQOT_PROCESS, ObjectName=b"JOB")
    process = pymqi.Queue(connection, od, CMQC.MQOO_INQUIRE)
    assert fails(process.put, b"x").reason == CMQC.MQRC_NOT_OPEN_FOR_OUTPUT
    assert fails(process.get).reason == CMQC.MQRC_NOT_OPEN_FOR_INPUT
    assert fails(process.set, CMQC.MQIA_INHIBIT_PUT, 1).reason == CMQC.MQRC_NOT_OPEN_FOR_SET
    assert fails(process.close, CMQC.MQCO_DELETE).reason == CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE
    process.close()
    assert fails(pymqi.Queue(connection, od).put, b"x").reason == 2045
    assert fails(connection.put1, od, b"x").reason == CMQC.MQRC_OBJECT_TYPE_ERROR
    unknown = pymqi.OD(ObjectType=CMQC.MQOT_PROCESS, ObjectName=b"NONE")
    error = fails(pymqi.Queue, connection, unknown, CMQC.MQOO_INQUIRE)
    assert error.reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME


def test_C07_a_process_needs_INQ(queue_manager: QueueManager, fails: Fails) -> None:
    queue_manager.mqsc(f"{DEFINE_JOB}\nSET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)")
    od = pymqi.OD(ObjectType=CMQC.MQOT_PROCESS, ObjectName=b"JOB")
    process = pymqi.Queue(pymqi.connect("QM1", user="ann"), od)
    assert fails(process.inquire, CMQC.MQCA_APPL_ID).reason == CMQC.MQRC_NOT_AUTHORIZED
    queue_manager.mqsc("SET AUTHREC PROFILE(JOB) OBJTYPE(PROCESS) PRINCIPAL('ann') AUTHADD(INQ)")
    assert process.inquire(CMQC.MQIA_APPL_TYPE) == CMQC.MQAT_UNIX


@pytest.mark.parametrize(
    ("selector", "value", "seen"),
    [
        (CMQC.MQIA_TRIGGER_CONTROL, CMQC.MQTC_ON, CMQC.MQTC_ON),
        (CMQC.MQIA_TRIGGER_TYPE, CMQC.MQTT_EVERY, CMQC.MQTT_EVERY),
        (CMQC.MQIA_TRIGGER_DEPTH, 5, 5),
        (CMQC.MQIA_TRIGGER_MSG_PRIORITY, 3, 3),
        (CMQC.MQCA_TRIGGER_DATA, b"wake".ljust(64), b"wake".ljust(64)),
        (CMQC.MQCA_TRIGGER_DATA, "wake", b"wake".ljust(64)),
    ],
    ids=str,
)
def test_set_what_triggers(
    connection: pymqi.QueueManager, selector: int, value: int | str | bytes, seen: int | bytes
) -> None:
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_SET | CMQC.MQOO_INQUIRE)
    queue.set(selector, value)
    assert queue.inquire(selector) == seen
