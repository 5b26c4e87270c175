"""Dynamic queues, C9: names, deletion and who is told; handles that a change ends, C6."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.engine import Handle, PutRequest, Session
from mayfly.engine.api.administration import QALIAS, QMODEL
from mayfly.engine.api.programs import inquire
from mayfly.engine.objects import administration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import Value
from tests.over import NewSession
from tests.spec.scene import (
    BROWSE,
    INPUT,
    OUTPUT,
    V2,
    alias,
    alter,
    body,
    local,
    refused,
    take,
    waiting,
)

MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"
PERMANENT = "MODEL"
DELETES = (c.MQCO_DELETE, c.MQCO_DELETE_PURGE)


@pytest.fixture
def permanent(queue_manager: QueueManager, session: Session) -> Handle:
    """``MINE``, a permanent dynamic queue, as the handle that has made it."""
    definition = {"DEFTYPE": c.MQQDT_PERMANENT_DYNAMIC}
    administration.define(queue_manager.engine, QMODEL, PERMANENT, definition)
    return session.open(PERMANENT, INPUT | OUTPUT, dynamic_name="MINE")


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("*", ""), ("R.*", "R."), ("A" * 32 + "*", "A" * 32), ("A" * 48, "A" * 48)],
)
def test_C9_names_that_a_dynamic_queue_may_have(
    queue_manager: QueueManager, session: Session, name: str, prefix: str
) -> None:
    """What stands for the asterisk makes it unique, and one name is as long as a name may be."""
    made = {
        session.open(MODEL, INPUT, dynamic_name=name).queue_name for _ in range(1 + ("*" in name))
    }
    assert all(one.startswith(prefix) and len(one) <= 48 for one in made)
    assert len(made) == 1 + ("*" in name)


@pytest.mark.parametrize("name", ["", " ", "A" * 33 + "*", "A*B", "**", "A" * 49, "A B", "Ä"])
def test_C9_2011_for_names_that_it_may_not_have(
    queue_manager: QueueManager, session: Session, name: str
) -> None:
    before = len(queue_manager.engine.registry.definitions())
    with refused(rc.MQRC_DYNAMIC_Q_NAME_ERROR):
        session.open(MODEL, INPUT, dynamic_name=name)
    assert len(queue_manager.engine.registry.definitions()) == before


@pytest.mark.in_process
def test_C9_a_dynamic_queue_is_like_its_model(
    queue_manager: QueueManager, session: Session
) -> None:
    given: dict[str, Value] = {"MAXDEPTH": 3, "CAPEXPRY": 600, "DESCR": "replies"}
    administration.define(queue_manager.engine, QMODEL, PERMANENT, given)
    handle = session.open(PERMANENT, c.MQOO_INQUIRE, dynamic_name="MINE")
    asked = [c.MQIA_MAX_Q_DEPTH, c.MQIA_CAP_EXPIRY, c.MQCA_Q_DESC, c.MQIA_DEFINITION_TYPE]
    values = inquire(queue_manager.engine, handle, asked).values
    assert values == [3, 600, "replies", c.MQQDT_TEMPORARY_DYNAMIC]
    administration.alter(queue_manager.engine, QMODEL, PERMANENT, {"MAXDEPTH": 4})
    assert inquire(queue_manager.engine, handle, asked).values[0] == 3


@pytest.mark.parametrize("option", [c.MQCO_NONE, *DELETES])
def test_C9_any_close_of_its_creator_takes_a_temporary_queue_along(
    queue_manager: QueueManager, session: Session, option: int
) -> None:
    creator = session.open(MODEL, INPUT)
    session.put(creator.queue_name, b"x")
    creator.close(option)
    assert queue_manager.engine.registry.by_name(creator.queue_name) is None


@pytest.mark.parametrize("option", DELETES)
def test_C9_2045_for_another_handle_that_would_delete_a_temporary_queue(
    queue_manager: QueueManager, session: Session, option: int
) -> None:
    """It goes with its creator, and with nobody else; the handle stays open."""
    creator = session.open(MODEL, INPUT)
    other = session.open(creator.queue_name, OUTPUT)
    with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
        other.close(option)
    other.put(b"x", PutRequest(V2))
    other.close()
    assert take(creator).message.body == b"x"


@pytest.mark.in_process
@pytest.mark.parametrize("option", DELETES)
def test_C9_whoever_else_has_a_deleted_queue_open_is_told_with_2052(
    queue_manager: QueueManager,
    session: Session,
    permanent: Handle,
    option: int,
    new_session: NewSession,
) -> None:
    """Also who waits for a message; closing the handle is all that is left to do with it."""
    with new_session(queue_manager) as other, new_session(queue_manager) as third:
        theirs = other.open("MINE", INPUT | OUTPUT | BROWSE | c.MQOO_INQUIRE)
        late = third.open("MINE", INPUT)
        waiter = waiting(
            queue_manager, "MINE", lambda: take(late, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED)
        )
        permanent.close(option)
        waiter.finish()
        assert waiter.error is not None
        assert waiter.error.reason == rc.MQRC_Q_DELETED
        for call in (
            lambda: theirs.put(b"x", PutRequest(V2)),
            lambda: take(theirs),
            lambda: take(theirs, c.MQGMO_BROWSE_FIRST),
            lambda: inquire(queue_manager.engine, theirs, [c.MQIA_CURRENT_Q_DEPTH]),
        ):
            with refused(rc.MQRC_Q_DELETED):
                call()
        theirs.close(option)
        late.close()
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            other.open("MINE", INPUT)


@pytest.mark.parametrize("option", DELETES)
@pytest.mark.parametrize("verb", ["put", "get"])
def test_C9_2055_while_there_is_uncommitted_work_on_a_permanent_queue(
    queue_manager: QueueManager,
    unit: Session,
    session: Session,
    permanent: Handle,
    option: int,
    verb: str,
) -> None:
    if verb == "put":
        unit.put("MINE", b"x")
    else:
        session.put("MINE", b"x")
        assert body(unit.get("MINE")) == b"x"
    with refused(rc.MQRC_Q_NOT_EMPTY):
        permanent.close(option)
    assert permanent.is_open
    if verb == "put":
        unit.backout()
    else:
        unit.commit()
    permanent.close(option)
    assert queue_manager.engine.registry.by_name("MINE") is None


@pytest.mark.parametrize("left_ms", [1, 0, -1])
def test_C9_E12_messages_that_have_expired_keep_a_permanent_queue(
    session: Session, permanent: Handle, clock: VirtualClock, left_ms: int
) -> None:
    """2055, alive or not, until somebody meets them."""
    session.put("MINE", b"x", time_to_live_ms=1_000)
    clock.advance(1_000 - left_ms)
    with refused(rc.MQRC_Q_NOT_EMPTY):
        permanent.close(c.MQCO_DELETE)
    assert body(session.get("MINE")) == (b"x" if left_ms > 0 else None)
    permanent.close(c.MQCO_DELETE)


def test_C9_P7_a_permanent_dynamic_queue_takes_persistent_messages(
    queue_manager: QueueManager, session: Session, permanent: Handle
) -> None:
    session.put("MINE", b"x", persistent=True)
    with refused(rc.MQRC_PERSISTENT_NOT_ALLOWED):
        session.put(session.open(MODEL, INPUT).queue_name, b"x", persistent=True)
    assert queue_manager.curdepth("MINE") == 1


@pytest.mark.parametrize(("waits_ms", "answer"), [(59_999, b"done"), (60_000, None)])
def test_C9_request_and_reply_through_a_temporary_queue(
    queue_manager: QueueManager,
    session: Session,
    clock: VirtualClock,
    waits_ms: int,
    answer: bytes | None,
    new_session: NewSession,
) -> None:
    """The reply lives as long as the request had left; then the asker finds nothing any more."""
    local(queue_manager, "REQUESTS")
    replies = session.open(MODEL, INPUT, dynamic_name="REPLY.*")
    asked = session.put(
        "REQUESTS",
        b"do",
        time_to_live_ms=60_000,
        reply_to_q=replies.queue_name,
        msg_type=c.MQMT_REQUEST,
    )
    with new_session(queue_manager, "server") as server:
        clock.advance(20_000)
        request = server.get("REQUESTS")
        assert request is not None
        reply_to = request.descriptor.reply_to_q
        server.put(
            reply_to, b"done", correl_id=request.msg_id, time_to_live_ms=request.remaining_ms
        )
        clock.advance(waits_ms - 20_000)
        assert body(session.get(replies.queue_name, correl_id=asked)) == answer
        replies.close()
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            server.put(reply_to, b"too late")


# Changes that end a handle


@pytest.mark.in_process
def test_C6_2041_when_the_alias_opened_leads_elsewhere_by_now(
    queue_manager: QueueManager, session: Session
) -> None:
    """Nothing goes to either queue through the old handle; a new one goes the new way."""
    local(queue_manager, "Q1")
    local(queue_manager, "Q2")
    alias(queue_manager, "A1", "Q1")
    handle = session.open("A1", INPUT | OUTPUT | BROWSE | c.MQOO_INQUIRE)
    administration.alter(queue_manager.engine, QALIAS, "A1", {"TARGET": "Q2"})
    session.put("Q1", b"x")
    for call in (
        lambda: handle.put(b"y", PutRequest(V2)),
        lambda: take(handle),
        lambda: take(handle, c.MQGMO_BROWSE_NEXT),
        lambda: inquire(queue_manager.engine, handle, [c.MQCA_BASE_OBJECT_NAME]),
    ):
        with refused(rc.MQRC_OBJECT_CHANGED):
            call()
    assert [queue_manager.curdepth(name) for name in ("Q1", "Q2")] == [1, 0]
    handle.close()
    session.open("A1", OUTPUT).put(b"y", PutRequest(V2))
    assert queue_manager.curdepth("Q2") == 1


def test_C6_2041_ends_a_wait(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager, "Q1")
    local(queue_manager, "Q2")
    alias(queue_manager, "A1", "Q1")
    handle = session.open("A1", INPUT)
    waiter = waiting(
        queue_manager, "Q1", lambda: take(handle, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED)
    )
    administration.alter(queue_manager.engine, QALIAS, "A1", {"TARGET": "Q2"})
    waiter.finish()
    assert waiter.error is not None
    assert waiter.error.reason == rc.MQRC_OBJECT_CHANGED


def test_C6_2041_when_a_queue_becomes_a_transmission_queue_or_none(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    for usage in (c.MQUS_TRANSMISSION, c.MQUS_NORMAL):
        handle = session.open("Q1", INPUT | OUTPUT)
        alter(queue_manager, "Q1", USAGE=usage)
        with refused(rc.MQRC_OBJECT_CHANGED):
            handle.put(b"x", PutRequest(V2))
        handle.close()


def test_C6_other_changes_leave_a_handle_valid(
    queue_manager: QueueManager, session: Session
) -> None:
    """They hold for its next calls; an alias that is back where it was leads on as before."""
    local(queue_manager)
    alias(queue_manager, "A1", "Q1")
    handle = session.open("A1", INPUT | OUTPUT)
    alter(queue_manager, "Q1", MAXDEPTH=1, CAPEXPRY=600)
    administration.alter(queue_manager.engine, QALIAS, "A1", {"DESCR": "new", "TARGET": "GONE"})
    administration.alter(queue_manager.engine, QALIAS, "A1", {"TARGET": "Q1"})
    handle.put(b"x", PutRequest(V2))
    with refused(rc.MQRC_Q_FULL):
        handle.put(b"x", PutRequest(V2))
    assert take(handle).message.remaining_ms == 60_000
