"""Writing over real sockets: stages and commits of a real queue manager."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.bulk import TRANSACTION_ROWS
from mayfly.mqi import reasons as rc
from mayfly.mqi.structures import DLH
from mayfly.pipeline.bulk.errors import (
    BadRequest,
    BulkError,
    UnknownManager,
    WrongToken,
    from_flight,
)
from mayfly.pipeline.bulk.queue_client import (
    STAGED,
    Committed,
    RowsRefused,
    StageClient,
    StageLost,
)
from mayfly.servers.flight import FlightServer
from mayfly.verbs.contracts.stages import (
    COMMIT_ACTION,
    KIND_COLUMNS,
    ROW_COLUMNS,
    SOURCE_ROW,
    STAGE_VERB,
)
from tests.bulk.books import TOKEN, kept_books
from tests.spec.scene import DEAD, bodies, local


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    local(queue_manager, MAXDEPTH=1_000_000)
    return queue_manager


@pytest.fixture
def session(manager: QueueManager) -> Iterator[Session]:
    with manager.session() as session:
        yield session


@pytest.fixture
def server(manager: QueueManager) -> Iterator[FlightServer]:
    with FlightServer(manager, port=0, token=TOKEN) as server:
        yield server


@pytest.fixture
def client(server: FlightServer) -> Iterator[StageClient]:
    with StageClient(server.url, token=TOKEN) as client:
        yield client


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=STAGED)


def numbered(count: int, first: int = 0, **values: Any) -> pa.RecordBatch:
    return batch(
        *({"queue": "Q1", "payload": b"%d" % n, **values} for n in range(first, first + count))
    )


def named(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_the_schema_has_every_column_that_a_put_reads() -> None:
    assert {*STAGED.names} == {*KIND_COLUMNS, *ROW_COLUMNS, SOURCE_ROW, "payload"}


def test_rows_go_through_stage_and_commit_onto_their_queue(
    client: StageClient, session: Session
) -> None:
    assert client.stage("q", 0, 0, "a", [numbered(3), numbered(2, 3)]) == 5
    assert client.stage("q", 0, 1, "b", [numbered(2, 5)]) == 2
    assert session.get("Q1") is None
    assert client.commit("q", 0, [(0, "a"), (1, "b")]) == Committed(0, 7, 0, 0)
    assert bodies(session, "Q1") == named(7)


@pytest.mark.slow
def test_a_batch_of_many_transactions_and_pages_arrives_whole_and_in_order(
    client: StageClient, manager: QueueManager
) -> None:
    count = 30 * TRANSACTION_ROWS + 7
    upload = client.begin("q", 0, 0, "a")
    upload.write(numbered(count, persistence=1), max_bytes=100_000)
    assert upload.finish() == count
    assert client.commit("q", 0, [(0, "a")]).put_count == count
    queue = manager.engine.registry.queue("Q1")
    with manager.engine.engine_lock:
        rows = manager.engine.store.persistent.in_order(queue.low, queue.high, count + 1)
    assert [row.body for row in rows] == named(count)


def test_what_is_repeated_changes_nothing(client: StageClient, session: Session) -> None:
    client.stage("q", 3, 0, "a", [numbered(5)])
    first = client.commit("q", 3, [(0, "a")])
    assert client.stage("q", 3, 0, "again", [numbered(5)]) == 0
    assert client.commit("q", 3, [(0, "again")]) == first
    assert client.commit("q", 2, [(0, "older")]).batch == 3
    assert bodies(session, "Q1") == named(5)


def test_every_value_travels(client: StageClient, session: Session) -> None:
    row = {
        "queue": "Q1",
        "manager": "QM1",
        "msg_id": b"m" * 24,
        "correl_id": b"c" * 24,
        "time_to_live_ms": 5_000,
        "priority": 9,
        "persistence": 1,
        "report": 0,
        "reply_to_q": "R",
        "msg_type": 8,
        "encoding": 273,
        "coded_char_set_id": 500,
        "format": "MQSTR",
        "user_identifier": "bill",
        "put_appl_type": 28,
        "put_appl_name": "far away",
        "payload": bytes(range(256)),
    }
    client.stage("q", 0, 0, "a", [batch(row)])
    client.commit("q", 0, [(0, "a")])
    message = session.get("Q1")
    assert message is not None
    assert (message.msg_id, message.correl_id) == (b"m" * 24, b"c" * 24)
    assert message.body == row["payload"]
    assert message.remaining_ms == 5_000
    for name in ("priority", "reply_to_q", "format", "user_identifier", "put_appl_name"):
        assert getattr(message.descriptor, name) == row[name]


def test_null_and_empty_data_are_told_apart(client: StageClient, session: Session) -> None:
    rows = [{"queue": "Q1", "payload": payload} for payload in (b"x", b"", None, b"y")]
    session.core.registry.queue_manager.deadq = DEAD
    client.stage("q", 0, 0, "a", [batch(*rows)])
    assert client.commit("q", 0, [(0, "a")]) == Committed(0, 3, 0, 1)
    assert bodies(session, "Q1") == [b"x", b"", b"y"]
    [letter] = bodies(session, DEAD)
    assert DLH.unpack(letter)["Reason"] == rc.MQRC_BUFFER_ERROR


def test_a_row_without_a_destination_names_the_option(client: StageClient) -> None:
    client.stage("q", 0, 0, "a", [batch({"queue": "NOWHERE", "payload": b"x"})])
    with pytest.raises(RowsRefused, match=r"deadLetterQueue.*MQRC_UNKNOWN_OBJECT_NAME \(2085\)"):
        client.commit("q", 0, [(0, "a")])
    assert client.commit("q", 0, [], dead_letter_queue=DEAD) == Committed(0, 0, 0, 1)


def test_a_row_that_nobody_takes_is_left_to_its_source_when_that_asks_for_it(
    client: StageClient, session: Session
) -> None:
    rows = [
        {"queue": name, "payload": b"%d" % n, "source_row": n + 10}
        for n, name in enumerate(("Q1", "NOWHERE", "Q1"))
    ]
    client.stage("q", 0, 0, "a", [batch(*rows)])
    assert client.commit("q", 0, [(0, "a")], surrenders=True) == Committed(0, 2, 0, 0)
    [(row, reason, text)] = client.surrendered("q", 0)
    assert (row, reason) == (11, rc.MQRC_UNKNOWN_OBJECT_NAME)
    assert "deadLetterQueue" in text
    assert bodies(session, "Q1") == [b"0", b"2"]
    assert client.surrendered("q", 1) == client.surrendered("other", 0) == []


def test_a_stage_that_is_not_there_is_named(client: StageClient, manager: QueueManager) -> None:
    with pytest.raises(StageLost, match=r"'q', 0, 7, 'gone'\) is not there"):
        client.commit("q", 0, [(7, "gone")])
    assert manager.stages.state("q") is None


def test_an_upload_that_breaks_off_leaves_nothing(
    client: StageClient, server: FlightServer, manager: QueueManager
) -> None:
    def breaks_off() -> Iterator[pa.RecordBatch]:
        for _ in range(3):
            yield numbered(TRANSACTION_ROWS)
        raise KeyError("the task dies")

    with pytest.raises(KeyError, match="the task dies"):
        client.stage("q", 0, 0, "a", breaks_off())
    with pytest.raises(StageLost):
        client.commit("q", 0, [(0, "a")])


def test_a_wrong_token_is_refused(server: FlightServer) -> None:
    with StageClient(server.url, token="wrong") as client:
        with pytest.raises(WrongToken):
            client.stage("q", 0, 0, "a", [numbered(1)])
        with pytest.raises(WrongToken):
            client.commit("q", 0, [])


def test_the_manager_is_named_where_several_are_served(
    manager: QueueManager, session: Session
) -> None:
    with (
        kept_books(name="QM2") as other,
        FlightServer([manager, other], port=0, token=TOKEN) as server,
    ):
        with StageClient(server.url, token=TOKEN, manager="QM1") as client:
            client.stage("q", 0, 0, "a", [numbered(1)])
            assert client.commit("q", 0, [(0, "a")]).put_count == 1
        with StageClient(server.url, token=TOKEN) as client, pytest.raises(UnknownManager):
            client.stage("q", 0, 0, "a", [numbered(1)])
        with (
            StageClient(server.url, token=TOKEN, manager="QM2") as client,
            pytest.raises(BadRequest, match="QM2 is served without its queues"),
        ):
            client.commit("q", 0, [])


STAGES: list[Any] = [[0], [0, 1], ["0", "a"], "a", {}]
COMMIT = {"query": "q", "batch": 0, "stages": [], "dead_letter_queue": "", "surrenders": False}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"query": ""}, "query cannot be ''"),
        ({"query": 5}, "query cannot be 5"),
        ({"batch": -1}, "batch cannot be -1"),
        ({"batch": 2**63}, "batch cannot be"),
        ({"batch": True}, "batch cannot be True"),
        ({"stages": {}}, "stages cannot be"),
        ({"color": "red"}, "asked for"),
        *[({"stages": [stage]}, "a stage is") for stage in STAGES],
    ],
)
def test_a_commit_that_makes_no_sense_is_refused(
    server: FlightServer, changed: dict[str, Any], text: str
) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    action = flight.Action(COMMIT_ACTION, json.dumps({**COMMIT, **changed}).encode())
    with flight.connect(server.url) as connection, pytest.raises(flight.FlightError) as raised:
        list(connection.do_action(action, options))
    error: BulkError = from_flight(raised.value, server.url)
    assert isinstance(error, BadRequest)
    assert text in str(error)


def test_an_upload_of_other_columns_is_refused(server: FlightServer) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    request = {"query": "q", "batch": 0, "partition": 0, "attempt": "a"}
    descriptor = flight.FlightDescriptor.for_command(json.dumps({STAGE_VERB: request}).encode())
    other = pa.schema([pa.field("payload", pa.string())])
    with flight.connect(server.url) as connection:
        writer, _answers = connection.do_put(descriptor, other, options)
        writer.done_writing()
        with pytest.raises(flight.FlightError) as raised:
            writer.close()
    assert "the columns are not those of its schema" in str(from_flight(raised.value, server.url))


@pytest.mark.slow
def test_a_queue_manager_on_disk_finishes_after_a_restart(tmp_path: Path) -> None:
    count = 3 * TRANSACTION_ROWS
    with QueueManager("QM1", tmp_path) as manager:
        local(manager, MAXDEPTH=1_000_000)
        with (
            FlightServer(manager, port=0, token=TOKEN) as server,
            StageClient(server.url, token=TOKEN) as client,
        ):
            client.stage("q", 0, 0, "a", [numbered(count, persistence=1)])
    with (
        QueueManager("QM1", tmp_path) as manager,
        FlightServer(manager, port=0, token=TOKEN) as server,
        StageClient(server.url, token=TOKEN) as client,
        manager.session(transacted=True) as session,
    ):
        assert client.commit("q", 0, [(0, "a")]).put_count == count
        assert bodies(session, "Q1") == named(count)
        assert manager.verify().ok
