"""MD.Expiry, in tenths, through pymqi: refused values, the last millisecond, what a getter sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

Fails = Callable[..., pymqi.MQMIError]
MAXIMUM = 999_999_999
LARGEST = 2**31 - 1
NO_MSG = CMQC.MQRC_NO_MSG_AVAILABLE


@contextmanager
def queue_with(settings: dict[str, str]) -> Iterator[tuple[QueueManager, pymqi.Queue]]:
    """Q1 of a queue manager with these settings."""
    with QueueManager("QMX", clock=VirtualClock(), settings=settings) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        options = CMQC.MQOO_OUTPUT | CMQC.MQOO_INPUT_SHARED
        yield manager, pymqi.Queue(pymqi.connect("QMX"), "Q1", options)


def test_E01_expiry_is_in_tenths_and_unlimited_at_first(queue: pymqi.Queue) -> None:
    got = pymqi.MD(Expiry=5)
    queue.put(b"x")
    queue.get(None, got)
    assert got.Expiry == CMQC.MQEI_UNLIMITED


@pytest.mark.parametrize("expiry", [0, -2, -(2**31)])
def test_E02_zero_and_negative_expiry_fail_the_put_without_a_report(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails, expiry: int
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(REPLIES)")
    md = pymqi.MD(Expiry=expiry, Report=CMQC.MQRO_EXPIRATION, ReplyToQ=b"REPLIES")
    error = fails(queue.put, b"x", md)
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_EXPIRY_ERROR)
    assert queue_manager.curdepth("Q1") == 0
    assert queue_manager.curdepth("REPLIES") == 0
    assert md.MsgId == b""


@pytest.mark.parametrize("expiry", [1, MAXIMUM, MAXIMUM + 1, LARGEST, CMQC.MQEI_UNLIMITED])
def test_E03_any_positive_expiry_is_taken_while_the_variable_is_not_set(
    queue: pymqi.Queue, expiry: int
) -> None:
    queue.put(b"x", pymqi.MD(Expiry=expiry))
    got = pymqi.MD()
    queue.get(None, got)
    assert got.Expiry == expiry


@pytest.mark.parametrize("value", ["1", "False", ""])
def test_E03_the_variable_enforces_the_maximum_whatever_its_value(
    monkeypatch: pytest.MonkeyPatch, fails: Fails, value: str
) -> None:
    monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", value)
    with queue_with({}) as (manager, queue):
        error = fails(queue.put, b"x", pymqi.MD(Expiry=MAXIMUM + 1))
        assert error.reason == CMQC.MQRC_EXPIRY_ERROR
        assert manager.curdepth("Q1") == 0
        queue.put(b"x", pymqi.MD(Expiry=MAXIMUM))
        assert manager.curdepth("Q1") == 1


def test_K01_maximum_check_can_be_always_or_never(
    monkeypatch: pytest.MonkeyPatch, fails: Fails
) -> None:
    with queue_with({"expiry.max_check": "always"}) as (_manager, queue):
        error = fails(queue.put, b"x", pymqi.MD(Expiry=MAXIMUM + 1))
        assert error.reason == CMQC.MQRC_EXPIRY_ERROR
    monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", "1")
    with queue_with({"expiry.max_check": "never"}) as (_manager, queue):
        queue.put(b"x", pymqi.MD(Expiry=MAXIMUM + 1))
        assert queue.get() == b"x"


def test_K02_zero_accepted_has_elapsed_at_once(fails: Fails) -> None:
    with queue_with({"expiry.zero_check": "env"}) as (manager, queue):
        queue.put(b"x", pymqi.MD(Expiry=0))
        assert manager.curdepth("Q1") == 1
        assert fails(queue.get).reason == NO_MSG
        assert manager.curdepth("Q1") == 0
        assert fails(queue.put, b"x", pymqi.MD(Expiry=-2)).reason == CMQC.MQRC_EXPIRY_ERROR


def test_K02_the_variable_makes_zero_fail_again(
    monkeypatch: pytest.MonkeyPatch, fails: Fails
) -> None:
    monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", "")
    with queue_with({"expiry.zero_check": "env"}) as (_manager, queue):
        assert fails(queue.put, b"x", pymqi.MD(Expiry=0)).reason == CMQC.MQRC_EXPIRY_ERROR


@pytest.mark.parametrize(
    ("elapsed_ms", "expiry"),
    [(0, 600), (1, 600), (100, 599), (10_000, 500), (59_900, 1), (59_999, 1)],
)
def test_E05_getter_sees_what_is_left_rounded_up(
    clock: VirtualClock, queue: pymqi.Queue, elapsed_ms: int, expiry: int
) -> None:
    queue.put(b"x", pymqi.MD(Expiry=600))
    clock.advance(elapsed_ms)
    browsed, got = pymqi.MD(), pymqi.MD()
    queue.get(None, browsed, pymqi.GMO(Options=CMQC.MQGMO_BROWSE_FIRST))
    queue.get(None, got)
    assert (browsed.Expiry, got.Expiry) == (expiry, expiry)


@pytest.mark.parametrize("options", [CMQC.MQGMO_NO_WAIT, CMQC.MQGMO_BROWSE_FIRST], ids=hex)
@pytest.mark.parametrize("late_ms", [0, 1])
def test_E04_expired_message_is_handed_to_nobody_and_E08_counts_until_asked_for(
    clock: VirtualClock,
    queue_manager: QueueManager,
    queue: pymqi.Queue,
    fails: Fails,
    options: int,
    late_ms: int,
) -> None:
    queue.put(b"x", pymqi.MD(Expiry=20))
    clock.advance(2_000 + late_ms)
    assert queue_manager.curdepth("Q1") == 1
    error = fails(queue.get, None, pymqi.MD(), pymqi.GMO(Options=options))
    assert error.reason == NO_MSG
    assert queue_manager.curdepth("Q1") == 0


def test_E13_report_comes_with_the_discard(
    clock: VirtualClock, queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(REPLIES)")
    put = pymqi.MD(Expiry=20, Report=CMQC.MQRO_EXPIRATION, ReplyToQ=b"REPLIES")
    queue.put(b"x", put)
    clock.advance(2_000)
    assert queue_manager.curdepth("REPLIES") == 0
    fails(queue.get)
    replies = pymqi.Queue(pymqi.connect("QM1"), "REPLIES")
    report = pymqi.MD()
    replies.get(None, report)
    assert report.MsgType == CMQC.MQMT_REPORT
    assert report.Feedback == CMQC.MQFB_EXPIRATION
    assert report.CorrelId == put.MsgId


def test_E15_backed_out_after_its_end_it_is_gone(
    clock: VirtualClock,
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    fails: Fails,
) -> None:
    queue.put(b"x", pymqi.MD(Expiry=20))
    clock.advance(1_999)
    assert queue.get(None, pymqi.MD(), pymqi.GMO(Options=CMQC.MQGMO_SYNCPOINT)) == b"x"
    clock.advance(1)
    connection.backout()
    assert queue_manager.curdepth("Q1") == 1
    assert fails(queue.get).reason == NO_MSG
    assert queue_manager.curdepth("Q1") == 0


def test_E17_life_runs_from_the_put_not_from_the_commit(
    clock: VirtualClock, connection: pymqi.QueueManager, queue: pymqi.Queue, fails: Fails
) -> None:
    queue.put(b"x", pymqi.MD(Expiry=20), pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    clock.advance(3_000)
    connection.commit()
    assert fails(queue.get).reason == NO_MSG


def test_X03_lowered_expiry_is_silent(
    clock: VirtualClock, queue_manager: QueueManager, queue: pymqi.Queue
) -> None:
    queue_manager.mqsc("ALTER QLOCAL(Q1) CAPEXPRY(30)")
    put = pymqi.MD(Expiry=600)
    queue.put(b"x", put)
    assert put.Expiry == 600
    got = pymqi.MD()
    queue.get(None, got)
    assert got.Expiry == 30
