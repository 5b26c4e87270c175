"""Passing message context on with PMO.Context, the handle of the queue a message was got from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

Fails = Callable[..., pymqi.MQMIError]

IDENTITY = {
    "UserIdentifier": b"bob".ljust(12),
    "AccountingToken": bytes(range(32)),
    "ApplIdentityData": b"identity".ljust(32),
}
ORIGIN = {
    "PutApplType": CMQC.MQAT_CICS,
    "PutApplName": b"other".ljust(28),
    "PutDate": b"19990101",
    "PutTime": b"12345678",
    "ApplOriginData": b"orig",
}
PASS_ALL, PASS_ID = CMQC.MQPMO_PASS_ALL_CONTEXT, CMQC.MQPMO_PASS_IDENTITY_CONTEXT
SAVING = CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_BROWSE | CMQC.MQOO_SAVE_ALL_CONTEXT


def contents(md: pymqi.MD, names: Mapping[str, object]) -> dict[str, object]:
    return {name: md[name] for name in names}


@pytest.fixture
def source(queue_manager: QueueManager, connection: pymqi.QueueManager) -> pymqi.Queue:
    """``Q1``, with a message of bob's, open so that its context is saved; and there is ``Q2``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q2)").ok
    options = pymqi.PMO(Options=CMQC.MQPMO_SET_ALL_CONTEXT)
    connection.put1("Q1", b"x", pymqi.MD(**IDENTITY, **ORIGIN, Expiry=600), options)
    return pymqi.Queue(connection, "Q1", SAVING)


@pytest.mark.parametrize("by", ["put", "put1"])
def test_P06_all_context_is_passed_on(
    connection: pymqi.QueueManager, source: pymqi.Queue, by: str
) -> None:
    source.get()
    pmo = pymqi.PMO(Options=PASS_ALL)
    pmo.Context = source.get_handle()
    md = pymqi.MD(UserIdentifier=b"me")
    if by == "put1":
        connection.put1("Q2", b"y", md, pmo)
    else:
        options = CMQC.MQOO_OUTPUT | CMQC.MQOO_PASS_ALL_CONTEXT
        pymqi.Queue(connection, "Q2", options).put(b"y", md, pmo)
    got = pymqi.MD()
    assert pymqi.Queue(connection, "Q2").get(None, got) == b"y"
    for seen in (md, got):
        assert contents(seen, IDENTITY) == IDENTITY
        assert contents(seen, ORIGIN) == ORIGIN
    assert got.Expiry == CMQC.MQEI_UNLIMITED


def test_P06_identity_is_passed_on_and_the_origin_is_new(
    connection: pymqi.QueueManager, source: pymqi.Queue
) -> None:
    source.get()
    pmo = pymqi.PMO(Options=PASS_ID, Context=source.get_handle())
    md = pymqi.MD()
    connection.put1("Q2", b"y", md, pmo)
    assert contents(md, IDENTITY) == IDENTITY
    assert md.PutDate == b"20231114"
    assert md.PutApplType == CMQC.MQAT_UNIX
    assert md.ApplOriginData == b"    "


def test_P06_context_is_a_number_that_comes_through_pack_and_unpack(
    connection: pymqi.QueueManager, source: pymqi.Queue, fails: Fails
) -> None:
    source.get()
    pmo = pymqi.PMO(Options=PASS_ALL, Context=source.get_handle())
    assert isinstance(pmo.Context, int)
    copied = pymqi.PMO()
    copied.unpack(pmo.pack())
    connection.put1("Q2", b"y", pymqi.MD(), copied)
    with pytest.raises(TypeError, match=r"PMO\.Context takes an integer, not Queue"):
        pmo.Context = source
    source.close()
    assert fails(connection.put1, "Q2", b"y", pymqi.MD(), copied).reason == 2097


def test_P06_each_wrong_way_to_pass_on_has_its_reason(
    connection: pymqi.QueueManager, source: pymqi.Queue, fails: Fails
) -> None:
    md, output = pymqi.MD(), pymqi.Queue(connection, "Q2", CMQC.MQOO_OUTPUT)
    handle = source.get_handle()
    for option, reason in (
        (PASS_ALL, CMQC.MQRC_NOT_OPEN_FOR_PASS_ALL),
        (PASS_ID, CMQC.MQRC_NOT_OPEN_FOR_PASS_IDENT),
        (CMQC.MQPMO_SET_ALL_CONTEXT, CMQC.MQRC_NOT_OPEN_FOR_SET_ALL),
        (CMQC.MQPMO_SET_IDENTITY_CONTEXT, CMQC.MQRC_NOT_OPEN_FOR_SET_IDENT),
    ):
        pmo = pymqi.PMO(Options=option, Context=handle)
        assert fails(output.put, b"y", md, pmo).reason == reason
    not_saving = pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_SHARED)
    topic = pymqi.OD(ObjectType=CMQC.MQOT_TOPIC, Version=CMQC.MQOD_VERSION_4)
    topic.set_vs("ObjectString", "news")
    published = pymqi.Queue(connection, topic, CMQC.MQOO_OUTPUT)
    manager = pymqi.OD(ObjectType=CMQC.MQOT_Q_MGR)
    asked = pymqi.Queue(connection, manager, CMQC.MQOO_INQUIRE)
    for context, reason in (
        (0, CMQC.MQRC_CONTEXT_HANDLE_ERROR),
        (not_saving.get_handle(), CMQC.MQRC_CONTEXT_HANDLE_ERROR),
        (published.get_handle(), CMQC.MQRC_CONTEXT_HANDLE_ERROR),
        (asked.get_handle(), CMQC.MQRC_CONTEXT_HANDLE_ERROR),
        (handle, CMQC.MQRC_CONTEXT_NOT_AVAILABLE),
    ):
        pmo = pymqi.PMO(Options=PASS_ALL, Context=context)
        assert fails(connection.put1, "Q2", b"y", md, pmo).reason == reason
    source.get(None, pymqi.MD(), pymqi.GMO(Options=CMQC.MQGMO_BROWSE_FIRST))
    pmo = pymqi.PMO(Options=PASS_ALL, Context=handle)
    assert fails(connection.put1, "Q2", b"y", md, pmo).reason == CMQC.MQRC_CONTEXT_NOT_AVAILABLE
    assert pymqi.Queue(connection, "Q2").inquire(CMQC.MQIA_CURRENT_Q_DEPTH) == 0


@pytest.mark.parametrize(("passed_ms", "left_tenths"), [(0, 600), (1, 600), (100, 599)])
def test_E5_E20_forwarded_with_the_descriptor_it_lives_on_for_what_is_left(
    connection: pymqi.QueueManager,
    source: pymqi.Queue,
    clock: VirtualClock,
    passed_ms: int,
    left_tenths: int,
) -> None:
    """The MD got says what is left; without it the message forwarded has no end, context or not."""
    clock.advance(passed_ms)
    md = pymqi.MD()
    source.get(None, md)
    assert md.Expiry == left_tenths
    pmo = pymqi.PMO(Options=PASS_ALL, Context=source.get_handle())
    connection.put1("Q2", b"with it", md, pmo)
    connection.put1("Q2", b"without", pymqi.MD(), pmo)
    reader = pymqi.Queue(connection, "Q2")
    seen = []
    for _ in range(2):
        got = pymqi.MD()
        reader.get(None, got)
        seen.append(got.Expiry)
    assert seen == [left_tenths, CMQC.MQEI_UNLIMITED]
