"""What the staging queue shows, rules D2 and D3: the header to the byte, new and original ids."""

from collections.abc import Callable
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.mqi import reasons as rc
from mayfly.mqi.delay_header import read_delay_header
from mayfly.mqi.structures import DDH
from mayfly.store.keys import staging_id
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.over import NewSession
from tests.spec.scene import (
    STAGING,
    START_MS,
    V2,
    ZERO_ID,
    alias,
    bodies,
    lives,
    local,
    put_md,
    refused,
)

FORMAT = "MQHDDLY"
OWN, OTHER = b"M" * 24, b"N" * 24
Damage = Callable[[bytes], bytes]


def header_bytes(msg_id: bytes, *, due_ms: int, number: int = 1, correl_id: bytes = b"") -> bytes:
    """Return the header of a message for Q1, field by field from its documented layout."""
    return b"".join(
        (
            b"DDH ",
            (1).to_bytes(4, "little"),
            (208).to_bytes(4, "little"),
            number.to_bytes(4, "little"),
            due_ms.to_bytes(8, "little"),
            b"Q1".ljust(48),
            b"QM1".ljust(48),
            msg_id.ljust(24, b"\0"),
            correl_id.ljust(24, b"\0"),
            (273).to_bytes(4, "little"),
            (1208).to_bytes(4, "little"),
            b"MQSTR   ",
            bytes(24),
        )
    )


@pytest.mark.parametrize("way", ["browse", "get"])
def test_D2_header_and_data_are_exact_to_the_byte(
    any_manager: QueueManager, persistent: bool, way: str, new_session: NewSession
) -> None:
    local(any_manager)
    number = any_manager.engine.registry.queue("Q1").number
    md = V2._replace(
        format="MQSTR", encoding=273, coded_char_set_id=1208, persistence=int(persistent)
    )
    with new_session(any_manager) as session:
        sent = put_md(
            session, "Q1", b"data", md, delay_ms=5_000, correl_id=b"mine".ljust(24, b"\0")
        ).msg_id
        seen = next(session.browse(STAGING)) if way == "browse" else session.get(STAGING)
    assert seen is not None
    expected = header_bytes(sent, due_ms=START_MS + 5_000, number=number, correl_id=b"mine")
    assert len(expected) == 208
    assert seen.body == expected + b"data"
    assert seen.descriptor.format == FORMAT
    assert (seen.put_ms, seen.deliver_at_ms) == (START_MS, START_MS + 5_000)
    assert seen.correl_id == sent
    assert seen.msg_id not in (sent, ZERO_ID)
    assert seen.persistent == persistent


def test_D2_target_is_named_as_at_the_put(queue_manager: QueueManager, session: Session) -> None:
    local(queue_manager)
    alias(queue_manager, "A1", "Q1")
    session.put("A1", b"x", delay_ms=1_000)
    assert DDH.unpack(next(session.browse(STAGING)).body)["TargetQName"] == "A1"
    assert queue_manager.counts("Q1").staged == 1


@pytest.mark.parametrize("is_moved", [False, True], ids=["as put", "rescheduled"])
@pytest.mark.parametrize("given", [None, OWN, b"AMQ QM1", b"\xff" * 24, b"\x00" * 23 + b"\x01"])
def test_D3_found_by_both_ids_before_and_after_a_reschedule(
    any_manager: QueueManager,
    persistent: bool,
    given: bytes | None,
    is_moved: bool,
    new_session: NewSession,
) -> None:
    """CorrelId is the original MsgId; the MsgId on staging is new and stays the same."""
    local(any_manager)
    with new_session(any_manager) as session:
        session.put("Q1", b"other", delay_ms=500, persistent=persistent)
        sent = session.put("Q1", b"x", delay_ms=1_000, persistent=persistent, msg_id=given)
        first_id = next(session.browse(STAGING, correl_id=sent)).msg_id
        if is_moved:
            assert session.schedule.reschedule(sent, delay_ms=7_000) is Receipt.RESCHEDULED
        matches: tuple[dict[str, Any], ...] = (
            {"correl_id": sent},
            {"msg_id": first_id},
            {"msg_id": first_id, "correl_id": sent},
        )
        for match in matches:
            found = list(session.browse(STAGING, **match))
            assert [(m.msg_id, m.correl_id) for m in found] == [(first_id, sent)]
            assert DDH.unpack(found[0].body)["DueTime"] == START_MS + (7_000 if is_moved else 1_000)
        strangers: tuple[dict[str, Any], ...] = (
            {"msg_id": sent},
            {"correl_id": first_id},
            {"msg_id": first_id, "correl_id": OTHER},
            {"msg_id": OTHER, "correl_id": sent},
        )
        for nothing in strangers:
            assert list(session.browse(STAGING, **nothing)) == []
        taken = session.get(STAGING, msg_id=first_id)
        assert taken is not None
        assert taken.body[208:] == b"x"
        assert any_manager.curdepth(STAGING) == 1


def test_D3_get_by_the_sender_s_correl_id_finds_nothing_on_staging(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=1_000, correl_id=OWN)
    assert session.get(STAGING, correl_id=OWN) is None
    assert queue_manager.curdepth(STAGING) == 1


@pytest.mark.parametrize("delays_ms", [(1_000, 2_000), (2_000, 1_000), (1_000, 1_000)])
def test_D3_messages_of_one_given_msg_id_are_all_found_in_due_order(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    delays_ms: tuple[int, int],
    new_session: NewSession,
) -> None:
    local(any_manager)
    bodies_sent = [b"a", b"b"]
    in_order = bodies_sent if delays_ms[0] <= delays_ms[1] else bodies_sent[::-1]
    with new_session(any_manager) as session:
        for text, delay_ms in zip(bodies_sent, delays_ms, strict=True):
            session.put("Q1", text, delay_ms=delay_ms, msg_id=OWN, persistent=persistent)
        found = list(session.browse(STAGING, correl_id=OWN))
        assert [m.body[208:] for m in found] == in_order
        clock.advance(2_000)
        assert bodies(session, "Q1") == in_order


@pytest.mark.parametrize("delays_ms", [(1_000, 2_000), (2_000, 1_000), (1_000, 1_000)])
def test_D3_a_generated_msg_id_sent_again_hides_neither_message(
    any_manager: QueueManager,
    clock: VirtualClock,
    persistent: bool,
    delays_ms: tuple[int, int],
    new_session: NewSession,
) -> None:
    """The generated id tells the key of the first; the second stands elsewhere."""
    local(any_manager)
    with new_session(any_manager) as session, new_session(any_manager, transacted=True) as unit:
        sent = session.put("Q1", b"first", delay_ms=delays_ms[0], persistent=persistent)
        session.put("Q1", b"again", delay_ms=delays_ms[1], msg_id=sent, persistent=persistent)
        in_order = [b"first", b"again"] if delays_ms[0] <= delays_ms[1] else [b"again", b"first"]
        found = list(session.browse(STAGING, correl_id=sent))
        assert [m.body[208:] for m in found] == in_order
        for expected in in_order:
            taken = unit.get(STAGING, correl_id=sent)
            assert taken is not None
            assert taken.body[208:] == expected
        unit.backout()
        assert [session.schedule.cancel(sent) for _ in range(3)] == [Receipt.CANCELLED] * 3
        assert any_manager.curdepth(STAGING) == 0


def test_D3_ids_are_the_original_ones_on_the_target_after_a_reschedule(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    local(any_manager)
    with new_session(any_manager) as session:
        sent = session.put("Q1", b"x", delay_ms=1_000, correl_id=b"mine", persistent=persistent)
        session.schedule.reschedule(sent, delay_ms=3_000)
        staged_id = next(session.browse(STAGING)).msg_id
        clock.advance(3_000)
        found = session.get("Q1", msg_id=sent)
    assert found is not None
    assert (found.msg_id, found.correl_id) == (sent, b"mine".ljust(24, b"\0"))
    assert (found.put_ms, found.deliver_at_ms) == (START_MS, START_MS + 3_000)
    assert lives(any_manager, "Q1")[0].origin_id == staged_id
    assert [r.msg_id for r in lives(any_manager, STAGING)] == [staged_id]


def test_D3_messages_of_one_given_msg_id_have_each_their_own_on_staging(
    any_manager: QueueManager, clock: VirtualClock, persistent: bool, new_session: NewSession
) -> None:
    """By it each is found, also when it has another delivery time; their sender's finds both."""
    local(any_manager)
    with new_session(any_manager) as session:
        for text in (b"a", b"b"):
            session.put("Q1", text, delay_ms=1_000, msg_id=OWN, persistent=persistent)
        for _ in range(2):
            shown = list(session.browse(STAGING))
            first, second = (m.msg_id for m in shown)
            assert len({first, second, OWN, ZERO_ID}) == 4
            assert [m.correl_id for m in shown] == [OWN, OWN]
            assert [m.msg_id for m in session.browse(STAGING, correl_id=OWN)] == [first, second]
            for message in shown:
                for correl_id, expected in ((None, 1), (OWN, 1), (OTHER, 0)):
                    found = session.browse(STAGING, msg_id=message.msg_id, correl_id=correl_id)
                    assert [m.body for m in found] == [message.body] * expected
            assert list(session.browse(STAGING, msg_id=staging_id(OWN))) == []
            assert session.schedule.reschedule(OWN, delay_ms=3_000) == Receipt.RESCHEDULED
        taken = session.get(STAGING, msg_id=second)
        assert taken is not None
        assert taken.body[208:] == shown[1].body[208:]
        clock.advance(3_000)
        assert bodies(session, "Q1") == [shown[0].body[208:]]
    assert [r.msg_id for r in lives(any_manager, STAGING)] == [second, first]


def test_D3_no_given_msg_id_becomes_no_msg_id_at_all(
    queue_manager: QueueManager, session: Session
) -> None:
    """Its staging MsgId was once the given one with a few bits changed; these made zeros of it."""
    local(queue_manager)
    session.put("Q1", b"x", delay_ms=1_000, msg_id=b"\0\0\0d")
    assert next(session.browse(STAGING)).msg_id != ZERO_ID


@pytest.mark.in_process
def test_D25_copies_of_a_delayed_publication_have_each_their_own_msg_id_on_staging(
    queue_manager: QueueManager, session: Session
) -> None:
    local(queue_manager, "Q1")
    for name in ("one", "two"):
        session.subscribe("news", name=name, durable=True, queue="Q1")
    sent = session.publish("news", b"x", delay_ms=1_000).msg_id
    shown = list(session.browse(STAGING))
    assert [m.correl_id for m in shown] == [sent, sent]
    assert len({m.msg_id for m in shown}) == 2


def test_D3_what_is_taken_from_staging_says_what_it_was(
    any_manager: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    """By MsgId of the sender as CorrelId; data and properties are read past the header."""
    local(any_manager)
    with new_session(any_manager) as session:
        msg_id = session.put(
            "Q1",
            b"data",
            correl_id=b"mine",
            delay_ms=5_000,
            properties={"colour": "red"},
            format_name="MQSTR",
            persistent=persistent,
        )
        seen = session.get(STAGING, correl_id=msg_id)
    assert seen is not None
    header = seen.delay_header
    assert header is not None
    assert (header.target_queue, header.target_manager) == ("Q1", any_manager.name)
    assert header.deliver_at_ms == START_MS + 5_000
    assert (header.msg_id, header.correl_id) == (msg_id, b"mine".ljust(24, b"\0"))
    assert (header.format, header.length_bytes) == ("MQHRF2", 208)
    assert seen.data == b"data"
    assert seen.properties == {"colour": "red"}


def test_D3_a_message_that_does_not_wait_has_no_delay_header(
    queue_manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    local(queue_manager)
    session.put("Q1", b"now")
    session.put("Q1", b"later", delay_ms=1)
    clock.advance(1)
    for expected in (b"now", b"later"):
        message = session.get("Q1")
        assert message is not None
        assert message.delay_header is None
        assert message.data == expected


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:207],
        lambda whole: b"ABC " + whole[4:],
        lambda whole: whole[:8] + (207).to_bytes(4, "little") + whole[12:],
        lambda whole: whole[:8] + (213).to_bytes(4, "little") + whole[12:],
        lambda whole: whole[:8] + b"\xff" * 4 + whole[12:],
    ],
)
def test_P12_a_delay_header_that_cannot_be_read_is_data(
    queue_manager: QueueManager, session: Session, damage: Damage
) -> None:
    """With its header the message has 212 bytes, so StrucLength is 208 to 212."""
    local(queue_manager)
    whole = header_bytes(b"M", due_ms=START_MS) + b"data"
    assert read_delay_header(whole).length_bytes == 208
    damaged = damage(whole)
    with refused(rc.MQRC_HEADER_ERROR):
        read_delay_header(damaged)
    put_md(session, "Q1", damaged, V2._replace(format=FORMAT))
    message = session.get("Q1")
    assert message is not None
    assert message.delay_header is None
    assert message.data == damaged
