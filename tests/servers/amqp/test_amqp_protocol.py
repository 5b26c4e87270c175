"""What the specification of AMQP says of frames that are wrong, or ask for something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from proton import Delivery, Described, Link, Message, symbol, uint, ulong

from mayfly import QueueManager
from mayfly.servers.amqp.connection import AmqpServer
from mayfly.servers.amqp.frames import ClientFrames, Found, RefusedFrame
from tests.facts import wait_until
from tests.servers.amqp import frames
from tests.servers.amqp.client import TRANSACTIONAL_STATE, Client
from tests.servers.amqp.frames import (
    ACCEPTED,
    ATTACH,
    BEGIN,
    CLOSE,
    COORDINATOR,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    REJECTED,
    SOURCE,
    TARGET,
    TRANSFER,
    Frames,
)

New = Callable[..., Client]
DECODE_ERROR = "amqp:decode-error"
UNATTACHED = "amqp:session:unattached-handle"
TOO_LARGE = "amqp:link:message-size-exceeded"
NOUGHT = uint(0)


@pytest.fixture
def raw(port: int) -> Iterator[Frames]:
    one = Frames(port)
    yield one
    one.cut()


def encoded(body: object = "x", **fields: object) -> bytes:
    return bytes(Message(body=body, **fields).encode())


# 2.7: a mandatory field that is null.


@pytest.mark.parametrize("fields", [[], [None, "localhost"]], ids=["empty", "null"])
def test_AMQP_2_7_1_open_without_container_id_is_a_decode_error(
    raw: Frames, fields: list[object]
) -> None:
    raw.send(OPEN, *fields)
    closed = raw.read(CLOSE)
    assert closed.condition == DECODE_ERROR
    assert "open: container-id" in closed.field(0).value[1]
    assert raw.is_over()


@pytest.mark.parametrize(
    ("code", "fields", "name"),
    [
        (BEGIN, [None, None, uint(9), uint(9)], "begin: next-outgoing-id"),
        (BEGIN, [None, NOUGHT, None, uint(9)], "begin: incoming-window"),
        (BEGIN, [None, NOUGHT, uint(9)], "begin: outgoing-window"),
        (ATTACH, [None, NOUGHT, False], "attach: name"),
        (ATTACH, ["link", None, False], "attach: handle"),
        (ATTACH, ["link", NOUGHT, None], "attach: role"),
        (FLOW, [NOUGHT, None, NOUGHT, uint(9)], "flow: incoming-window"),
        (FLOW, [NOUGHT, uint(9), None, uint(9)], "flow: next-outgoing-id"),
        (FLOW, [NOUGHT, uint(9), NOUGHT, None], "flow: outgoing-window"),
        (TRANSFER, [None, NOUGHT, b"tag"], "transfer: handle"),
        (TRANSFER, [], "transfer: handle"),
        (DISPOSITION, [None, NOUGHT], "disposition: role"),
        (DISPOSITION, [True, None], "disposition: first"),
        (DETACH, [None, True], "detach: handle"),
        (DETACH, [], "detach: handle"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_AMQP_2_7_a_mandatory_field_that_is_null_is_a_decode_error(
    raw: Frames, qm: QueueManager, code: int, fields: list[object], name: str
) -> None:
    raw.begin()
    raw.attach(7)
    raw.transfer(7, 0, encoded(), settled=True)
    raw.send(code, *fields, channel=1 if code == BEGIN else 0)
    closed = raw.read(CLOSE)
    assert closed.condition == DECODE_ERROR
    assert name in closed.field(0).value[1]
    # What came before it counts.
    wait_until(lambda: qm.counts("Q1").live == 1)


def test_AMQP_2_7_a_frame_that_comes_byte_by_byte_is_looked_at_as_a_whole(
    raw: Frames, qm: QueueManager
) -> None:
    raw.begin()
    raw.attach(0)
    whole = frames.frame(TRANSFER, NOUGHT, NOUGHT, b"tag", None, True, payload=encoded())
    for at in range(len(whole)):
        raw.write(whole[at : at + 1])
    for byte in frames.frame(DETACH, None):
        raw.write(bytes([byte]))
    assert raw.read(CLOSE).condition == DECODE_ERROR
    wait_until(lambda: qm.counts("Q1").live == 1)


# 2.5.1, 2.7: handles.


@pytest.mark.parametrize("code", [TRANSFER, FLOW, DETACH])
def test_AMQP_2_5_1_an_unknown_handle_ends_the_session_with_unattached_handle(
    raw: Frames, qm: QueueManager, code: int
) -> None:
    raw.begin()
    raw.begin(1)
    raw.attach(0)
    unknown: dict[int, tuple[object, ...]] = {
        TRANSFER: (uint(5), NOUGHT, b"tag"),
        FLOW: (NOUGHT, uint(9), NOUGHT, uint(9), uint(5), NOUGHT, uint(1)),
        DETACH: (uint(5), True),
    }
    raw.send(code, *unknown[code], payload=encoded() if code == TRANSFER else b"")
    # It has been sent before the end of the session was seen.
    raw.send(code, *unknown[code], payload=encoded() if code == TRANSFER else b"")
    ended = raw.read(END, CLOSE)
    assert (ended.code, ended.channel, ended.condition) == (END, 0, UNATTACHED)
    raw.send(END)
    # The other session goes on, and so does the connection.
    raw.send(ATTACH, "other", NOUGHT, True, channel=1)
    assert raw.read(ATTACH, CLOSE).code == ATTACH
    raw.begin()
    assert qm.counts("Q1").live == 0


def test_AMQP_2_7_3_a_handle_that_is_attached_twice_ends_the_session_with_handle_in_use(
    raw: Frames,
) -> None:
    raw.begin()
    raw.attach(0)
    raw.send(ATTACH, "another", NOUGHT, True)
    ended = raw.read(END, CLOSE)
    assert (ended.code, ended.condition) == (END, "amqp:session:handle-in-use")


def test_AMQP_2_7_7_a_handle_is_free_behind_its_detach(raw: Frames) -> None:
    raw.begin()
    for _ in range(3):
        raw.attach(0)
        raw.send(DETACH, NOUGHT, True)
        assert raw.read(DETACH).field(1) is True


# 2.7.4: echo.


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("sends", [True, False])
def test_AMQP_2_6_3_a_link_is_detached_before_one_of_its_name_is_attached(
    raw: Frames, sends: bool, is_closed: bool
) -> None:
    """Both frames come in one segment; a client finds the link by its name."""
    raw.begin()
    raw.attach(0, sends=sends)
    source: list[object] = [None if sends else "Q1", *[None] * 10]
    target = ["Q1" if sends else None]
    terminals = Described(ulong(SOURCE), source), Described(ulong(TARGET), target)
    more = (None, None, NOUGHT) if sends else ()
    again = frames.frame(ATTACH, "link-0", uint(1), not sends, None, None, *terminals, *more)
    raw.write(frames.frame(DETACH, NOUGHT, is_closed) + again)
    answers = [raw.read(DETACH, ATTACH) for _ in range(2)]
    assert [answer.code for answer in answers] == [DETACH, ATTACH]
    assert not answers[0].condition


def test_AMQP_2_7_4_a_flow_of_a_session_with_echo_is_answered(raw: Frames) -> None:
    raw.begin()
    # proton sends one of its own.
    raw.read(FLOW)
    raw.send(FLOW, NOUGHT, uint(9), NOUGHT, uint(9), None, None, None, None, None, True)
    answer = raw.read(FLOW)
    assert answer.field(4) is None
    assert not answer.field(9)


def test_AMQP_2_7_4_a_flow_of_a_sender_with_echo_is_answered_with_its_credit(raw: Frames) -> None:
    raw.begin()
    handle = raw.attach(3).field(1)
    assert raw.link_flow(handle) == (0, 10)
    raw.send(FLOW, NOUGHT, uint(9), NOUGHT, uint(9), uint(3), NOUGHT, None, None, None, True)
    assert raw.link_flow(handle) == (0, 10)


def test_AMQP_2_7_4_a_flow_of_a_receiver_with_echo_is_answered_with_its_credit(
    raw: Frames, qm: QueueManager
) -> None:
    with qm.session() as session:
        for _ in range(2):
            session.put("Q1", b"x")
    raw.begin(1)
    raw.begin()
    raw.attach(6)
    handle = raw.attach(5, sends=False).field(1)
    state = (NOUGHT, uint(99), NOUGHT, uint(99), uint(5))
    raw.send(FLOW, *state, NOUGHT, uint(3), None, None, True)
    # The messages that the credit brings may come before it or behind it.
    assert sum(raw.link_flow(handle)) == 3
    wait_until(lambda: qm.counts("Q1").locked == 2)
    raw.send(FLOW, uint(2), *state[1:], uint(2), uint(7), None, None, True)
    assert raw.link_flow(handle) == (2, 7)
    raw.send(FLOW, uint(2), *state[1:], uint(2), uint(7), None, True, True)
    # The drain is answered when the queue was looked at.
    assert [raw.link_flow(handle), raw.link_flow(handle)] == [(2, 7), (9, 0)]


# 3.4.3: the error of a transfer that is refused.


def test_AMQP_3_4_3_rejected_names_the_delivery_tag(raw: Frames) -> None:
    raw.begin()
    raw.attach(0, address="SMALL")
    for number in range(2):
        raw.transfer(0, number, encoded())
    found = [raw.read(DISPOSITION, DETACH) for _ in range(2)]
    outcome = next(each.outcome for each in found if each.outcome.descriptor == REJECTED)
    condition, _description, info = outcome.value[0].value
    assert condition == "amqp:resource-limit-exceeded"
    assert info == {symbol("delivery-tag"): b"tag1"}


@pytest.mark.parametrize(
    ("outcomes", "default_outcome", "is_settled"),
    [
        (["amqp:accepted:list", "amqp:released:list"], None, False),
        ([], Described(ulong(ACCEPTED), []), False),
        ([], None, True),
        (["amqp:rejected:list"], None, True),
    ],
)
def test_AMQP_3_5_3_a_source_that_takes_no_rejected_is_detached_with_the_delivery_tag(
    raw: Frames, outcomes: list[str], default_outcome: object, is_settled: bool
) -> None:
    raw.begin()
    raw.attach(0, address="SMALL", outcomes=outcomes, default_outcome=default_outcome)
    raw.transfer(0, 0, encoded())
    assert raw.read(DISPOSITION).outcome.descriptor == ACCEPTED
    raw.transfer(0, 1, encoded(), settled=is_settled)
    detached = raw.read(DISPOSITION, DETACH)
    assert (detached.code, detached.condition) == (DETACH, "amqp:resource-limit-exceeded")
    assert detached.field(2).value[2] == {symbol("delivery-tag"): b"tag1"}


@pytest.mark.parametrize(
    ("outcomes", "default_outcome"),
    [
        (["amqp:accepted:list", "amqp:rejected:list"], None),
        ([], Described(ulong(REJECTED), [])),
        ([], None),
    ],
)
def test_AMQP_3_5_3_a_source_that_takes_rejected_or_says_nothing_is_told_rejected(
    raw: Frames, outcomes: list[str], default_outcome: object
) -> None:
    raw.begin()
    raw.attach(0, outcomes=outcomes, default_outcome=default_outcome)
    raw.transfer(0, 0, b"\x00\x53\x77\x41")
    raw.transfer(0, 1, b"no message")
    found = [raw.read(DISPOSITION, DETACH).outcome.descriptor for _ in range(2)]
    assert sorted(found) == [ACCEPTED, REJECTED]


# 2.7.3: max-message-size.


def test_AMQP_2_7_3_a_message_that_is_too_long_is_rejected_before_its_end(
    raw: Frames, server: AmqpServer, qm: QueueManager
) -> None:
    raw.begin()
    raw.attach(0)
    for _ in range(21):
        # 1,050,000 bytes of 1,000,000.
        raw.transfer(0, 0, bytes(50_000), more=True)
    told = raw.read(DISPOSITION)
    assert told.outcome.descriptor == REJECTED
    assert told.outcome.value[0].value[0] == TOO_LARGE
    assert not told.field(3)
    raw.transfer(0, 0, bytes(50_000))
    assert raw.read(DISPOSITION).field(3) is True
    raw.transfer(0, 1, encoded())
    assert raw.read(DISPOSITION).outcome.descriptor == ACCEPTED
    assert qm.counts("Q1").live == 1


def test_AMQP_2_7_3_a_message_whose_rest_comes_all_the_same_ends_its_link(
    raw: Frames, qm: QueueManager
) -> None:
    raw.begin()
    raw.attach(0)
    sent_bytes = 0
    for _ in range(45):
        raw.transfer(0, 0, bytes(50_000), more=True)
        sent_bytes += 50_000
    assert raw.read(DISPOSITION).outcome.descriptor == REJECTED
    detached = raw.read(DETACH)
    assert detached.condition == TOO_LARGE
    assert detached.field(1) is True
    # The rest is nobody's, and takes no room of the session from other links.
    for _ in range(400):
        raw.transfer(0, 0, bytes(50_000), more=True)
    raw.send(DETACH, NOUGHT, True)
    raw.attach(0)
    raw.transfer(0, 1, encoded())
    assert raw.read(DISPOSITION).outcome.descriptor == ACCEPTED
    assert qm.counts("Q1").live == 1


# 2.7.3, 2.6.12, 4.4.1: rcv-settle-mode second.


def test_AMQP_2_6_12_rcv_settle_mode_second_settles_behind_the_sender(
    raw: Frames, qm: QueueManager
) -> None:
    raw.begin()
    assert raw.attach(0, second=True).field(4) == 1
    raw.transfer(0, 0, encoded())
    told = raw.read(DISPOSITION)
    assert (told.outcome.descriptor, bool(told.field(3))) == (ACCEPTED, False)
    assert qm.counts("Q1").live == 1
    raw.send(DISPOSITION, False, NOUGHT, None, True)
    raw.transfer(0, 1, encoded())
    assert raw.read(DISPOSITION).field(1) == 1


def test_AMQP_2_6_12_what_its_sender_does_not_settle_takes_credit(client: New) -> None:
    one = client()
    link = one.session.sender("second")
    link.target.address = "Q1"
    link.rcv_settle_mode = Link.RCV_SECOND
    link.open()
    one.until(lambda: link.credit == 10)
    sent = [one.begin(link, Message(body="x")) for _ in range(10)]
    one.until(lambda: all(each.remote_state == Delivery.ACCEPTED for each in sent))
    one.settle_down()
    assert link.credit == 0
    assert not any(each.settled for each in sent)
    for each in sent:
        each.settle()
    one.until(lambda: link.credit == 10)


@pytest.mark.parametrize("second", [False, True])
def test_AMQP_4_4_1_a_post_with_rcv_settle_mode_second_is_settled_behind_the_sender(
    raw: Frames, qm: QueueManager, second: bool
) -> None:
    raw.begin()
    raw.attach(0, target=Described(ulong(COORDINATOR), []), second=second)
    raw.attach(1, second=second)

    def ask(number: int, body: Described) -> Described:
        """Send a request to the coordinator; return its outcome, which is settled as agreed."""
        raw.transfer(0, number, encoded(body))
        told = raw.read(DISPOSITION)
        assert bool(told.field(3)) is not second
        if second:
            raw.send(DISPOSITION, False, uint(number), None, True)
        return told.outcome

    name = ask(0, Described(ulong(0x31), [None])).value[0]
    raw.transfer(1, 1, encoded(), state=Described(ulong(TRANSACTIONAL_STATE), [name, None]))
    told = raw.read(DISPOSITION)
    assert bool(told.field(3)) is not second
    assert told.outcome.descriptor == TRANSACTIONAL_STATE
    assert told.outcome.value[1].descriptor == ACCEPTED
    if second:
        raw.send(DISPOSITION, False, uint(1), None, True)
    assert ask(2, Described(ulong(0x32), [name, False])).descriptor == ACCEPTED
    wait_until(lambda: qm.counts("Q1").live == 1)


def test_AMQP_4_5_7_discharge_without_txn_id_is_rejected_with_a_decode_error(raw: Frames) -> None:
    raw.begin()
    raw.attach(0, target=Described(ulong(COORDINATOR), []))
    raw.transfer(0, 0, encoded(Described(ulong(0x32), [None, False])))
    outcome = raw.read(DISPOSITION).outcome
    assert outcome.descriptor == REJECTED
    assert outcome.value[0].value[0] == DECODE_ERROR


def test_frames_that_are_spoilt_or_cut_anywhere_are_looked_at_without_a_failure() -> None:
    random = Random(23)
    whole = b"AMQP\x00\x01\x00\x00" + b"".join(
        [
            frames.frame(OPEN, "raw", "localhost"),
            frames.frame(BEGIN, None, NOUGHT, uint(9), uint(9)),
            frames.frame(
                ATTACH, "a", NOUGHT, False, None, None, Described(ulong(0x28), [None] * 9), None
            ),
            frames.frame(FLOW, NOUGHT, uint(9), NOUGHT, uint(9), NOUGHT, NOUGHT, uint(3)),
            frames.frame(TRANSFER, NOUGHT, NOUGHT, b"tag", payload=bytes(500)),
            frames.frame(DISPOSITION, True, NOUGHT),
            frames.frame(DETACH, NOUGHT, True),
            frames.frame(END),
        ]
    )
    for _ in range(3_000):
        stream, taken = bytearray(whole), ClientFrames(65_536)
        for _ in range(random.randrange(4)):
            stream[random.randrange(8, len(stream))] = random.choice((0, 0x40, 0xC0, 0xD0, 0xFF))
        buffer = bytearray()
        while stream:
            count = random.randrange(1, 200)
            buffer += stream[:count]
            del stream[:count]
            found: Found | None = None
            allowed = -1
            while allowed or found is not None:
                allowed, found = taken.take(buffer)
                assert 0 <= allowed <= len(buffer)
                del buffer[:allowed]
                if isinstance(found, RefusedFrame):
                    del buffer[: found.size]
