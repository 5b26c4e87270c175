"""How a name finds its queue manager; connections and queues that open, close and let go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly import QueueManager, pymqi
from mayfly.client.connection import Administration
from mayfly.pymqi import CMQC
from mayfly.queue_manager import managers_here as open_managers

Fails = Callable[..., pymqi.MQMIError]


@pytest.mark.in_process
@pytest.mark.parametrize("name", ["QM1", b"QM1", b"QM1".ljust(48), "", b"QM1\0\0"], ids=repr)
def test_connect_finds_the_open_queue_manager(
    queue_manager: QueueManager, name: str | bytes
) -> None:
    connection = pymqi.connect(name)
    assert connection.get_name() == "QM1"
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    assert Administration(connection.connection().call).curdepth("Q1") == 0
    assert connection.is_connected
    connection.disconnect()
    assert not connection.is_connected


def test_what_a_cd_without_a_channel_says_changes_nothing(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    connection = pymqi.QueueManager(None)
    connection.connectWithOptions(
        "QM1", pymqi.cd(), pymqi.sco(), opts=CMQC.MQCNO_HANDLE_SHARE_BLOCK, user="eve"
    )
    md = pymqi.MD()
    connection.put1("Q1", b"x", md)
    assert md.UserIdentifier == b"eve".ljust(12)


def test_connect_refuses_half_a_channel_and_unknown_options(queue_manager: QueueManager) -> None:
    with pytest.raises(TypeError, match="go together"):
        pymqi.connect("QM1", "CHANNEL")
    with pytest.raises(TypeError, match="colour"):
        pymqi.QueueManager(None).connect_with_options("QM1", colour="red")


@pytest.mark.parametrize("name", ["NONE", "..", ".", "A/B", "Ä", "X" * 60], ids=repr)
def test_unknown_queue_manager_is_2058(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: Fails, name: str
) -> None:
    (tmp_path / "A" / "B").mkdir(parents=True)
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    error = fails(pymqi.connect, name)
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_Q_MGR_NAME_ERROR)
    monkeypatch.delenv("MAYFLY_HOME")
    assert fails(pymqi.connect, name).reason == CMQC.MQRC_Q_MGR_NAME_ERROR


def test_blank_name_is_ambiguous_with_two_queue_managers(fails: Fails) -> None:
    with QueueManager("QA"), QueueManager("QB"):
        assert fails(pymqi.connect, "").reason == CMQC.MQRC_Q_MGR_NAME_ERROR


def test_a_folder_that_no_server_has_open_is_2059(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: Fails
) -> None:
    """The program does not become the queue manager: its server could not start again."""
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    QueueManager("BAD", tmp_path / "BAD").close()
    error = fails(pymqi.connect, "BAD")
    assert "BAD" not in open_managers()
    assert error.reason == CMQC.MQRC_Q_MGR_NOT_AVAILABLE
    # The text is pymqi's; what to do stands below it.
    assert str(error) == "MQI Error. Comp: 2, Reason 2059: FAILED: MQRC_Q_MGR_NOT_AVAILABLE"
    [note] = error.__notes__
    assert note == (
        f"no server has {tmp_path / 'BAD'} open: start one, mayfly serve BAD, or open it yourself, "
        "mayfly.QueueManager.open('BAD')"
    )


def test_verbs_without_a_connection_are_pyif_errors(
    connection: pymqi.QueueManager, queue: pymqi.Queue
) -> None:
    connection.disconnect()
    for verb in (connection.commit, connection.backout, connection.begin, connection.disconnect):
        with pytest.raises(pymqi.PYIFError, match="not connected"):
            verb()
    for call in (queue.get, lambda: queue.put(b"x"), queue.close, lambda: queue.inquire(3)):
        with pytest.raises(pymqi.PYIFError, match="not connected"):
            call()
    with pytest.raises(pymqi.PYIFError, match="not connected"):
        connection.put1("Q1", b"x")


@pytest.mark.in_process
def test_verbs_on_a_closed_queue_manager_are_2009(fails: Fails) -> None:
    manager = QueueManager("QC")
    manager.mqsc("DEFINE QLOCAL(Q1)")
    connection = pymqi.connect("QC")
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT)
    manager.close()
    assert not connection.is_connected
    for call in (
        lambda: queue.put(b"x"),
        queue.close,
        connection.commit,
        lambda: connection.put1("Q1", b"x"),
        lambda: connection.inquire(CMQC.MQIA_COMMAND_LEVEL),
    ):
        assert fails(call).reason == CMQC.MQRC_CONNECTION_BROKEN
    connection.disconnect()


def test_begin_is_not_possible_here(connection: pymqi.QueueManager, fails: Fails) -> None:
    assert fails(connection.begin).reason == CMQC.MQRC_ENVIRONMENT_ERROR


def test_connection_that_is_lost_commits_and_lets_go(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    connection = pymqi.connect("QM1")
    queue = pymqi.Queue(connection, "Q1")
    queue.put(b"x", pymqi.MD(), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    assert queue_manager.counts("Q1").uncommitted == 1
    del queue, connection
    assert queue_manager.counts("Q1").uncommitted == 0
    assert queue_manager.curdepth("Q1") == 1


def test_first_verb_opens_the_queue_for_itself(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    writer, reader = pymqi.Queue(connection, "Q1"), pymqi.Queue(connection, b"Q1")
    assert writer.get_handle() is None
    writer.put(b"x")
    assert fails(writer.get).reason == CMQC.MQRC_NOT_OPEN_FOR_INPUT
    assert reader.get() == b"x"
    assert fails(reader.put, b"y").reason == CMQC.MQRC_NOT_OPEN_FOR_OUTPUT
    reader.close()
    with pytest.raises(pymqi.PYIFError, match="not open"):
        reader.close()


def test_queue_without_a_name_cannot_open_itself(connection: pymqi.QueueManager) -> None:
    queue = pymqi.Queue(connection)
    with pytest.raises(pymqi.PYIFError, match="not been set"):
        queue.put(b"x")
    queue.open("Q1")
    queue.put(b"x")
    with pytest.raises(pymqi.PYIFError, match="already open"):
        queue.open("Q1")
    with pytest.raises(TypeError, match="3 arguments"):
        pymqi.Queue(connection, "Q1", 1, 2)
    with pytest.raises(TypeError, match="a queue is a name or an OD"):
        pymqi.Queue(connection, 5)


def test_handle_can_be_handed_to_another_queue(connection: pymqi.QueueManager) -> None:
    one, other = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT), pymqi.Queue(connection)
    other.set_handle(one.get_handle())
    other.put(b"x")
    assert pymqi.Queue(connection, "Q1").get() == b"x"


def test_queue_that_is_lost_is_closed(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    connection = pymqi.connect("QM1")
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_EXCLUSIVE)
    reader = pymqi.Queue(connection)
    with pytest.raises(pymqi.MQMIError, match="2042"):
        reader.open("Q1", CMQC.MQOO_INPUT_SHARED)
    del queue
    pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_SHARED).close()


WRONG_OD = [
    ({"StrucId": b"MD  "}, CMQC.MQRC_OD_ERROR),
    ({"Version": 0}, CMQC.MQRC_OD_ERROR),
    ({"Version": 5}, CMQC.MQRC_OD_ERROR),
    ({"ObjectType": 99}, CMQC.MQRC_OBJECT_TYPE_ERROR),
    ({"ObjectName": b"NONE"}, CMQC.MQRC_UNKNOWN_OBJECT_NAME),
    ({"ObjectName": b""}, CMQC.MQRC_UNKNOWN_OBJECT_NAME),
    ({"ObjectQMgrName": b"QM9"}, CMQC.MQRC_UNKNOWN_REMOTE_Q_MGR),
    (
        {"ObjectName": b"SYSTEM.DEFAULT.MODEL.QUEUE", "DynamicQName": b"a b"},
        CMQC.MQRC_DYNAMIC_Q_NAME_ERROR,
    ),
]


@pytest.mark.parametrize(("fields", "reason"), WRONG_OD, ids=str)
def test_C01_wrong_object_descriptor_is_refused(
    connection: pymqi.QueueManager, fails: Fails, fields: dict[str, object], reason: int
) -> None:
    od = pymqi.OD(**{"ObjectName": b"Q1", **fields})
    error = fails(pymqi.Queue, connection, od, CMQC.MQOO_OUTPUT)
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, reason)
    assert fails(connection.put1, od, b"x").reason == reason


@pytest.mark.parametrize(
    "options", [0, CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_INPUT_EXCLUSIVE, 1 << 30]
)
def test_C01_wrong_open_options_are_2046(
    connection: pymqi.QueueManager, fails: Fails, options: int
) -> None:
    error = fails(pymqi.Queue, connection, "Q1", options)
    assert error.reason == CMQC.MQRC_OPTIONS_ERROR


def test_C02_own_name_and_version_3_say_what_was_opened(connection: pymqi.QueueManager) -> None:
    od = pymqi.OD(Version=3, ObjectName="Q1", ObjectQMgrName="QM1")
    pymqi.Queue(connection, od, CMQC.MQOO_OUTPUT)
    assert (od.ResolvedQName, od.ResolvedQMgrName) == (b"Q1".ljust(48), b"QM1".ljust(48))


def test_C09_model_queue_makes_a_dynamic_queue_and_says_its_name(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    od = pymqi.OD(ObjectName=b"SYSTEM.DEFAULT.MODEL.QUEUE", DynamicQName=b"MY.REPLY.*")
    queue = pymqi.Queue(connection, od, CMQC.MQOO_INPUT_EXCLUSIVE)
    name = od.ObjectName.strip()
    assert name.startswith(b"MY.REPLY.")
    assert len(od.ObjectName) == 48
    connection.put1(name, b"answer")
    assert queue.get() == b"answer"
    queue.close()
    assert fails(connection.put1, name, b"x").reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME
