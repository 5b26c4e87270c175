"""Open, resolve and close, rules C1, C4, C5, C8 and C9."""

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import PutRequest, Session
from mayfly.engine.api.administration import QALIAS, QLOCAL, QMODEL
from mayfly.engine.api.programs import inquire, set_attributes
from mayfly.engine.objects import administration, registry
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
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
)

MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"
EXCLUSIVE, AS_DEFINED = c.MQOO_INPUT_EXCLUSIVE, c.MQOO_INPUT_AS_Q_DEF


def test_C1_names_that_lead_nowhere(queue_manager: QueueManager, session: Session) -> None:
    alias(queue_manager, "A1", "GONE")
    alias(queue_manager, "A2", "A1")
    for name, reason in (
        ("NOBODY", rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("", rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("A1", rc.MQRC_UNKNOWN_ALIAS_BASE_Q),
        ("A2", rc.MQRC_ALIAS_BASE_Q_TYPE_ERROR),
    ):
        with refused(reason):
            session.open(name, OUTPUT)
        with refused(reason):
            session.put(name, b"x")
        with refused(reason):
            session.get(name)


def test_C1_a_name_has_48_characters_at_the_most(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, "A" * 48)
    session.put("A" * 48, b"x")
    with refused(rc.MQRC_OBJECT_NAME_ERROR):
        local(queue_manager, "A" * 49)
    for name in ("A" * 49, "A" * 47, " ", "A" * 48 + " "):
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            session.put(name, b"x")
    assert queue_manager.curdepth("A" * 48) == 1


@pytest.mark.in_process
@pytest.mark.interpreted  # The compiler's own TypeError says it in other words.
@pytest.mark.parametrize("name", [None, 5, b"Q1", ("Q1",)])
def test_C1_what_is_no_text_names_no_queue(
    queue_manager: QueueManager, session: Session, name: Any
) -> None:
    local(queue_manager)
    for verb in (
        lambda: session.open(name, OUTPUT),
        lambda: session.put(name, b"x"),
        lambda: session.get(name),
        lambda: list(session.browse(name)),
    ):
        with pytest.raises(TypeError, match="the name of a queue is a str"):
            verb()


def test_C2_names_of_queues_elsewhere_are_not_remembered_without_end(
    queue_manager: QueueManager, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    local(queue_manager, "QM2", USAGE=c.MQUS_TRANSMISSION)
    monkeypatch.setattr(registry, "MAX_PATHS", 10)
    for number in range(25):
        session.put(f"REPLY.{number}@QM2", b"x")
    assert len(queue_manager.engine.registry._paths) <= 10
    assert queue_manager.curdepth("QM2") == 25


def test_C1_deleted_since_the_open(queue_manager: QueueManager, session: Session) -> None:
    """A queue that takes the name later is another one."""
    local(queue_manager)
    handle = session.open("Q1", BROWSE)
    administration.delete(queue_manager.engine, QLOCAL, "Q1")
    with refused(rc.MQRC_Q_DELETED):
        take(handle, c.MQGMO_BROWSE_NEXT)
    local(queue_manager)
    session.put("Q1", b"x")
    with refused(rc.MQRC_Q_DELETED):
        take(handle, c.MQGMO_BROWSE_NEXT)
    handle.close()


@pytest.mark.parametrize(
    ("first", "second", "attributes", "conflict"),
    [
        (INPUT, INPUT, {}, False),
        (INPUT, EXCLUSIVE, {}, True),
        (EXCLUSIVE, INPUT, {}, True),
        (EXCLUSIVE, EXCLUSIVE, {}, True),
        (AS_DEFINED, INPUT, {}, False),
        (AS_DEFINED, INPUT, {"DEFSOPT": EXCLUSIVE}, True),
        (INPUT, INPUT, {"SHARE": c.MQQA_NOT_SHAREABLE}, True),
        (EXCLUSIVE, BROWSE | OUTPUT, {}, False),
    ],
)
def test_C4_exclusive_input(
    queue_manager: QueueManager,
    session: Session,
    first: int,
    second: int,
    attributes: dict[str, int],
    conflict: bool,
    new_session: NewSession,
) -> None:
    local(queue_manager)
    alter(queue_manager, "Q1", **attributes)
    with new_session(queue_manager) as other:
        held = session.open("Q1", first)
        if conflict:
            with refused(rc.MQRC_OBJECT_IN_USE):
                other.open("Q1", second)
            held.close()
        other.open("Q1", second).close()


@pytest.mark.in_process
def test_C4_native_get_respects_exclusive_input(
    queue_manager: QueueManager, session: Session, new_session: NewSession
) -> None:
    """The holder's own native get is let through."""
    local(queue_manager)
    session.put("Q1", b"x")
    session.open("Q1", EXCLUSIVE)
    with new_session(queue_manager) as other, refused(rc.MQRC_OBJECT_IN_USE):
        other.get("Q1")
    assert body(session.get("Q1")) == b"x"


@pytest.mark.parametrize("on_alias", [False, True])
def test_C5_inhibits_are_checked_at_the_call(
    queue_manager: QueueManager, session: Session, on_alias: bool
) -> None:
    """The open works; an alias's inhibit counts for those who come through the alias."""
    local(queue_manager)
    alias(queue_manager, "A1", "Q1")
    kind, name = (QALIAS, "A1") if on_alias else (QLOCAL, "Q1")
    administration.alter(queue_manager.engine, kind, name, {"PUT": c.MQQA_PUT_INHIBITED})
    administration.alter(queue_manager.engine, kind, name, {"GET": c.MQQA_GET_INHIBITED})
    handle = session.open("A1", INPUT | OUTPUT | BROWSE)
    with refused(rc.MQRC_PUT_INHIBITED):
        handle.put(b"x", PutRequest(V2))
    for options in (c.MQGMO_NONE, c.MQGMO_BROWSE_FIRST, c.MQGMO_MSG_UNDER_CURSOR):
        with refused(rc.MQRC_GET_INHIBITED):
            take(handle, options)
    administration.alter(queue_manager.engine, kind, name, {"PUT": c.MQQA_PUT_ALLOWED})
    administration.alter(queue_manager.engine, kind, name, {"GET": c.MQQA_GET_ALLOWED})
    handle.put(b"x", PutRequest(V2))
    assert take(handle).message.body == b"x"
    if on_alias:
        session.put("Q1", b"not through the alias")


def test_C8_call_on_a_handle_not_opened_for_it(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    session.put("Q1", b"x")
    output, reader = session.open("Q1", OUTPUT), session.open("Q1", INPUT)
    browser = session.open("Q1", BROWSE)
    with refused(rc.MQRC_NOT_OPEN_FOR_OUTPUT):
        reader.put(b"x", PutRequest(V2))
    with refused(rc.MQRC_NOT_OPEN_FOR_INPUT):
        take(output)
    with refused(rc.MQRC_NOT_OPEN_FOR_INPUT):
        take(browser)
    take(browser, c.MQGMO_BROWSE_FIRST)
    with refused(rc.MQRC_NOT_OPEN_FOR_INPUT):
        take(browser, c.MQGMO_MSG_UNDER_CURSOR)
    with refused(rc.MQRC_NOT_OPEN_FOR_BROWSE):
        take(reader, c.MQGMO_BROWSE_FIRST)
    with refused(rc.MQRC_NOT_OPEN_FOR_BROWSE):
        reader.unlock()
    assert queue_manager.curdepth("Q1") == 1


def test_C8_closed_handle(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    handle = session.open("Q1", INPUT | OUTPUT)
    handle.close()
    with refused(rc.MQRC_HOBJ_ERROR):
        handle.put(b"x", PutRequest(V2))
    with refused(rc.MQRC_HOBJ_ERROR):
        take(handle)
    with refused(rc.MQRC_HOBJ_ERROR):
        handle.close()
    assert queue_manager.engine.registry.queue("Q1").is_open is False


@pytest.mark.parametrize("options", [0, INPUT | EXCLUSIVE, 0x40000000])
def test_C8_open_options(queue_manager: QueueManager, session: Session, options: int) -> None:
    local(queue_manager)
    with refused(rc.MQRC_OPTIONS_ERROR):
        session.open("Q1", options)


@pytest.mark.parametrize("options", [INPUT | OUTPUT, OUTPUT, BROWSE, INPUT | OUTPUT | BROWSE])
def test_C9_temporary_queue_goes_with_its_creator_messages_and_all(
    queue_manager: QueueManager, options: int, new_session: NewSession
) -> None:
    with new_session(queue_manager) as session:
        handle = session.open(MODEL, options)
        name = handle.queue_name
        assert name.startswith("AMQ.")
        assert len(name) <= 48
        session.put(name, b"x")
        handle.close()
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            session.put(name, b"x")


def test_C9_temporary_queue_goes_at_the_disconnect_in_whatever_order(
    queue_manager: QueueManager,
    new_session: NewSession,
) -> None:
    """Others that have it open find it deleted."""
    with new_session(queue_manager) as other:
        with new_session(queue_manager) as session:
            creator = session.open(MODEL, INPUT)
            for _ in range(4):
                session.open(creator.queue_name, INPUT | OUTPUT)
            theirs = other.open(creator.queue_name, INPUT | OUTPUT)
        with refused(rc.MQRC_Q_DELETED):
            take(theirs)
        with refused(rc.MQRC_Q_DELETED):
            theirs.put(b"x", PutRequest(V2))
        theirs.close()


def test_C9_second_handle_does_not_take_the_temporary_queue_with_it(
    queue_manager: QueueManager, session: Session
) -> None:
    creator = session.open(MODEL, INPUT)
    session.open(creator.queue_name, OUTPUT).close()
    session.put(creator.queue_name, b"x")
    assert take(creator).message.body == b"x"


def test_C9_permanent_queue_goes_only_when_told_to(
    queue_manager: QueueManager, session: Session
) -> None:
    permanent = {"DEFTYPE": c.MQQDT_PERMANENT_DYNAMIC}
    administration.define(queue_manager.engine, QMODEL, "MODEL", permanent)
    handle = session.open("MODEL", INPUT | OUTPUT, dynamic_name="MINE")
    session.put("MINE", b"x", persistent=True)
    handle.close()
    assert queue_manager.curdepth("MINE") == 1
    again = session.open("MINE", INPUT)
    with refused(rc.MQRC_Q_NOT_EMPTY):
        again.close(c.MQCO_DELETE)
    assert take(again).message.body == b"x"
    again.close(c.MQCO_DELETE)
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.open("MINE", INPUT)
    third = session.open("MODEL", INPUT, dynamic_name="MINE")
    session.put("MINE", b"x")
    third.close(c.MQCO_DELETE_PURGE)
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.put("MINE", b"x")


def test_C9_delete_options_are_for_dynamic_queues(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    handle = session.open("Q1", INPUT)
    for options in (c.MQCO_DELETE, c.MQCO_DELETE_PURGE):
        with refused(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE):
            handle.close(options)
    for options in (c.MQCO_DELETE | c.MQCO_DELETE_PURGE, 0x40000000):
        with refused(rc.MQRC_OPTIONS_ERROR):
            handle.close(options)
    handle.close()


def test_C9_name_of_a_dynamic_queue(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager, "TAKEN")
    with refused(rc.MQRC_OBJECT_ALREADY_EXISTS):
        session.open(MODEL, INPUT, dynamic_name="TAKEN")
    with refused(rc.MQRC_DYNAMIC_Q_NAME_ERROR):
        session.open(MODEL, INPUT, dynamic_name="a b")
    first = session.open(MODEL, INPUT, dynamic_name="REPLY.*")
    second = session.open(MODEL, INPUT, dynamic_name="REPLY.*")
    assert first.queue_name != second.queue_name
    assert first.queue_name.startswith("REPLY.")


@pytest.mark.in_process
def test_C9_queue_in_use_is_not_deleted_or_cleared(
    queue_manager: QueueManager, session: Session, unit: Session, clock: VirtualClock
) -> None:
    """Open, or with uncommitted work; not empty; then gone."""
    local(queue_manager)
    handle = session.open("Q1", INPUT)
    for change in (administration.clear, lambda qm, name: administration.delete(qm, QLOCAL, name)):
        with refused(rc.MQRC_OBJECT_IN_USE):
            change(queue_manager.engine, "Q1")
    handle.close()
    unit.put("Q1", b"x", time_to_live_ms=1)
    with refused(rc.MQRC_OBJECT_IN_USE):
        administration.delete(queue_manager.engine, QLOCAL, "Q1", purge=True)
    unit.commit()
    clock.advance(1)
    with refused(rc.MQRC_Q_NOT_EMPTY):
        administration.delete(queue_manager.engine, QLOCAL, "Q1")
    assert administration.clear(queue_manager.engine, "Q1") == 1
    administration.delete(queue_manager.engine, QLOCAL, "Q1")


def test_C8_inquire_and_set_need_their_options(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    handle = session.open("Q1", INPUT | OUTPUT | BROWSE)
    with refused(rc.MQRC_NOT_OPEN_FOR_INQUIRE):
        inquire(queue_manager.engine, handle, [c.MQIA_CURRENT_Q_DEPTH])
    with refused(rc.MQRC_NOT_OPEN_FOR_SET):
        set_attributes(queue_manager.engine, handle, {c.MQIA_INHIBIT_PUT: c.MQQA_PUT_INHIBITED})
    session.put("Q1", b"x")


@pytest.mark.in_process
def test_C8_E12_inquired_depth_counts_expired_messages(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", time_to_live_ms=1)
    clock.advance(1)
    handle = session.open("Q1", c.MQOO_INQUIRE | c.MQOO_SET)
    assert inquire(queue_manager.engine, handle, [c.MQIA_CURRENT_Q_DEPTH]).values == [1]
    set_attributes(queue_manager.engine, handle, {c.MQIA_INHIBIT_PUT: c.MQQA_PUT_INHIBITED})
    with refused(rc.MQRC_PUT_INHIBITED):
        session.put("Q1", b"x")
