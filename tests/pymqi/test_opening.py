"""MQOPEN and MQCLOSE through pymqi: who shares a queue, limits, and queues made from a model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

Fails = Callable[..., pymqi.MQMIError]

MODEL = b"SYSTEM.DEFAULT.MODEL.QUEUE"
SHARED, EXCLUSIVE = CMQC.MQOO_INPUT_SHARED, CMQC.MQOO_INPUT_EXCLUSIVE
AS_DEFINED = CMQC.MQOO_INPUT_AS_Q_DEF


@pytest.mark.parametrize(
    ("first", "second", "attributes", "is_refused"),
    [
        (SHARED, SHARED, "", False),
        (SHARED, EXCLUSIVE, "", True),
        (EXCLUSIVE, SHARED, "", True),
        (EXCLUSIVE, CMQC.MQOO_BROWSE, "", False),
        (AS_DEFINED, AS_DEFINED, "", False),
        (AS_DEFINED, SHARED, "DEFSOPT(EXCL)", True),
        (SHARED, AS_DEFINED, "DEFSOPT(EXCL)", True),
        (SHARED, SHARED, "NOSHARE", True),
    ],
)
def test_C04_2042_when_a_queue_is_open_for_input_that_does_not_go_with_it(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    fails: Fails,
    first: int,
    second: int,
    attributes: str,
    is_refused: bool,
) -> None:
    """Of the same connection, too; through an alias as well; and free again when it is closed."""
    queue_manager.mqsc(f"ALTER QLOCAL(Q1) {attributes}\nDEFINE QALIAS(A1) TARGET(Q1)")
    held = pymqi.Queue(connection, "Q1", first)
    for who in (connection, pymqi.connect("QM1")):
        for name in ("Q1", "A1"):
            if is_refused:
                error = fails(pymqi.Queue, who, name, second)
                assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_OBJECT_IN_USE)
            else:
                pymqi.Queue(who, name, second).close()
    held.close()
    pymqi.Queue(connection, "A1", second).close()


def test_C01_2017_when_MAXHANDS_are_open(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    """MQPUT1 opens a queue as well, for as long as it takes."""
    queue_manager.mqsc("ALTER QMGR MAXHANDS(2)")
    first = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT)
    second = pymqi.Queue(connection, "Q1", SHARED)
    assert fails(pymqi.Queue, connection, "Q1", SHARED).reason == CMQC.MQRC_HANDLE_NOT_AVAILABLE
    assert fails(connection.put1, "Q1", b"x").reason == CMQC.MQRC_HANDLE_NOT_AVAILABLE
    first.close()
    for _ in range(3):
        connection.put1("Q1", b"x")
    assert second.get() == b"x"


def test_G09_2024_when_MAXUMSGS_are_in_the_unit_of_work(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue_manager.mqsc("ALTER QMGR MAXUMSGS(2)")
    pmo = pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT)
    gmo = pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT)
    for _ in range(2):
        queue.put(b"x", pymqi.MD(), pmo)
    assert fails(queue.put, b"x", pymqi.MD(), pmo).reason == CMQC.MQRC_SYNCPOINT_LIMIT_REACHED
    assert fails(queue.get, None, pymqi.MD(), gmo).reason == CMQC.MQRC_SYNCPOINT_LIMIT_REACHED
    queue.put(b"outside")
    connection.commit()
    assert queue.get(None, pymqi.MD(), gmo) == b"x"
    connection.backout()
    assert queue_manager.curdepth("Q1") == 3


def test_C06_2041_when_the_alias_opened_leads_elsewhere(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q2)\nDEFINE QALIAS(A1) TARGET(Q1)")
    alias = pymqi.Queue(connection, "A1", CMQC.MQOO_OUTPUT)
    queue_manager.mqsc("ALTER QALIAS(A1) TARGET(Q2)")
    assert fails(alias.put, b"x").reason == CMQC.MQRC_OBJECT_CHANGED
    alias.close()
    connection.put1("A1", b"x")
    assert queue_manager.curdepth("Q2") == 1


@pytest.mark.parametrize("name", [b"", b"A*B", b"A" * 33 + b"*", b"no blanks"])
def test_C09_2011_for_a_wrong_name_of_a_dynamic_queue(
    connection: pymqi.QueueManager, fails: Fails, name: bytes
) -> None:
    od = pymqi.OD(ObjectName=MODEL, DynamicQName=name)
    assert fails(pymqi.Queue, connection, od, SHARED).reason == CMQC.MQRC_DYNAMIC_Q_NAME_ERROR
    assert od.ObjectName == MODEL


def test_C09_close_options_of_dynamic_queues(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    """A permanent one goes when told to and empty, or purged; others find it gone: 2052."""
    assert fails(queue.close, CMQC.MQCO_DELETE).reason == CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE
    queue_manager.mqsc("DEFINE QMODEL(M1) DEFTYPE(PERMDYN)")
    od = pymqi.OD(ObjectName=b"M1", DynamicQName=b"MINE")
    mine = pymqi.Queue(connection, od, SHARED | CMQC.MQOO_OUTPUT)
    other = pymqi.Queue(pymqi.connect("QM1"), "MINE", SHARED)
    mine.put(b"x", pymqi.MD(Persistence=CMQC.MQPER_PERSISTENT))
    assert fails(mine.close, CMQC.MQCO_DELETE).reason == CMQC.MQRC_Q_NOT_EMPTY
    mine.close(CMQC.MQCO_DELETE_PURGE)
    assert fails(other.get).reason == CMQC.MQRC_Q_DELETED
    other.close()
    assert fails(connection.put1, "MINE", b"x").reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME


@pytest.mark.parametrize(
    ("thinks_ms", "reply"), [(0, 300), (1, 300), (29_900, 1), (30_000, None), (30_001, None)]
)
def test_C09_request_and_reply_through_a_temporary_queue(
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    clock: VirtualClock,
    fails: Fails,
    thinks_ms: int,
    reply: int | None,
) -> None:
    """The server answers with the MD it got, so that the reply has what the request had left."""
    od = pymqi.OD(ObjectName=MODEL, DynamicQName=b"REPLY.*")
    replies = pymqi.Queue(connection, od, EXCLUSIVE)
    request = pymqi.MD(
        MsgType=CMQC.MQMT_REQUEST,
        ReplyToQ=od.ObjectName,
        Expiry=300,
        Persistence=CMQC.MQPER_NOT_PERSISTENT,
    )
    queue.put(b"do", request)
    server = pymqi.connect("QM1")
    work = pymqi.Queue(server, "Q1")
    clock.advance(thinks_ms)
    md = pymqi.MD()
    if reply is None:
        assert fails(work.get, None, md).reason == CMQC.MQRC_NO_MSG_AVAILABLE
        return
    assert work.get(None, md) == b"do"
    md.MsgType, md.CorrelId, md.MsgId = CMQC.MQMT_REPLY, md.MsgId, b""
    server.put1(md.ReplyToQ, b"done", md)
    got = pymqi.MD(CorrelId=request.MsgId)
    assert replies.get(None, got) == b"done"
    assert got.Expiry == reply
    late = pymqi.MD(Persistence=CMQC.MQPER_PERSISTENT)
    error = fails(server.put1, od.ObjectName, b"x", late)
    assert error.reason == CMQC.MQRC_PERSISTENT_NOT_ALLOWED
    replies.close()
    assert fails(server.put1, od.ObjectName, b"x").reason == CMQC.MQRC_UNKNOWN_OBJECT_NAME
