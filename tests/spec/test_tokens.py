"""Message tokens: MQMO_MATCH_MSG_TOKEN finds one message (G3), on the engine's verbs."""

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, Match, Session
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQ_MSG_TOKEN_LENGTH
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import token_of
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    INPUT,
    REPLIES,
    STAGING,
    End,
    ends,
    local,
    refused,
    take,
)

FIRST, NEXT = c.MQGMO_BROWSE_FIRST, c.MQGMO_BROWSE_NEXT
NO_TOKEN = bytes(MQ_MSG_TOKEN_LENGTH)


@pytest.fixture
def handle(queue_manager: QueueManager, session: Session, persistent: bool) -> Handle:
    """A handle for input and browse on Q1 with 1, 2, 3."""
    local(queue_manager)
    for name in (b"1", b"2", b"3"):
        session.put("Q1", name, persistent=persistent)
    return session.open("Q1", INPUT | BROWSE)


def tokens(session: Session, queue: str = "Q1") -> list[bytes]:
    """Return the tokens of all messages on a queue."""
    return [token_of(message) for message in session.browse(queue)]


def test_G3_a_token_finds_its_message_wherever_it_stands(handle: Handle, session: Session) -> None:
    found = tokens(session)
    assert {len(token) for token in found} == {MQ_MSG_TOKEN_LENGTH}
    assert len(set(found)) == 3
    for place in (2, 0, 1):
        message = take(handle, match=Match(token=found[place])).message
        assert (message.body, token_of(message)) == (b"%d" % (place + 1), found[place])
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, match=Match(token=found[place]))


def test_G3_no_message_has_no_token(handle: Handle) -> None:
    for token in (NO_TOKEN, b"\xff" * MQ_MSG_TOKEN_LENGTH, b"short"):
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, match=Match(token=token))


def test_G3_a_token_of_another_queue_finds_nothing(
    queue_manager: QueueManager, handle: Handle, session: Session
) -> None:
    local(queue_manager, "Q2")
    session.put("Q2", b"x")
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, match=Match(token=tokens(session, "Q2")[0]))


def test_G3_other_match_options_are_checked_too(handle: Handle, session: Session) -> None:
    first, second = list(session.browse("Q1"))[:2]
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, match=Match(token=token_of(first), msg_id=second.msg_id))
    match = Match(token=token_of(first), msg_id=first.msg_id)
    assert take(handle, match=match).message.body == b"1"


def test_G3_a_browse_finds_it_from_the_cursor_on(handle: Handle, session: Session) -> None:
    first, second, third = tokens(session)
    assert take(handle, FIRST, match=Match(token=third)).message.body == b"3"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, NEXT, match=Match(token=second))
    assert take(handle, FIRST, match=Match(token=second)).message.body == b"2"
    assert take(handle, NEXT, match=Match(token=third)).message.body == b"3"
    under = c.MQGMO_BROWSE_MSG_UNDER_CURSOR
    assert take(handle, under, match=Match(token=first)).message.body == b"3"


def test_G3_a_token_is_not_waited_for_except_under_the_cursor(
    handle: Handle, session: Session
) -> None:
    match = Match(token=tokens(session)[0])
    for options in (c.MQGMO_WAIT, FIRST | c.MQGMO_WAIT):
        with refused(rc.MQRC_MSG_TOKEN_ERROR):
            take(handle, options, match=match, wait_ms=1)
    take(handle, NEXT)
    take(handle, NEXT)
    options = c.MQGMO_MSG_UNDER_CURSOR | c.MQGMO_WAIT
    assert take(handle, options, match=match, wait_ms=1).message.body == b"2"


def test_G3_a_backed_out_message_has_the_token_it_had(
    queue_manager: QueueManager, handle: Handle, session: Session, new_session: NewSession
) -> None:
    match = Match(token=tokens(session)[1])
    take(handle, c.MQGMO_SYNCPOINT, match=match)
    with new_session(queue_manager) as other, refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(other.open("Q1", INPUT), match=match)
    session.backout()
    message = take(handle, match=match).message
    assert (message.body, message.backout_count) == (b"2", 1)


def test_G3_a_locked_message_is_found_by_who_has_locked_it(
    queue_manager: QueueManager, handle: Handle, new_session: NewSession
) -> None:
    match = Match(token=token_of(take(handle, FIRST | c.MQGMO_LOCK).message))
    with new_session(queue_manager) as other, refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(other.open("Q1", INPUT), match=match)
    assert take(handle, match=match).message.body == b"1"


@pytest.mark.parametrize("late_ms", [-1, 0, 1])
def test_E11_an_expired_message_is_discarded_when_its_token_is_asked_for(
    queue_manager: QueueManager, session: Session, clock: VirtualClock, late_ms: int
) -> None:
    """The expired one before it is not what this get would return, and stays."""
    for name in ("Q1", REPLIES):
        local(queue_manager, name)
    report = c.MQRO_EXPIRATION
    for _ in range(2):
        session.put("Q1", b"x", time_to_live_ms=1_000, report=report, reply_to_q=REPLIES)
    token = tokens(session)[1]
    clock.advance(1_000 + late_ms)
    handle = session.open("Q1", INPUT)
    if late_ms < 0:
        assert take(handle, match=Match(token=token)).message.remaining_ms == 1
        return
    for _ in range(2):
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(handle, match=Match(token=token))
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth(REPLIES)) == (1, 1)
    assert ends(queue_manager, "Q1") == [End("expired", 1_000 + late_ms)]


def test_G3_a_delayed_message_has_a_token_on_the_staging_queue_and_another_behind_it(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=1_000)
    (staged,) = tokens(session, STAGING)
    clock.advance(1_000)
    (released,) = tokens(session)
    assert released != staged
    handle = session.open("Q1", INPUT)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(handle, match=Match(token=staged))
    assert take(handle, match=Match(token=released)).message.body == b"x"


def test_G3_a_token_on_the_staging_queue_cancels(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    for _ in range(2):
        session.put("Q1", b"x", delay_ms=1_000)
    token = tokens(session, STAGING)[1]
    take(session.open(STAGING, INPUT), match=Match(token=token))
    assert len(tokens(session, STAGING)) == 1
    assert ends(queue_manager, STAGING) == [End("cancelled", 0)]


def test_G3_a_token_is_good_after_a_restart(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder, clock=clock) as manager, new_session(manager) as session:
        local(manager)
        session.put("Q1", b"x", persistent=True)
        token = tokens(session)[0]
    with QueueManager("QM1", folder, clock=clock) as manager, new_session(manager) as session:
        assert take(session.open("Q1", INPUT), match=Match(token=token)).message.body == b"x"
