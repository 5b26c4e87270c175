"""What verbs give back in OD, PMO and GMO: where a name led to, and how many destinations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC

Fails = Callable[..., pymqi.MQMIError]

MODEL = b"SYSTEM.DEFAULT.MODEL.QUEUE"
REMOTE = """DEFINE QLOCAL(QM2) USAGE(XMITQ)
DEFINE QREMOTE(R1) RNAME(THERE) RQMNAME(QM2)"""


def padded(name: str) -> bytes:
    return name.encode().ljust(48)


def counts(structure: pymqi.MQOpts) -> tuple[int, int, int]:
    return structure.KnownDestCount, structure.UnknownDestCount, structure.InvalidDestCount


@pytest.mark.parametrize("name", ["Q1", "A1"])
def test_C2_an_OD_says_what_was_opened_as_far_as_its_version_goes(
    queue_manager: QueueManager, connection: pymqi.QueueManager, name: str
) -> None:
    """Version 2 has the counts, 3 the names, 4 the type; an older one is left as it was."""
    queue_manager.mqsc("DEFINE QALIAS(A1) TARGET(Q1)")
    for version in range(1, 5):
        od, before = pymqi.OD(Version=version, ObjectName=name), pymqi.OD()
        pymqi.Queue(connection, od, CMQC.MQOO_OUTPUT).close()
        assert od.ObjectName == name.encode()
        assert counts(od) == ((1, 0, 0) if version >= 2 else (0, 0, 0))
        names = od.ResolvedQName, od.ResolvedQMgrName
        assert names == ((padded("Q1"), padded("QM1")) if version >= 3 else (b"", b""))
        expected = CMQC.MQOT_Q if version == 4 else before.ResolvedType
        assert od.ResolvedType == expected


def test_C2_an_OD_of_a_dynamic_queue_says_its_name(connection: pymqi.QueueManager) -> None:
    od = pymqi.OD(Version=4, ObjectName=MODEL, DynamicQName=b"MINE.*")
    queue = pymqi.Queue(connection, od, CMQC.MQOO_INPUT_EXCLUSIVE)
    assert od.ObjectName.startswith(b"MINE.")
    assert (od.ResolvedQName, od.ResolvedQMgrName) == (od.ObjectName, padded("QM1"))
    assert (od.ObjectQMgrName, counts(od)) == (padded("QM1"), (1, 0, 0))
    queue.close()


def test_C2_an_OD_of_a_remote_queue_names_the_queue_there(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    queue_manager.mqsc(REMOTE)
    od = pymqi.OD(Version=4, ObjectName=b"R1")
    pymqi.Queue(connection, od, CMQC.MQOO_OUTPUT)
    assert (od.ResolvedQName, od.ResolvedQMgrName) == (padded("THERE"), padded("QM2"))
    assert counts(od) == (0, 1, 0)


@pytest.mark.parametrize(
    ("name", "resolved", "counted"),
    [
        ("Q1", (padded("Q1"), padded("QM1")), (1, 0, 0)),
        ("A1", (padded("Q1"), padded("QM1")), (1, 0, 0)),
        ("R1", (padded("THERE"), padded("QM2")), (0, 1, 0)),
    ],
)
@pytest.mark.parametrize("by", ["put", "put1"])
def test_C2_a_put_says_where_the_message_went(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    name: str,
    resolved: tuple[bytes, bytes],
    counted: tuple[int, int, int],
    by: str,
) -> None:
    queue_manager.mqsc(f"DEFINE QALIAS(A1) TARGET(Q1)\n{REMOTE}")
    pmo = pymqi.PMO(KnownDestCount=7, UnknownDestCount=7, InvalidDestCount=7)
    if by == "put":
        pymqi.Queue(connection, name).put(b"x", pymqi.MD(), pmo)
    else:
        connection.put1(name, b"x", pymqi.MD(), pmo)
    assert (pmo.ResolvedQName, pmo.ResolvedQMgrName) == resolved
    assert counts(pmo) == counted


def test_a_put_that_fails_leaves_the_PMO_alone(queue: pymqi.Queue, fails: Fails) -> None:
    """As in pymqi, which gives nothing back with an error."""
    pmo = pymqi.PMO()
    before = pmo.get()
    fails(queue.put, b"x", pymqi.MD(MsgType=0), pmo)
    assert pmo.get() == before


def test_a_publication_goes_to_no_queue_of_its_own(connection: pymqi.QueueManager) -> None:
    pmo = pymqi.PMO()
    topic = pymqi.Topic(connection, topic_string="news", open_opts=CMQC.MQOO_OUTPUT)
    topic.pub(b"x", pymqi.MD(), pmo)
    assert (pmo.ResolvedQName, counts(pmo)) == (b" " * 48, (0, 0, 0))


def test_a_get_names_the_queue_that_the_alias_leads_to(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue
) -> None:
    queue_manager.mqsc("DEFINE QALIAS(A1) TARGET(Q1)")
    reader = pymqi.Queue(connection, "A1", CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_BROWSE)
    queue.put(b"x")
    for options in (CMQC.MQGMO_BROWSE_FIRST, CMQC.MQGMO_NO_SYNCPOINT):
        gmo = pymqi.GMO(Options=options)
        assert reader.get(None, pymqi.MD(), gmo) == b"x"
        assert gmo.ResolvedQName == padded("Q1")


@pytest.mark.parametrize("records", [1, -1])
def test_distribution_lists_are_refused_with_2154(
    connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails, records: int
) -> None:
    """From version 2 on, which has RecsPresent; what MQIA_DIST_LISTS says as well."""
    od = pymqi.OD(Version=2, ObjectName=b"Q1", RecsPresent=records)
    assert fails(pymqi.Queue, connection, od, CMQC.MQOO_OUTPUT).reason == 2154
    assert fails(connection.put1, od, b"x").reason == 2154
    process = pymqi.OD(Version=2, ObjectType=CMQC.MQOT_Q_MGR, RecsPresent=records)
    assert fails(pymqi.Queue, connection, process, CMQC.MQOO_INQUIRE).reason == 2154
    pmo = pymqi.PMO(Version=2, RecsPresent=records)
    assert fails(queue.put, b"x", pymqi.MD(), pmo).reason == 2154
    assert connection.inquire(CMQC.MQIA_DIST_LISTS) == CMQC.MQDL_NOT_SUPPORTED
    asking = pymqi.Queue(connection, "Q1")
    assert asking.inquire(CMQC.MQIA_CURRENT_Q_DEPTH) == 0
    assert asking.inquire(CMQC.MQIA_DIST_LISTS) == CMQC.MQDL_NOT_SUPPORTED
    od.Version = pmo.Version = 1
    pymqi.Queue(connection, od, CMQC.MQOO_OUTPUT).put(b"x", pymqi.MD(), pmo)


@pytest.mark.parametrize(
    ("options", "new_msg_id", "new_correl_id"),
    [
        (0, False, False),
        (CMQC.MQPMO_NEW_MSG_ID, True, False),
        (CMQC.MQPMO_NEW_CORREL_ID, False, True),
        (CMQC.MQPMO_NEW_MSG_ID | CMQC.MQPMO_NEW_CORREL_ID, True, True),
    ],
)
def test_P05_the_ids_returned_are_those_of_the_message(
    queue: pymqi.Queue, options: int, new_msg_id: bool, new_correl_id: bool
) -> None:
    given = {"MsgId": b"m".ljust(24, b"\0"), "CorrelId": b"c".ljust(24, b"\0")}
    md, got = pymqi.MD(**given), pymqi.MD()
    queue.put(b"x", md, pymqi.PMO(Options=options))
    queue.get(None, got)
    assert (got.MsgId, got.CorrelId) == (md.MsgId, md.CorrelId)
    assert (md.MsgId != given["MsgId"]) is new_msg_id
    assert (md.CorrelId != given["CorrelId"]) is new_correl_id
    assert bytes(24) not in (md.MsgId, md.CorrelId)
    assert (md.MsgId[:4] == b"AMQ ") is new_msg_id
