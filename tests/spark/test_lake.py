"""The stream into the lake: each row once, whatever is repeated, restarted or mixed up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from mayfly import QueueManager
from mayfly.lifetime.life import LifeRecord, State
from mayfly.pipeline.bulk.errors import WrongToken
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.compaction import compact_lake
from mayfly.pipeline.spark.errors import LakeError
from mayfly.pipeline.spark.lake import ledger_to_lake, read_balances, read_lake, read_ledger
from mayfly.pipeline.spark.report import ledger_report
from mayfly.servers.flight import FlightServer
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES
from tests.bulk.books import START_MS, TOKEN, KeptBooks, kept_books, life
from tests.bulk.lives import live

pytestmark = [pytest.mark.spark, pytest.mark.slow]
HOUR_MS = 3_600_000


class Filling:
    """A lake being filled from one server, a run at a time."""

    def __init__(self, spark: SparkSession, token_file: Path, lake: Path) -> None:
        self.spark = spark
        self.token_file = token_file
        self.lake = lake

    def run(
        self, server: FlightServer, rows: int = 300, checkpoint: Path | None = None
    ) -> list[int]:
        """Bring over what there is now; return the rows of each batch that had any."""
        query = ledger_to_lake(
            self.spark,
            server.url,
            self.token_file,
            self.lake,
            checkpoint=checkpoint,
            available_now=True,
            batch_rows_max=rows,
        )
        query.awaitTermination()
        counts = [progress["numInputRows"] for progress in query.recentProgress]
        return [count for count in counts if count]

    def positions(self) -> list[int]:
        """Return every position in the lake, doubles included."""
        found = read_ledger(self.spark, self.lake).select("position").collect()
        return sorted(row[0] for row in found)

    def files(self) -> list[str]:
        """Return the data files by their names in the lake."""
        return sorted(str(path.relative_to(self.lake)) for path in self.lake.glob("date=*/*"))

    def checkpoint(self, books: KeptBooks) -> Path:
        return self.lake / "_checkpoint" / books.ledger.instance_id


@pytest.fixture
def filling(spark: SparkSession, token_file: Path, tmp_path: Path) -> Filling:
    return Filling(spark, token_file, tmp_path / "lake")


def forget_last_commit(checkpoint: Path) -> None:
    """Leave the checkpoint as a crash does after the batch was written and before its commit."""
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink()


def life_of(row: Row) -> LifeRecord:
    """Return the life in a row; Spark gives bytes as bytearray."""
    values = (row[name] for name in LifeRecord._fields)
    return LifeRecord._make(bytes(v) if isinstance(v, bytearray) else v for v in values)


def days_apart(count: int) -> list[LifeRecord]:
    """Lives of three queues in turn, half a day between two."""
    return [life(n, f"Q{n % 3}", ended_ms=START_MS + n * 12 * HOUR_MS) for n in range(1, count + 1)]


def test_a_batch_takes_no_more_than_its_limit(
    filling: Filling, manager: QueueManager, manager_server: FlightServer
) -> None:
    live(manager, 1_000)
    *full, rest = filling.run(manager_server)
    assert full == [300, 300, 300]
    # The lives, and the balance rows of the queues.
    assert 1_000 < 900 + rest <= manager.ledger.last_position()
    assert filling.positions() == list(range(1, 900 + rest + 1))


def test_lives_and_balances_come_out_as_they_went_in(
    filling: Filling, books: KeptBooks, server: FlightServer
) -> None:
    lives = days_apart(6)
    lives[3] = lives[3]._replace(
        capped_by="CAPEXPRY(600) of QALIAS(A1)", met_by="get", ended_by="app", ended_program="till"
    )
    books.end(*lives)
    books.balance()
    filling.run(server)
    rows = read_lake(filling.spark, filling.lake).orderBy("position").collect()
    assert [life_of(row) for row in rows] == lives
    assert {(row["manager"], row["instance_id"]) for row in rows} == {
        ("QM1", books.ledger.instance_id)
    }
    balances = read_balances(filling.spark, filling.lake).orderBy("queue").collect()
    assert [(row["queue"], row["at_ms"], row["puts"], row["present"]) for row in balances] == [
        ("Q0", START_MS, 2, 0),
        ("Q1", START_MS, 2, 0),
        ("Q2", START_MS, 2, 0),
    ]
    ended = {**dict.fromkeys([*OUTCOME_CODES, OTHER_OUTCOMES], 0), State.GOT.value: 2}
    assert [row["ended"].asDict() for row in balances] == [ended] * 3


def test_one_file_for_a_batch_and_utc_date_sorted_by_queue(
    filling: Filling, books: KeptBooks, server: FlightServer
) -> None:
    midnight_ms = 1_700_006_400_000  # 2023-11-15T00:00:00Z
    books.end(
        life(1, "Q2", ended_ms=midnight_ms - 1),
        life(2, "Q2", ended_ms=midnight_ms),
        life(3, "Q1", ended_ms=midnight_ms - 1),
        life(4, "Q1", ended_ms=midnight_ms),
        life(5, "Q1", ended_ms=midnight_ms),
    )
    filling.run(server)
    name = f"batch-{books.ledger.instance_id[:16]}-000000000000.parquet"
    assert filling.files() == [f"date=2023-11-14/{name}", f"date=2023-11-15/{name}"]
    positions = [
        pq.ParquetFile(filling.lake / file).read(["position"]).column(0).to_pylist()
        for file in filling.files()
    ]
    assert positions == [[3, 1], [4, 5, 2]]


def test_a_restart_goes_on_where_it_ended(
    filling: Filling, manager: QueueManager, manager_server: FlightServer
) -> None:
    live(manager, 500)
    first = filling.run(manager_server)
    assert sum(first) >= 500
    live(manager, 250)
    manager.engine.store.write_balances()
    second = filling.run(manager_server)
    # Beside the lives there are balance rows, one a second.
    assert sum(second) > 250
    last = manager.ledger.last_position()
    assert sum(first) + sum(second) == last
    assert filling.run(manager_server) == []
    assert filling.positions() == list(range(1, last + 1))
    assert check_lake(filling.lake).texts == []
    reports = ledger_report(filling.spark, filling.lake)
    assert [(report.queue, report.lives) for report in reports] == [
        ("Q0", 251),
        ("Q1", 250),
        ("Q2", 249),
    ]
    assert sum(report.outcomes["expired"] for report in reports) == 125 + 63


def test_a_repeated_batch_replaces_its_files_and_nothing_else(
    filling: Filling, books: KeptBooks, server: FlightServer
) -> None:
    books.end(*days_apart(10))
    filling.run(server, rows=6)
    before = {name: (filling.lake / name).read_bytes() for name in filling.files()}
    inodes = {name: (filling.lake / name).stat().st_ino for name in before}
    forget_last_commit(filling.checkpoint(books))
    # Killed between two dates: one file is in, one is not.
    repeated = sorted(name for name in before if "000000000001" in name)
    (filling.lake / repeated[0]).unlink()
    books.end_many(2)
    filling.run(server, rows=6)
    assert filling.positions() == list(range(1, 13))
    assert {name: (filling.lake / name).read_bytes() for name in before} == before
    replaced = {name for name in before if (filling.lake / name).stat().st_ino != inodes[name]}
    assert replaced == set(repeated)


def test_what_a_killed_run_left_is_not_read_and_then_swept(
    filling: Filling, books: KeptBooks, server: FlightServer
) -> None:
    books.end_many(10)
    filling.run(server)
    left = filling.lake / "_staging" / books.ledger.instance_id / "0-dead" / "date=2023-11-14"
    left.mkdir(parents=True)
    shutil.copy(filling.lake / filling.files()[0], left / "part-0.parquet")
    assert filling.positions() == list(range(1, 11))
    filling.run(server)
    assert not left.exists()


def test_a_running_stream_follows_the_ledger(
    filling: Filling, manager: QueueManager, manager_server: FlightServer
) -> None:
    query = ledger_to_lake(
        filling.spark,
        manager_server.url,
        filling.token_file,
        filling.lake,
        trigger="100 milliseconds",
    )
    for _ in range(3):
        live(manager, 50)
        last = manager.ledger.last_position()
        query.processAllAvailable()
        assert filling.positions()[:last] == list(range(1, last + 1))
    query.stop()
    assert query.exception() is None


def test_a_stream_writes_on_while_its_lake_is_compacted(
    filling: Filling, manager: QueueManager, manager_server: FlightServer
) -> None:
    query = ledger_to_lake(
        filling.spark,
        manager_server.url,
        filling.token_file,
        filling.lake,
        trigger="0 seconds",
        batch_rows_max=20,
    )
    for _ in range(2):
        live(manager, 60)
        last = manager.ledger.last_position()
        # The first of these runs while batches come in, the second finds them all.
        compact_lake(filling.lake)
        found = filling.positions()
        assert found == list(range(1, len(found) + 1))
        query.processAllAvailable()
        compact_lake(filling.lake)
        assert filling.positions()[:last] == list(range(1, last + 1))
    query.stop()
    assert query.exception() is None
    assert check_lake(filling.lake).texts == []


def test_a_batch_repeated_after_it_was_compacted_is_not_written_again(
    filling: Filling, books: KeptBooks, server: FlightServer
) -> None:
    books.end(*days_apart(10))
    filling.run(server, rows=4)
    forget_last_commit(filling.checkpoint(books))
    compact_lake(filling.lake)
    compacted = filling.files()
    books.end_many(2)
    filling.run(server, rows=4)
    assert filling.positions() == list(range(1, 13))
    new = set(filling.files()) - set(compacted)
    assert len(new) == 1
    assert sum(row.lives for row in ledger_report(filling.spark, filling.lake)) == 12


def test_a_lake_whose_checkpoint_is_lost_is_known_after_compaction_too(
    filling: Filling, books: KeptBooks, server: FlightServer
) -> None:
    books.end_many(10)
    filling.run(server, rows=4)
    compact_lake(filling.lake)
    assert all("run-" in name for name in filling.files())
    shutil.rmtree(filling.checkpoint(books))
    with pytest.raises(LakeError, match="name their checkpoint or a new lake"):
        filling.run(server)


def test_a_lake_whose_checkpoint_is_lost_is_not_written_twice(
    filling: Filling, books: KeptBooks, server: FlightServer, tmp_path: Path
) -> None:
    books.end_many(10)
    filling.run(server)
    with pytest.raises(LakeError, match="not written with checkpoint"):
        filling.run(server, checkpoint=tmp_path / "new")
    shutil.rmtree(filling.checkpoint(books))
    with pytest.raises(LakeError, match="name their checkpoint or a new lake"):
        filling.run(server)
    assert filling.positions() == list(range(1, 11))


def test_a_checkpoint_is_not_used_for_a_second_lake(
    filling: Filling, books: KeptBooks, server: FlightServer, tmp_path: Path
) -> None:
    books.end_many(10)
    filling.run(server, checkpoint=tmp_path / "checkpoint")
    second = Filling(filling.spark, filling.token_file, tmp_path / "second")
    with pytest.raises(LakeError, match="rows before it would be missing"):
        second.run(server, checkpoint=tmp_path / "checkpoint")


def test_a_queue_manager_made_anew_shares_the_lake(
    filling: Filling, books: KeptBooks, server: FlightServer
) -> None:
    books.end_many(10)
    filling.run(server)
    with kept_books() as anew, FlightServer(anew, port=0, token=TOKEN) as second:
        anew.end_many(4)
        anew.balance()
        filling.run(second)
    assert filling.positions() == sorted([*range(1, 11), *range(1, 6)])
    assert check_lake(filling.lake).texts == []


def test_a_wrong_token_is_told_before_anything_starts(
    filling: Filling, server: FlightServer
) -> None:
    filling.token_file.write_text("wrong")
    with pytest.raises(WrongToken):
        filling.run(server)
    assert not filling.lake.exists()


def test_a_lake_elsewhere_or_nowhere_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="s3://bucket/lake is no path of this machine"):
        read_lake(spark, "s3://bucket/lake")
    with pytest.raises(LakeError, match="there is no lake at"):
        read_lake(spark, tmp_path / "none")
