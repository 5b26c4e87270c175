"""Marks and message tokens through pymqi: a dispatcher, its workers, and the fields of the GMO."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock

Fails = Callable[..., pymqi.MQMIError]
FIRST, NEXT = CMQC.MQGMO_BROWSE_FIRST, CMQC.MQGMO_BROWSE_NEXT
TOKEN = CMQC.MQMO_MATCH_MSG_TOKEN
EMPTY = CMQC.MQRC_NO_MSG_AVAILABLE


def opened(connection: pymqi.QueueManager, options: int) -> pymqi.Queue:
    return pymqi.Queue(connection, "Q1", options)


@pytest.fixture
def filled(queue: pymqi.Queue) -> pymqi.Queue:
    """Q1 with 1, 2, 3."""
    for body in (b"1", b"2", b"3"):
        queue.put(body)
    return queue


def gmo(options: int, version: int = CMQC.MQGMO_VERSION_4, **fields: object) -> pymqi.GMO:
    return pymqi.GMO(Options=options, Version=version, **fields)


def test_B07_dispatchers_browse_each_message_once_and_workers_get_it_by_its_token(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    filled: pymqi.Queue,
    fails: Fails,
    clock: VirtualClock,
) -> None:
    """A worker that fails before it gets leaves the message to be dispatched again."""
    dispatchers = [opened(connection, CMQC.MQOO_BROWSE | CMQC.MQOO_CO_OP) for _ in range(2)]
    worker = opened(connection, CMQC.MQOO_INPUT_SHARED)
    tokens = []
    for number in (0, 1, 0):
        options = gmo(CMQC.MQGMO_BROWSE_CO_OP)
        dispatchers[number].get(None, None, options)
        tokens.append(options.MsgToken)
    for dispatcher in dispatchers:
        assert fails(dispatcher.get, None, None, gmo(CMQC.MQGMO_BROWSE_CO_OP)).reason == EMPTY
    by_token = gmo(CMQC.MQGMO_NO_SYNCPOINT, MatchOptions=TOKEN, MsgToken=tokens[1])
    assert worker.get(None, None, by_token) == b"2"
    assert queue_manager.curdepth("Q1") == 2
    clock.advance(5_000)
    assert dispatchers[1].get(None, None, gmo(CMQC.MQGMO_BROWSE_CO_OP)) == b"1"
    assert fails(worker.get, None, None, by_token).reason == EMPTY


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize("options", [0, FIRST, FIRST | CMQC.MQGMO_LOCK, CMQC.MQGMO_BROWSE_HANDLE])
def test_G03_a_token_comes_with_version_3_of_the_gmo(
    filled: pymqi.Queue, options: int, version: int
) -> None:
    got = gmo(options, version, MatchOptions=CMQC.MQMO_NONE)
    assert filled.get(None, pymqi.MD(), got) == b"1"
    assert (len(got.MsgToken) == 16) == (version >= CMQC.MQGMO_VERSION_3)
    assert got.ReturnedLength == (1 if version >= CMQC.MQGMO_VERSION_3 else -1)
    assert got.ResolvedQName.rstrip() == b"Q1"
    assert (got.Version, got.Options) == (version, options)


def test_G03_a_browse_tells_the_token_of_the_message_and_unlock_none(filled: pymqi.Queue) -> None:
    first, second, again = gmo(NEXT), gmo(NEXT), gmo(FIRST)
    for options in (first, second, again):
        filled.get(None, pymqi.MD(), options)
    assert first.MsgToken == again.MsgToken != second.MsgToken
    under = gmo(CMQC.MQGMO_BROWSE_MSG_UNDER_CURSOR | CMQC.MQGMO_LOCK)
    filled.get(None, pymqi.MD(), under)
    assert under.MsgToken == first.MsgToken
    unlock = gmo(CMQC.MQGMO_UNLOCK)
    filled.get(None, pymqi.MD(), unlock)
    assert unlock.MsgToken == b""


def test_G03_what_stays_because_it_is_too_long_is_got_by_its_token(
    filled: pymqi.Queue, fails: Fails
) -> None:
    filled.put(b"long", pymqi.MD(Priority=9))
    options = gmo(CMQC.MQGMO_NO_SYNCPOINT)
    error = fails(filled.get, 3, pymqi.MD(), options)
    assert (error.reason, error.original_length) == (CMQC.MQRC_TRUNCATED_MSG_FAILED, 4)
    by_token = gmo(CMQC.MQGMO_NO_SYNCPOINT, MatchOptions=TOKEN, MsgToken=options.MsgToken)
    assert filled.get(error.original_length, pymqi.MD(), by_token) == b"long"


def test_G03_a_token_with_other_match_options(filled: pymqi.Queue, fails: Fails) -> None:
    md, options = pymqi.MD(), gmo(FIRST)
    filled.get(None, md, options)
    both = TOKEN | CMQC.MQMO_MATCH_MSG_ID
    wrong = gmo(0, MatchOptions=both, MsgToken=options.MsgToken)
    assert fails(filled.get, None, pymqi.MD(MsgId=b"other"), wrong).reason == EMPTY
    assert filled.get(None, pymqi.MD(MsgId=md.MsgId), wrong) == b"1"


@pytest.mark.parametrize(
    ("version", "options", "match", "reason"),
    [
        (1, 0, TOKEN, CMQC.MQRC_WRONG_GMO_VERSION),
        (2, 0, TOKEN, CMQC.MQRC_WRONG_GMO_VERSION),
        (3, 0, TOKEN, EMPTY),
        (3, 0, TOKEN | CMQC.MQMO_MATCH_GROUP_ID, CMQC.MQRC_WRONG_MD_VERSION),
        (3, 0, TOKEN | 0x40, CMQC.MQRC_MATCH_OPTIONS_ERROR),
        (3, CMQC.MQGMO_WAIT, TOKEN, CMQC.MQRC_MSG_TOKEN_ERROR),
        (3, FIRST | CMQC.MQGMO_WAIT, TOKEN, CMQC.MQRC_MSG_TOKEN_ERROR),
    ],
)
def test_G03_where_a_token_may_not_be_matched(
    queue_manager: QueueManager,
    filled: pymqi.Queue,
    fails: Fails,
    version: int,
    options: int,
    match: int,
    reason: int,
) -> None:
    asked = gmo(options, version, MatchOptions=match, WaitInterval=1_000)
    assert fails(filled.get, None, pymqi.MD(), asked).reason == reason
    assert queue_manager.curdepth("Q1") == 3


def test_G03_without_the_option_the_token_in_the_gmo_means_nothing(filled: pymqi.Queue) -> None:
    """A GMO that is used again has the token of the message before."""
    options = gmo(0, MatchOptions=CMQC.MQMO_NONE)
    assert [filled.get(None, pymqi.MD(), options) for _ in range(3)] == [b"1", b"2", b"3"]


def test_G03_an_expired_message_is_not_found_by_its_token(
    queue_manager: QueueManager, queue: pymqi.Queue, fails: Fails, clock: VirtualClock
) -> None:
    queue.put(b"x", pymqi.MD(Expiry=10))
    options = gmo(FIRST)
    queue.get(None, pymqi.MD(), options)
    clock.advance(1_000)
    by_token = gmo(0, MatchOptions=TOKEN, MsgToken=options.MsgToken)
    assert fails(queue.get, None, pymqi.MD(), by_token).reason == EMPTY
    assert queue_manager.curdepth("Q1") == 0


def test_B07_markint_is_set_by_mqsc_and_a_mark_lapses_after_it(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    filled: pymqi.Queue,
    clock: VirtualClock,
) -> None:
    assert queue_manager.mqsc("ALTER QMGR MARKINT(20000)").ok
    browser = opened(connection, CMQC.MQOO_BROWSE | CMQC.MQOO_CO_OP)
    for body, ms in ((b"1", 19_999), (b"2", 1), (b"1", 0)):
        assert browser.get(None, None, gmo(CMQC.MQGMO_BROWSE_CO_OP)) == body
        clock.advance(ms)


def test_B08_wrong_options_of_marks(
    connection: pymqi.QueueManager, filled: pymqi.Queue, fails: Fails
) -> None:
    for options in (
        CMQC.MQGMO_BROWSE_CO_OP,
        CMQC.MQGMO_MARK_BROWSE_HANDLE,
        CMQC.MQGMO_BROWSE_HANDLE | CMQC.MQGMO_LOCK,
    ):
        error = fails(filled.get, None, pymqi.MD(), gmo(options))
        assert error.reason == CMQC.MQRC_OPTIONS_ERROR
    error = fails(opened, connection, CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_CO_OP)
    assert error.reason == CMQC.MQRC_OPTIONS_ERROR


def test_B07_who_marked_it_last_gets_it_under_the_cursor(
    connection: pymqi.QueueManager, filled: pymqi.Queue, fails: Fails, clock: VirtualClock
) -> None:
    both = CMQC.MQOO_BROWSE | CMQC.MQOO_CO_OP | CMQC.MQOO_INPUT_SHARED
    late, quick = opened(connection, both), opened(connection, both)
    late.get(None, None, gmo(CMQC.MQGMO_BROWSE_CO_OP))
    clock.advance(5_000)
    quick.get(None, None, gmo(CMQC.MQGMO_BROWSE_CO_OP))
    error = fails(late.get, None, None, gmo(CMQC.MQGMO_MSG_UNDER_CURSOR))
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, CMQC.MQRC_MSG_MARKED_BROWSE_CO_OP)
    assert quick.get(None, None, gmo(CMQC.MQGMO_MSG_UNDER_CURSOR)) == b"1"
