"""Claims and browses over real sockets: what a reader of a queue asks the Flight server for."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.pipeline.bulk.errors import BadRequest, WrongToken, from_flight
from mayfly.pipeline.bulk.queue_client import (
    ClaimsAhead,
    ClaimsClosed,
    ConsumerFenced,
    ConsumerOfOtherQueue,
    ConsumerUnknown,
    Filters,
    QueueClient,
    QueueManagerRefused,
)
from mayfly.pipeline.bulk.schema import MESSAGE
from mayfly.servers.flight import FlightServer
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts.claims import Attached, ConsumerState
from tests.bulk.books import TOKEN, kept_books

START_MS = 1_700_000_000_000
HUGE = 2**40


@pytest.fixture
def manager() -> Iterator[QueueManager]:
    with QueueManager("QM1", clock=VirtualClock(START_MS)) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
        yield manager


@pytest.fixture
def session(manager: QueueManager) -> Iterator[Session]:
    with manager.session("anna") as session:
        yield session


@pytest.fixture
def server(manager: QueueManager) -> Iterator[FlightServer]:
    with FlightServer(manager, port=0, token=TOKEN) as server:
        yield server


@pytest.fixture
def client(server: FlightServer) -> Iterator[QueueClient]:
    with QueueClient(server.url, token=TOKEN) as client:
        yield client


def put(session: Session, *numbers: int) -> None:
    for number in numbers:
        session.put("Q1", b"%d" % number, persistent=number % 2 == 0)


def bodies(batches: Iterator[pa.RecordBatch]) -> list[bytes]:
    return [body for batch in batches for body in batch.column("payload").to_pylist()]


def read(client: QueueClient, consumer: Attached, after: int, until: int) -> list[bytes]:
    found: list[bytes] = []
    for rows in client.rows(consumer, after, until):
        within = rows.after, rows.until
        found += bodies(client.claimed(consumer.consumer, consumer.epoch, *within))
    return found


def test_a_queue_is_claimed_read_and_ended(
    manager: QueueManager, session: Session, client: QueueClient
) -> None:
    put(session, 1, 2, 3)
    consumer = client.attach("billing", "Q1")
    assert consumer == Attached("QM1", manager.ledger.instance_id, "billing", "Q1", 1, 0)
    assert client.claim(consumer, 0, max_rows=2, max_bytes=HUGE) == (1, 2)
    assert client.claim(consumer, 1, max_rows=2, max_bytes=HUGE) == (2, 1)
    assert client.claim(consumer, 2, max_rows=2, max_bytes=HUGE) == (2, 0)
    assert read(client, consumer, 0, 2) == read(client, consumer, 0, 2) == [b"1", b"2", b"3"]
    assert read(client, consumer, 1, 2) == [b"3"]
    assert client.standings() == [ConsumerState("billing", "Q1", 1, 0, 2, 3, START_MS)]
    assert client.end(consumer, 1) == 2
    assert client.end(consumer, 2) == 1
    assert manager.counts("Q1") == (0, 0, 0, 0, 0)
    assert manager.verify().ok


def test_a_message_comes_with_all_its_columns(session: Session, client: QueueClient) -> None:
    msg_id = session.put(
        "Q1",
        b"\x00body",
        time_to_live_ms=9_000,
        priority=7,
        persistent=True,
        correl_id=b"c" * 24,
        report=0x100,
        reply_to_q="REPLIES",
    )
    session.put("Q1", b"", priority=0)
    consumer = client.attach("billing", "Q1")
    client.claim(consumer, 0, max_rows=9, max_bytes=HUGE)
    [batch] = client.claimed("billing", 1, 0, 2)
    assert batch.schema == MESSAGE
    first, second = batch.to_pylist()
    assert first == {
        "manager": "QM1",
        "queue": "Q1",
        "msg_id": msg_id,
        "correl_id": b"c" * 24,
        "put_ms": START_MS,
        "deliver_at_ms": None,
        "expire_at_ms": START_MS + 9_000,
        "priority": 7,
        "persistence": 1,
        "report": 0x100,
        "reply_to_q": "REPLIES",
        "reply_to_q_mgr": "QM1",
        "msg_type": 8,
        "format": "",
        "encoding": 546,
        "coded_char_set_id": first["coded_char_set_id"],
        "backout_count": 0,
        "user_identifier": "anna",
        "payload": b"\x00body",
    }
    assert (second["correl_id"], second["expire_at_ms"], second["payload"]) == (None, None, b"")


def test_pages_are_bounded_by_bytes_and_one_large_message_goes_alone(
    session: Session, client: QueueClient
) -> None:
    for size in (1_000, 3 * 1024 * 1024, 1_000, 3 * 1024 * 1024):
        session.put("Q1", bytes(size))
    client.attach("billing", "Q1")
    consumer = client.attach("billing", "Q1")
    client.claim(consumer, 0, max_rows=9, max_bytes=HUGE)
    batches = list(client.claimed("billing", consumer.epoch, 0, 4))
    assert sum(batch.num_rows for batch in batches) == 4
    assert max(batch.nbytes for batch in batches) < 4 * 1024 * 1024


def test_each_refusal_has_a_class_of_its_own(
    session: Session, client: QueueClient, server: FlightServer
) -> None:
    put(session, 1, 2)
    zombie = client.attach("billing", "Q1")
    client.claim(zombie, 0, max_rows=1, max_bytes=HUGE)
    consumer = client.attach("billing", "Q1")
    with pytest.raises(ConsumerFenced, match=r"attached again.*epoch 2, this reader has 1"):
        client.claim(zombie, 0, max_rows=1, max_bytes=HUGE)
    with pytest.raises(ConsumerFenced, match=server.url):
        list(client.claimed("billing", 1, 0, 1))
    with pytest.raises(ConsumerOfOtherQueue, match="consumer billing reads queue Q1, not Q2"):
        client.attach("billing", "Q2")
    with pytest.raises(ConsumerUnknown, match="there is no consumer 'nobody'"):
        client.release("nobody")
    with pytest.raises(ClaimsAhead, match="restored from an older copy"):
        client.end(consumer, 9)
    with pytest.raises(QueueManagerRefused, match="MQRC_UNKNOWN_OBJECT_NAME"):
        client.attach("other", "NOWHERE")
    client.end(consumer, 1)
    with pytest.raises(ClaimsClosed, match="rows after 0 of consumer billing are no longer"):
        list(client.claimed("billing", 2, 0, 1))
    client.claim(consumer, 1, max_rows=1, max_bytes=HUGE)
    assert client.release("billing") == 1
    assert client.end(client.attach("billing", "Q1"), 2) == 0


def test_what_came_after_a_mark_is_not_claimed(session: Session, client: QueueClient) -> None:
    put(session, 1)
    mark = client.mark()
    put(session, 2)
    consumer = client.attach("billing", "Q1")
    assert client.claim(consumer, 0, max_rows=9, max_bytes=HUGE, up_to=mark) == (1, 1)
    assert client.claim(consumer, 1, max_rows=9, max_bytes=HUGE, up_to=mark) == (1, 0)


# Browse


def browse(client: QueueClient, count: int = 1, filters: Filters = Filters()) -> list[bytes]:  # noqa: B008  # it is a constant
    parts = client.ranges("Q1", count)
    return [body for part in parts for body in bodies(client.browse("Q1", *part, filters))]


def test_a_browse_gives_what_is_alive_and_changes_nothing(
    manager: QueueManager, session: Session, client: QueueClient
) -> None:
    assert client.ranges("Q1", 4) == []
    session.put("Q1", b"short", time_to_live_ms=10)
    put(session, 1, 2)
    session.put("Q1", b"urgent", priority=9)
    assert isinstance(manager.clock, VirtualClock)
    manager.clock.advance(10)
    assert browse(client) == [b"urgent", b"1", b"2"]
    assert manager.curdepth("Q1") == 4
    assert manager.counts("Q1").expired_present == 1


def test_a_browse_is_filtered_where_the_messages_are(session: Session, client: QueueClient) -> None:
    for number in range(30):
        session.put("Q1", b"%d" % number, priority=number % 3, correl_id=bytes([number % 5]) * 24)
    one = session.put("Q1", b"one")
    assert browse(client, filters=Filters(msg_id=one)) == [b"one"]
    assert browse(client, filters=Filters(msg_id=bytes(24))) == []
    assert browse(client, filters=Filters(priority=1)) == [b"%d" % n for n in range(1, 30, 3)]
    fives = [n for n in range(30) if n % 5 == 2]
    assert sorted(browse(client, filters=Filters(correl_id=b"\x02" * 24))) == sorted(
        b"%d" % n for n in fives
    )
    both = browse(client, filters=Filters(correl_id=b"\x02" * 24, priority=2))
    assert both == [b"%d" % n for n in fives if n % 3 == 2]


@pytest.mark.slow
def test_parts_of_a_long_queue_hold_each_message_once_and_in_order(
    manager: QueueManager, session: Session, client: QueueClient
) -> None:
    manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(100000)")
    for number in range(25_000):
        session.put("Q1", b"%d" % number, priority=number % 2)
    parts = client.ranges("Q1", 3)
    assert len(parts) in (3, 4)
    expected = [b"%d" % n for n in (*range(1, 25_000, 2), *range(0, 25_000, 2))]
    assert browse(client, count=3) == expected


def test_a_browse_of_a_queue_that_cannot_be_got_from_is_refused(
    manager: QueueManager, client: QueueClient
) -> None:
    manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    with pytest.raises(QueueManagerRefused, match="MQRC_GET_INHIBITED"):
        client.ranges("Q1", 1)


# What no client of ours would send


@pytest.mark.parametrize(
    ("action", "body", "text"),
    [
        ("attach", {"consumer": "c"}, r"asked for \['consumer'\], known: \['consumer', 'queue'\]"),
        ("attach", {"consumer": 1, "queue": "Q1"}, "consumer cannot be 1"),
        ("end-claims", {"consumer": "c", "epoch": True, "until": 1}, "epoch cannot be True"),
        ("claim-mark", {"x": 1}, "known: \\[\\]"),
        ("browse-ranges", {"queue": "Q1", "part_count": 0}, "part_count >= 1"),
        ("claim-mark", {"protocol": 1}, "claim-mark: only protocol 4 is spoken here"),
        ("stage-commit", {"protocol": "x"}, "stage-commit: only protocol 2 is spoken here"),
        ("ledger-info", {"protocol": None}, "ledger-info: only protocol 2 is spoken here"),
    ],
)
def test_an_action_that_makes_no_sense_is_refused(
    server: FlightServer, action: str, body: dict[str, object], text: str
) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with (
        flight.connect(server.url) as connection,
        pytest.raises(flight.FlightError) as raised,
    ):
        list(connection.do_action(flight.Action(action, json.dumps(body).encode()), options))
    with pytest.raises(BadRequest, match=text):
        raise from_flight(raised.value, server.url)


def test_the_token_is_asked_for_and_a_ledger_alone_has_no_queues(server: FlightServer) -> None:
    with QueueClient(server.url, token="wrong") as client, pytest.raises(WrongToken):
        client.attach("billing", "Q1")
    with (
        kept_books() as books,
        FlightServer(books, port=0, token=TOKEN) as other,
        QueueClient(other.url, token=TOKEN) as client,
        pytest.raises(BadRequest, match="QM1 is served without its queues"),
    ):
        client.standings()
