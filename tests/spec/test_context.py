"""Message context, rule P6: saved by a get, passed on by a put; and what passing on leaves alone.

E5, E20: the life of a message is passed on by who copies its descriptor, never by its context.
"""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, PutRequest, Session
from mayfly.engine.api.administration import QMGR, SELF
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.over import NewSession
from tests.spec.authority_scene import connect, grant, revoke
from tests.spec.scene import BROWSE, INPUT, OUTPUT, V2, local, put_md, refused, take

PASS_ALL, PASS_ID = c.MQPMO_PASS_ALL_CONTEXT, c.MQPMO_PASS_IDENTITY_CONTEXT
OPEN_ALL, OPEN_ID = c.MQOO_PASS_ALL_CONTEXT, c.MQOO_PASS_IDENTITY_CONTEXT
SAVE = c.MQOO_SAVE_ALL_CONTEXT
THEIRS = Descriptor(
    version=2,
    user_identifier="carl",
    accounting_token=b"token",
    appl_identity_data="identity",
    put_appl_type=28,
    put_appl_name="theirs",
    appl_origin_data="orig",
    put_date="19991231",
    put_time="23595999",
)


@pytest.fixture
def source(queue_manager: QueueManager, session: Session) -> Handle:
    """``IN``, with one message of somebody else's, open so that its context is saved."""
    local(queue_manager, "IN")
    local(queue_manager, "OUT")
    put_md(session, "IN", b"x", THEIRS, options=c.MQPMO_SET_ALL_CONTEXT)
    return session.open("IN", INPUT | BROWSE | SAVE)


def identity(message: Message) -> tuple[str, bytes, str]:
    d = message.descriptor
    return d.user_identifier, d.accounting_token, d.appl_identity_data


def origin(message: Message) -> tuple[int, str, str, str, str]:
    d = message.descriptor
    moment = message.put_date, message.put_time
    return (d.put_appl_type, d.put_appl_name, d.appl_origin_data, *moment)


def arrived(session: Session) -> Message:
    message = session.get("OUT")
    assert message is not None
    return message


def test_P6_all_context_is_passed_on_and_nothing_else(session: Session, source: Handle) -> None:
    got = take(source).message
    target = session.open("OUT", OUTPUT | OPEN_ALL)
    target.put(b"y", PutRequest(V2._replace(format="MQSTR", priority=7)), PASS_ALL, source)
    message = arrived(session)
    assert identity(message) == ("carl", b"token", "identity")
    assert origin(message) == (28, "theirs", "orig", "19991231", "23595999")
    assert (message.body, message.descriptor.format, message.priority) == (b"y", "MQSTR", 7)
    assert message.msg_id != got.msg_id


def test_P6_identity_is_passed_on_and_the_origin_is_new(
    session: Session, source: Handle, clock: VirtualClock
) -> None:
    take(source)
    clock.advance(1_234)
    session.open("OUT", OUTPUT | OPEN_ID).put(b"y", PutRequest(THEIRS), PASS_ID, source)
    message = arrived(session)
    assert identity(message) == ("carl", b"token", "identity")
    assert origin(message) == (c.MQAT_UNIX, "mayfly", "", "20231114", "22132123")


def test_P6_the_moment_of_a_put_with_default_context_is_passed_on(
    session: Session, source: Handle, clock: VirtualClock
) -> None:
    """Its PutDate and PutTime are those of the first put, to the hundredth; its life is new."""
    take(source)
    clock.advance(10)
    session.put("IN", b"ours", time_to_live_ms=20_000)
    clock.advance(15_000)
    take(source)
    session.open("OUT", OUTPUT | OPEN_ALL).put(b"y", PutRequest(V2), PASS_ALL, source)
    message = arrived(session)
    assert identity(message) == ("anna", b"", "")
    assert origin(message)[3:] == ("20231114", "22132001")
    assert message.remaining_ms is None


def test_P6_no_context_is_passed_on_as_none(session: Session, source: Handle) -> None:
    """2098 is for a handle that has got nothing, not for a message without context."""
    take(source)
    put_md(session, "IN", b"x", V2, options=c.MQPMO_NO_CONTEXT)
    take(source)
    session.open("OUT", OUTPUT | OPEN_ALL).put(b"y", PutRequest(THEIRS), PASS_ALL, source)
    message = arrived(session)
    assert identity(message) == ("", b"", "")
    assert origin(message) == (c.MQAT_NO_CONTEXT, "", "", "", "")


@pytest.mark.parametrize(
    ("opened", "option", "reason"),
    [
        (0, PASS_ALL, rc.MQRC_NOT_OPEN_FOR_PASS_ALL),
        (0, PASS_ID, rc.MQRC_NOT_OPEN_FOR_PASS_IDENT),
        (OPEN_ID, PASS_ALL, rc.MQRC_NOT_OPEN_FOR_PASS_ALL),
        (c.MQOO_SET_IDENTITY_CONTEXT, PASS_ALL, rc.MQRC_NOT_OPEN_FOR_PASS_ALL),
        (OPEN_ALL, c.MQPMO_SET_ALL_CONTEXT, rc.MQRC_NOT_OPEN_FOR_SET_ALL),
        (OPEN_ALL, c.MQPMO_SET_IDENTITY_CONTEXT, rc.MQRC_NOT_OPEN_FOR_SET_IDENT),
        (OPEN_ALL, PASS_ID, 0),
        (c.MQOO_SET_IDENTITY_CONTEXT, PASS_ID, 0),
        (c.MQOO_SET_ALL_CONTEXT, PASS_ID, 0),
        (c.MQOO_SET_ALL_CONTEXT, PASS_ALL, 0),
    ],
)
def test_P6_passing_on_needs_its_open_option_or_one_that_implies_it(
    queue_manager: QueueManager,
    session: Session,
    source: Handle,
    opened: int,
    option: int,
    reason: int,
) -> None:
    take(source)
    target = session.open("OUT", OUTPUT | opened)
    if reason:
        with refused(reason):
            target.put(b"x", PutRequest(V2), option, source)
    else:
        target.put(b"x", PutRequest(V2), option, source)
    assert queue_manager.curdepth("OUT") == int(not reason)


@pytest.mark.in_process
def test_P6_2097_unless_the_context_is_a_handle_that_saves(
    queue_manager: QueueManager, session: Session, source: Handle, new_session: NewSession
) -> None:
    """Opened without MQOO_SAVE_ALL_CONTEXT, no queue, of another session, closed, none at all."""
    take(source)
    target = session.open("OUT", OUTPUT | OPEN_ALL | OPEN_ID)
    plain = session.open("IN", INPUT)
    topic = session.open_topic("news", OUTPUT)
    asked = session.open_definition(QMGR, "", c.MQOO_INQUIRE)
    number = source.__index__()
    target.put(b"by its number", PutRequest(V2), PASS_ALL, number)
    with new_session(queue_manager, "other") as other:
        foreign = other.open("IN", INPUT | SAVE)
        for option in (PASS_ALL, PASS_ID):
            for context in (
                *(plain, foreign, target, topic, asked),
                *(c.MQHO_NONE, c.MQHO_UNUSABLE_HOBJ),
            ):
                with refused(rc.MQRC_CONTEXT_HANDLE_ERROR):
                    target.put(b"x", PutRequest(V2), option, context)
    source.close()
    with refused(rc.MQRC_CONTEXT_HANDLE_ERROR):
        target.put(b"x", PutRequest(V2), PASS_ALL, number)
    assert queue_manager.curdepth("OUT") == 1


def test_P6_2098_until_a_message_has_been_got_and_after_a_browse(
    queue_manager: QueueManager, session: Session, source: Handle
) -> None:
    """What was not got saves nothing: an empty queue, a buffer that is too small."""
    target = session.open("OUT", OUTPUT | OPEN_ALL)
    session.put("IN", b"second")
    for options in (None, c.MQGMO_BROWSE_FIRST):
        if options is not None:
            take(source, options)
        with refused(rc.MQRC_CONTEXT_NOT_AVAILABLE):
            target.put(b"x", PutRequest(V2), PASS_ALL, source)
    take(source)
    target.put(b"1", PutRequest(V2), PASS_ALL, source)
    assert take(source, max_length=2).warning == rc.MQRC_TRUNCATED_MSG_FAILED
    target.put(b"2", PutRequest(V2), PASS_ALL, source)
    for _ in range(2):
        assert identity(arrived(session)) == ("carl", b"token", "identity")
    take(source, c.MQGMO_BROWSE_NEXT)
    with refused(rc.MQRC_CONTEXT_NOT_AVAILABLE):
        target.put(b"x", PutRequest(V2), PASS_ALL, source)
    take(source, c.MQGMO_MSG_UNDER_CURSOR)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(source)
    target.put(b"3", PutRequest(V2), PASS_ALL, source)
    assert identity(arrived(session)) == ("anna", b"", "")
    assert queue_manager.curdepth("OUT") == 0


def test_P6_what_was_got_and_backed_out_stays_saved(
    queue_manager: QueueManager, unit: Session, source: Handle, session: Session
) -> None:
    reader = unit.open("IN", INPUT | SAVE)
    take(reader, c.MQGMO_SYNCPOINT)
    unit.backout()
    unit.open("OUT", OUTPUT | OPEN_ALL).put(b"y", PutRequest(V2), PASS_ALL, reader)
    assert identity(arrived(session)) == ("carl", b"token", "identity")
    assert queue_manager.curdepth("IN") == 1


def test_P6_a_handle_may_pass_on_what_it_has_got_itself(
    queue_manager: QueueManager, session: Session, source: Handle
) -> None:
    both = session.open("IN", INPUT | OUTPUT | SAVE | OPEN_ALL)
    take(both)
    both.put(b"again", PutRequest(V2), PASS_ALL, both)
    message = session.get("IN")
    assert message is not None
    assert identity(message) == ("carl", b"token", "identity")


@pytest.mark.in_process
def test_P6_a_publication_passes_context_on(
    queue_manager: QueueManager, session: Session, source: Handle
) -> None:
    subscription = session.subscribe("news", queue="OUT")
    topic = session.open_topic("news", OUTPUT | OPEN_ALL)
    with refused(rc.MQRC_CONTEXT_NOT_AVAILABLE):
        topic.put(b"y", PutRequest(V2), PASS_ALL, source)
    with refused(rc.MQRC_NOT_OPEN_FOR_PASS_ALL):
        session.open_topic("news", OUTPUT).put(b"y", PutRequest(V2), PASS_ALL, source)
    take(source)
    topic.put(b"y", PutRequest(V2), PASS_ALL, source)
    message = arrived(session)
    assert identity(message)[0] == "carl"
    assert origin(message) == (28, "theirs", "orig", "19991231", "23595999")
    subscription.close()


def test_P6_one_context_option_of_a_put(session: Session, source: Handle) -> None:
    take(source)
    options = (c.MQOO_SET_ALL_CONTEXT, OPEN_ALL)
    target = session.open("OUT", OUTPUT | sum(options))
    singles = (
        PASS_ALL,
        PASS_ID,
        c.MQPMO_SET_ALL_CONTEXT,
        c.MQPMO_SET_IDENTITY_CONTEXT,
        c.MQPMO_DEFAULT_CONTEXT,
        c.MQPMO_NO_CONTEXT,
    )
    for one in singles:
        target.put(b"x", PutRequest(V2), one, source)
        for other in singles:
            if other != one:
                with refused(rc.MQRC_OPTIONS_ERROR):
                    target.put(b"x", PutRequest(V2), one | other, source)


@pytest.mark.parametrize(
    "options",
    [BROWSE | SAVE, OUTPUT | SAVE]
    + [
        INPUT | option
        for option in (OPEN_ALL, OPEN_ID, c.MQOO_SET_ALL_CONTEXT, c.MQOO_SET_IDENTITY_CONTEXT)
    ],
)
def test_P6_context_is_saved_by_input_and_given_by_output(
    queue_manager: QueueManager, session: Session, options: int
) -> None:
    local(queue_manager)
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.open("Q1", options)


@pytest.mark.parametrize(("word", "option"), [("PASSID", OPEN_ID), ("PASSALL", OPEN_ALL)])
def test_P6_C7_passing_on_needs_authority_on_the_queue_alone(
    queue_manager: QueueManager, word: str, option: int, new_session: NewSession
) -> None:
    """Saving needs no more than the get; setting needs the queue manager as well (AUTHORITY.md)."""
    local(queue_manager, "IN")
    local(queue_manager, "OUT")
    with new_session(queue_manager) as opener:
        put_md(opener, "IN", b"x", THEIRS, options=c.MQPMO_SET_ALL_CONTEXT)
    with connect(queue_manager) as session:
        grant(queue_manager, "GET", "IN")
        others = {"PASSID", "PASSALL", "SETID", "SETALL", "GET", "BROWSE", "INQ", "SET"} - {word}
        grant(queue_manager, " ".join(["PUT", *others]), "OUT")
        grant(queue_manager, "SETALL SETID", SELF, kind=QMGR)
        reader = session.open("IN", INPUT | SAVE)
        with refused(rc.MQRC_NOT_AUTHORIZED):
            session.open("OUT", OUTPUT | option)
        revoke(queue_manager, " ".join(others), "OUT")
        revoke(queue_manager, "SETALL SETID", SELF, kind=QMGR)
        grant(queue_manager, word, "OUT")
        take(reader)
        session.open("OUT", OUTPUT | option).put(b"y", PutRequest(V2), PASS_ID, reader)
    assert queue_manager.curdepth("OUT") == 1


@pytest.mark.parametrize(("passed_ms", "left_ms"), [(0, 60_000), (1, 59_999), (59_999, 1)])
def test_E5_E20_the_life_goes_on_only_with_what_was_left_of_it(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    passed_ms: int,
    left_ms: int,
) -> None:
    """A forwarder that gives what it got lives on as long as the message would have; no other."""
    local(queue_manager, "IN")
    local(queue_manager, "OUT")
    session.put("IN", b"x", time_to_live_ms=60_000)
    clock.advance(passed_ms)
    reader = session.open("IN", INPUT | SAVE)
    got = take(reader).message
    assert got.remaining_ms == left_ms
    target = session.open("OUT", OUTPUT | OPEN_ALL)
    target.put(b"with it", PutRequest(V2, life_ms=got.remaining_ms), PASS_ALL, reader)
    target.put(b"without", PutRequest(V2), PASS_ALL, reader)
    clock.advance(left_ms - 1)
    assert [m.body for m in session.browse("OUT")] == [b"with it", b"without"]
    clock.advance(1)
    assert [m.body for m in session.browse("OUT")] == [b"without"]
