"""MQPMO_ASYNC_RESPONSE, rule P13, and QueueManager.stat, which ibmmq has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC

Fails = Callable[..., pymqi.MQMIError]

ASYNC = CMQC.MQPMO_ASYNC_RESPONSE
ASYNC_ERROR = CMQC.MQSTAT_TYPE_ASYNC_ERROR


def test_P13_what_an_asynchronous_put_meets_is_told_by_stat(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue
) -> None:
    """MD and PMO of the put that has failed stay as they are."""
    queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(1)\nDEFINE QALIAS(A1) TARGET(Q1)")
    alias = pymqi.Queue(connection, "A1")
    alias.put(b"x", pymqi.MD(Priority=11), pymqi.PMO(Options=ASYNC))
    md, pmo = pymqi.MD(), pymqi.PMO(Options=ASYNC)
    before = md.get(), pmo.get()
    alias.put(b"y", md, pmo)
    assert (md.get(), pmo.get()) == before
    assert queue_manager.curdepth("Q1") == 1
    sts = connection.stat(ASYNC_ERROR)
    assert (sts.StrucId, sts.Version) == (b"STAT", 2)
    assert (sts.CompCode, sts.Reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_Q_FULL)
    assert (sts.PutSuccessCount, sts.PutWarningCount, sts.PutFailureCount) == (0, 1, 1)
    assert (sts.ObjectType, sts.ObjectName) == (CMQC.MQOT_ALIAS_Q, b"A1".ljust(48))
    assert sts.ObjectQMgrName == sts.ResolvedQMgrName == b"QM1".ljust(48)
    assert sts.ResolvedObjectName == b"Q1".ljust(48)


def test_P13_a_status_is_told_once_and_empty_then(
    connection: pymqi.QueueManager, queue: pymqi.Queue
) -> None:
    queue.put(b"x", pymqi.MD(), pymqi.PMO(Options=ASYNC))
    assert connection.stat(ASYNC_ERROR).PutSuccessCount == 1
    sts = connection.stat(ASYNC_ERROR)
    assert (sts.CompCode, sts.Reason, sts.PutSuccessCount) == (0, 0, 0)
    assert (sts.ObjectType, sts.ObjectName) == (CMQC.MQOT_NONE, b" " * 48)


def test_P13_put1_fails_silently_as_well_but_its_open_does_not(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    pmo = pymqi.PMO(Options=ASYNC)
    connection.put1("Q1", b"x", pymqi.MD(), pmo)
    assert fails(connection.put1, "NONE", b"x", pymqi.MD(), pmo).reason == 2085
    sts = connection.stat(ASYNC_ERROR)
    assert (sts.Reason, sts.PutFailureCount) == (CMQC.MQRC_PUT_INHIBITED, 1)


@pytest.mark.parametrize(
    ("persistence", "options", "is_silent"),
    [
        (CMQC.MQPER_NOT_PERSISTENT, ASYNC, True),
        (CMQC.MQPER_PERSISTENCE_AS_Q_DEF, ASYNC, True),
        (CMQC.MQPER_PERSISTENT, ASYNC, False),
        (CMQC.MQPER_PERSISTENT, ASYNC | CMQC.MQPMO_SYNCPOINT, True),
        (CMQC.MQPER_NOT_PERSISTENT, CMQC.MQPMO_SYNC_RESPONSE, False),
        (CMQC.MQPER_NOT_PERSISTENT, CMQC.MQPMO_RESPONSE_AS_Q_DEF, False),
    ],
)
def test_P13_which_puts_are_asynchronous(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    fails: Fails,
    persistence: int,
    options: int,
    is_silent: bool,
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    arguments = b"x", pymqi.MD(Persistence=persistence), pymqi.PMO(Options=options)
    if is_silent:
        queue.put(*arguments)
    else:
        assert fails(queue.put, *arguments).reason == CMQC.MQRC_PUT_INHIBITED
    assert connection.stat(ASYNC_ERROR).PutFailureCount == int(is_silent)
    connection.backout()


def test_P13_a_unit_of_work_without_one_of_its_messages_is_2003(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(1)")
    for end in (connection.commit, connection.disconnect):
        for _ in range(2):
            queue.put(b"x", pymqi.MD(), pymqi.PMO(Options=ASYNC | CMQC.MQPMO_SYNCPOINT))
        assert fails(end).reason == CMQC.MQRC_BACKED_OUT
        assert queue_manager.curdepth("Q1") == 0


def test_P13_a_publication_is_told_of_at_once(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    queue_manager.mqsc("DEFINE TOPIC(T1) TOPICSTR('news') PUB(DISABLED)")
    topic = pymqi.Topic(connection, topic_string="news", open_opts=CMQC.MQOO_OUTPUT)
    with pytest.raises(pymqi.MQMIError, match="2051"):
        topic.pub(b"x", pymqi.MD(), pymqi.PMO(Options=ASYNC))
    assert connection.stat(ASYNC_ERROR).PutFailureCount == 0


@pytest.mark.parametrize(
    ("status_type", "reason"),
    [
        (CMQC.MQSTAT_TYPE_RECONNECTION, CMQC.MQRC_ENVIRONMENT_ERROR),
        (CMQC.MQSTAT_TYPE_RECONNECTION_ERROR, CMQC.MQRC_ENVIRONMENT_ERROR),
        (3, CMQC.MQRC_STAT_TYPE_ERROR),
        (-1, CMQC.MQRC_STAT_TYPE_ERROR),
    ],
)
def test_stat_of_other_types_is_refused(
    connection: pymqi.QueueManager, fails: Fails, status_type: int, reason: int
) -> None:
    assert fails(connection.stat, status_type).reason == reason
    connection.disconnect()
    with pytest.raises(pymqi.PYIFError):
        connection.stat(ASYNC_ERROR)


def test_P13_a_queue_with_defpresp_async_has_the_option_by_default(
    queue_manager: QueueManager, connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(1) DEFPRESP(ASYNC)")
    opened = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT)
    for _ in range(3):
        opened.put(b"x")
    sts = connection.stat(ASYNC_ERROR)
    assert (sts.Reason, sts.PutSuccessCount, sts.PutFailureCount) == (CMQC.MQRC_Q_FULL, 1, 2)
    pmo = pymqi.PMO(Options=CMQC.MQPMO_SYNC_RESPONSE)
    assert fails(opened.put, b"x", pymqi.MD(), pmo).reason == CMQC.MQRC_Q_FULL
