"""Whole pipelines from TOML on a real Spark, between real servers and files."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mayfly import QueueManager
from mayfly.lifetime.times import Clock
from mayfly.mqi.constants import MQFB_EXPIRATION, MQRO_EXPIRATION
from mayfly.mqi.structures import DLH
from mayfly.pipeline.build import start, tie_checkpoint, tie_output
from mayfly.pipeline.check import check
from mayfly.pipeline.config import AVAILABLE_NOW, FileSink, PipelineConfig, PipelineFileError, load
from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.failures import failure_of
from mayfly.pipeline.spark.delay_line import SESSION_SETTINGS
from mayfly.runtime.clocks import SystemClock
from mayfly.servers.flight import FlightServer
from mayfly.testing import VirtualClock
from tests.bulk.books import TOKEN
from tests.spec.scene import STAGING, START_MS, local

pytestmark = [pytest.mark.spark, pytest.mark.slow]
#: Generous: a cold batch on a busy machine takes as long as a hundred warm ones.
DEADLINE_SECONDS = 600
NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"


class Scene(NamedTuple):
    """Queue managers A and B behind one server, and a folder for the rest."""

    a: QueueManager
    b: QueueManager
    url: str
    folder: Path


@contextmanager
def scene(folder: Path, *clocks: Clock) -> Iterator[Scene]:
    with ExitStack() as stack:
        a, b = (
            stack.enter_context(QueueManager(name, folder / name, clock=clock))
            for name, clock in zip("AB", clocks or (SystemClock(), SystemClock()), strict=True)
        )
        for manager in (a, b):
            for queue in ("IN", "OUT", "REPLIES", "REFUSED"):
                local(manager, queue)
        server = stack.enter_context(FlightServer([a, b], port=0, token=TOKEN))
        (folder / "token").write_text(TOKEN)
        (folder / "in").mkdir()
        yield Scene(a, b, server.url, folder)


def written(scene: Scene, text: str) -> PipelineConfig:
    """Return the pipeline of a text, in which URL stands for the server's."""
    path = scene.folder / "pipeline.toml"
    place = f'url = "{scene.url}"\ntoken_file = "token"'
    path.write_text(f'name = "calls"\ncheckpoint = "cp"\n{text.replace("URL", place)}')
    return load(path)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, which afterwards is as other tests know it."""
    names = (*SESSION_SETTINGS, "spark.sql.ansi.enabled", NO_DATA_BATCHES)
    before = {name: str(spark.conf.get(name)) for name in names}
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def run_until(query: StreamingQuery, look: Callable[[], object], wanted: object) -> None:
    """Let a query run until what one looks at is as wanted, then stop it."""
    found: object = None
    try:
        for _ in range(DEADLINE_SECONDS * 10):
            assert not query.awaitTermination(0.1)  # type: ignore[arg-type]  # takes a float
            found = look()
            if found == wanted:
                return
        pytest.fail(f"{found} is there, not {wanted}")
    finally:
        query.stop()


def taken(manager: QueueManager, queue: str) -> list[Any]:
    """Get and return all there is."""
    with manager.session() as session:
        return list(iter(lambda: session.get(queue), None))


def feed(scene: Scene, name: str, *rows: dict[str, Any] | str) -> None:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    part = scene.folder / name
    part.write_text("\n".join(lines))
    part.rename(scene.folder / "in" / name)


def lake(scene: Scene) -> list[dict[str, Any]]:
    """Return the rows of the batches that are written to their end."""
    files = [
        file
        for done in (scene.folder / "lake").glob("b=*/_SUCCESS")
        for file in done.parent.glob("*.parquet")
    ]
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def batches(scene: Scene, log: str) -> list[Path]:
    return sorted((scene.folder / "cp" / log).glob("[0-9]*"), key=lambda path: int(path.name))


def counted(query: StreamingQuery) -> Counter[str]:
    """Return what all batches of a query have counted."""
    found: Counter[str] = Counter()
    for progress in query.recentProgress:
        for name, row in progress.observedMetrics.items():
            found.update({f"{name}.{key}": n for key, n in row.asDict().items() if n is not None})
    return found


EVERYTHING = """
trigger = "100 milliseconds"
[[source]]
kind = "queue"
URL
manager = "A"
queue = "IN"
consumer = "calls"
[[source]]
kind = "files"
format = "json"
path = "in"
schema = "n bigint, q string, delay bigint, life bigint, id string, body string, mark string"
[source.columns]
queue = "q"
payload = "cast(body as binary)"
delay_ms = "delay"
life_ms = "life"
msg_id = "cast(id as binary)"
report = "16777216 | 2097152"
reply_to_q = "'REPLIES'"
flight = "n"
[delay_line]
slot_ms = 100
[[limit.queue]]
name = "CAP*"
cap_ms = 1000
[[route]]
when = "queue = 'AUDIT'"
to = "lake"
[[route]]
outcome = "expired"
to = "lake"
[[sink]]
name = "orders"
kind = "queue"
URL
manager = "B"
dead_letter_queue = "REFUSED"
[[sink]]
name = "lake"
kind = "files"
path = "lake"
"""


@pytest.mark.long
def test_every_row_of_two_sources_ends_once_where_it_belongs(
    session: SparkSession, tmp_path: Path
) -> None:
    """Released, expired, refused and malformed rows; one sink of the first batch fails once."""
    with scene(tmp_path) as s:
        config = written(s, EVERYTHING)
        with s.a.session() as putter:
            putter.put("IN", b"from A", time_to_live_ms=3_600_000, correl_id=b"c" * 24)
        feed(
            s,
            "1.json",
            {"n": 1, "q": "OUT", "body": "at once", "life": 3_600_000},
            {"n": 2, "q": "OUT", "body": "later", "delay": 1_500},
            {"n": 3, "q": "AUDIT", "body": "to the lake"},
            {"n": 4, "q": "OUT", "body": "expires", "delay": 1_000, "life": 1_000},
            {"n": 5, "q": "CAPPED", "body": "delayed for too long", "delay": 1_001},
            {"n": 6, "q": "NOWHERE", "body": "no such queue"},
            {"n": 7, "q": None, "body": "no queue"},
            {"n": 8, "q": "OUT"},
            {"n": 9, "q": "OUT", "body": "long id", "id": "x" * 25},
            '{"n": "many"}',
            "not JSON at all",
        )
        # The lake cannot be written, all queues before it can: the batch is to be repeated.
        output = config.sink("lake")
        assert isinstance(output, FileSink)
        tie_output(output, tie_checkpoint(config, session), session)
        missing = s.folder / "lake" / "b=0"
        missing.symlink_to(s.folder / "unmounted" / "volume")
        with pytest.raises(StreamingQueryException, match="b=0"):
            start(config, session).awaitTermination()
        depths = [s.b.curdepth(queue) for queue in ("IN", "OUT", "REPLIES", "REFUSED")]
        assert (depths, lake(s), batches(s, "commits")) == ([1, 1, 2, 7], [], [])
        missing.unlink()
        query = start(config, session)
        # Spark tells what a batch has counted when it is done, behind all that it has written.
        run_until(query, lambda: counted(query)["mayfly_out.released"], 5)
        check_ends(s)
        counts = counted(query)
        names = ("released", "expired", "dead_lettered", "reports", "overdue")
        assert [counts[f"mayfly_in_{number}.rows"] for number in (1, 2)] == [1, 11]
        assert [counts[f"mayfly_out.{name}"] for name in names] == [5, 1, 6, 2, 0]
        assert counts["mayfly_out.late_ms_max"] >= 0
        assert s.a.counts("IN").locked == 0
        assert s.a.verify().ok
        assert s.b.verify().ok


def check_ends(s: Scene) -> None:
    """Assert what has come of the rows of EVERYTHING at each place."""
    [kept] = taken(s.b, "IN")
    assert (kept.body, kept.correl_id) == (b"from A", b"c" * 24)
    assert 3_000_000 < kept.remaining_ms < 3_600_000
    out = {message.body: message.remaining_ms for message in taken(s.b, "OUT")}
    assert out.keys() == {b"at once", b"later"}
    assert out[b"at once"] < 3_600_000
    assert out[b"later"] is None
    [released, expired] = sorted(lake(s), key=lambda row: row["flight"])
    assert [released[name] for name in ("flight", "outcome", "payload")] == [
        3,
        "released",
        b"to the lake",
    ]
    assert [expired[name] for name in ("flight", "outcome", "reason")] == [4, "expired", 0]
    assert expired["ended_ms"] >= expired["expire_at_ms"] == expired["put_ms"] + 1_000
    reports = Counter(message.descriptor.feedback for message in taken(s.b, "REPLIES"))
    assert reports == {MQFB_EXPIRATION: 1, 2013: 1, 2085: 1}
    letters = {}
    for message in taken(s.b, "REFUSED"):
        header, data = DLH.unpack(message.body), message.body[DLH.length(1) :]
        is_text = header["Format"] == "MQSTR"
        said = tuple(json.loads(data).values()) if is_text else data
        letters[said] = (header["Reason"], header["DestQName"])
    assert letters == {
        b"delayed for too long": (2013, "CAPPED"),
        b"no such queue": (2085, "NOWHERE"),
        ("queue is null", '{"n":7,"body":"no queue"}'): (2085, ""),
        ("payload is null", '{"n":8,"q":"OUT"}'): (2004, "OUT"),
        ("msg_id is longer than 24 bytes", row_text(9, "long id", "x" * 25)): (2026, "OUT"),
        ("the line is not what the schema says", '{"n": "many"}'): (2110, ""),
        ("the line is not what the schema says", "not JSON at all"): (2110, ""),
    }


def row_text(number: int, body: str, identifier: str) -> str:
    row = {"n": number, "q": "OUT", "id": identifier, "body": body}
    return json.dumps(row, separators=(",", ":"))


DELAYED = """
trigger = "100 milliseconds"
[[source]]
kind = "files"
format = "json"
path = "in"
schema = "put_ms bigint, delay_ms bigint, life_ms bigint, payload string"
[source.columns]
queue = "'OUT'"
[[sink]]
name = "orders"
kind = "queue"
URL
manager = "A"
dead_letter_queue = "REFUSED"
"""
HELD = DELAYED.replace('manager = "A"', 'manager = "B"') + "[delay_line]\nholds_all = true\n"


@pytest.mark.long
def test_rows_for_a_queue_are_put_at_once_and_end_as_if_spark_had_held_them(
    session: SparkSession, tmp_path: Path
) -> None:
    """A delays them itself, without any state in Spark; in Spark those for B are due already."""
    hour_ms = 3_600_000
    now_ms = SystemClock().now_ms()
    bases_ms = now_ms, now_ms - hour_ms
    clocks = [VirtualClock(base_ms) for base_ms in bases_ms]
    with scene(tmp_path, *clocks) as s:

        def feed_rows(base_ms: int) -> None:
            rows: list[dict[str, object]] = [
                {"payload": "later", "delay_ms": hour_ms, "life_ms": 3 * hour_ms},
                {"payload": "now"},
                {"payload": "D18", "delay_ms": hour_ms - 1, "life_ms": hour_ms - 1},
                {"payload": "D7", "delay_ms": 2, "life_ms": 1},
            ]
            feed(s, f"{base_ms}.json", *(row | {"put_ms": base_ms} for row in rows))

        feed_rows(bases_ms[0])
        at_once = start(replace(written(s, DELAYED), trigger=AVAILABLE_NOW), session)
        at_once.awaitTermination()
        progress = at_once.lastProgress
        assert progress is not None
        assert progress.stateOperators == []
        assert [s.a.counts("OUT").live, s.a.counts("OUT").staged] == [1, 2]
        (s.folder / "in" / f"{bases_ms[0]}.json").unlink()
        feed_rows(bases_ms[1])
        held = start(replace(written(s, HELD), checkpoint=str(tmp_path / "held")), session)
        run_until(held, lambda: [s.b.curdepth(name) for name in ("OUT", "REFUSED")], [2, 1])
        ends = []
        for manager, clock in zip((s.a, s.b), clocks, strict=True):
            clock.advance(hour_ms)
            out = {message.body: message.remaining_ms for message in taken(manager, "OUT")}
            [letter] = taken(manager, "REFUSED")
            ends.append((out, DLH.unpack(letter.body)["Reason"]))
        assert ends[0] == ends[1] == ({b"later": 2 * hour_ms, b"now": None}, 2013)


AUDITED = f"""{DELAYED}
[[route]]
when = "string(payload) LIKE 'audit%' AND deliver_at_ms >= put_ms"
to = "lake"
[[sink]]
name = "lake"
kind = "files"
path = "lake"
"""


@pytest.mark.soak
def test_beside_rows_for_a_queue_those_for_files_wait_in_spark(
    session: SparkSession, tmp_path: Path
) -> None:
    """Each by the route that it will take; a row for files waits in the state, and no other."""
    hour_ms, now_ms = 3_600_000, SystemClock().now_ms()
    with scene(tmp_path, VirtualClock(now_ms), SystemClock()) as s:
        rows: list[dict[str, Any]] = [
            {"payload": "later", "delay_ms": hour_ms},
            {"payload": "audit later", "delay_ms": hour_ms},
            {"payload": "audit now"},
        ]
        feed(s, "1.json", *(row | {"put_ms": now_ms} for row in rows))
        query = start(written(s, AUDITED), session)
        run_until(
            query,
            lambda: (len(lake(s)), s.a.counts("OUT").staged, len(query.recentProgress) > 0),
            (1, 1, True),
        )
        assert [row["payload"] for row in lake(s)] == [b"audit now"]
        [operator] = query.recentProgress[0].stateOperators
        assert operator.numRowsTotal == 1
        # Without the route the pipeline would hold no row, and never release this one.
        feed(s, "2.json", {"payload": "later", "delay_ms": hour_ms, "put_ms": now_ms})
        with pytest.raises(StreamingQueryException) as raised:
            start(written(s, DELAYED), session).awaitTermination()
        text = "other rows than before wait in the delay line: use [delay_line] holds_all as before"
        failure = failure_of(raised.value)
        assert (failure.text.startswith(text), failure.is_final) == (True, True)
        assert s.a.counts("OUT").staged == 1


BETWEEN_QUEUES = """
trigger = "available now"
[[source]]
kind = "queue"
URL
manager = "A"
queue = "IN"
consumer = "calls"
[[limit.queue]]
name = "I*"
cap_ms = 50_000
[[sink]]
name = "orders"
kind = "queue"
URL
manager = "B"
queue = "OUT"
"""


def test_lifetimes_go_on_and_what_expires_on_the_way_is_reported_once(
    session: SparkSession, tmp_path: Path
) -> None:
    """E4 at the receiver: a deadline that is now is over; caps count from the first put."""
    clocks = [VirtualClock(START_MS), VirtualClock(START_MS + 20_000)]
    with scene(tmp_path, *clocks) as s:
        with s.a.session() as putter:
            for life_ms, body in ((20_000, b"over"), (20_001, b"1 ms"), (40_000, b"half")):
                putter.put(
                    "IN",
                    body,
                    time_to_live_ms=life_ms,
                    report=MQRO_EXPIRATION,
                    reply_to_q="REPLIES",
                )
            putter.put("IN", b"capped")
        # Who asked did so at A (P4); no channel leads there, and B answers for it.
        assert s.b.mqsc("DEFINE QREMOTE(A) RQMNAME(B)").ok
        query = start(written(s, BETWEEN_QUEUES), session)
        query.awaitTermination()
        assert counted(query)["mayfly_in_1.rows"] == 4
        out = {message.body: message.remaining_ms for message in taken(s.b, "OUT")}
        assert out == {b"1 ms": 1, b"half": 20_000, b"capped": 30_000}
        [report] = taken(s.b, "REPLIES")
        assert (report.body, report.descriptor.feedback) == (b"", MQFB_EXPIRATION)
        assert taken(s.a, "REPLIES") == []
        assert s.a.counts("IN").live == 0
        assert s.a.verify().ok
        assert s.b.verify().ok


RELEASE = """
trigger = "available now"
[[source]]
kind = "staging"
URL
manager = "A"
consumer = "releaser"
[[source]]
kind = "queue"
URL
manager = "B"
queue = "IN"
consumer = "calls"
[[sink]]
name = "orders"
kind = "queue"
URL
manager = "B"
queue = "OUT"
"""


def test_delayed_messages_are_released_by_their_queue_manager_and_go_to_no_sink(
    session: SparkSession, tmp_path: Path
) -> None:
    """D1: what is due, beside the messages of a queue."""
    clock = VirtualClock(START_MS)
    with scene(tmp_path, clock, clock) as s:
        s.a.mqsc("ALTER QMGR DDELAY(SPARK)")
        with s.a.session() as a, s.b.session() as b:
            a.put("IN", b"due", delay_ms=1_000)
            a.put("IN", b"not due", delay_ms=1_001)
            b.put("IN", b"passes")
        clock.advance(1_000)
        query = start(written(s, RELEASE), session)
        query.awaitTermination()
        assert counted(query)["mayfly_in_1.rows"] == 1
        assert [message.body for message in taken(s.a, "IN")] == [b"due"]
        assert [message.body for message in taken(s.b, "OUT")] == [b"passes"]
        assert s.a.curdepth(STAGING) == 1
        assert s.a.verify().ok


PLAIN = """
[[source]]
kind = "files"
format = "json"
path = "in"
schema = "n bigint"
columns = { queue = "'IN'", payload = "cast(n as binary)", extra = "n" }
[[sink]]
name = "orders"
kind = "queue"
URL
manager = "B"
[[sink]]
name = "lake"
kind = "files"
path = "lake"
"""
KAFKA_SOURCE = """
[[source]]
kind = "kafka"
bootstrap_servers = "127.0.0.1:9092"
topic = "calls"
columns = { queue = "topic", payload = "value" }
"""
KAFKA_SINK = """
[[sink]]
name = "topic"
kind = "kafka"
bootstrap_servers = "127.0.0.1:9092"
topic = "done"
"""
ROUTE = '[[route]]\nto = "lake"\nwhen = "{}"\n'


OWN_COLUMNS = """
[[source]]
kind = "queue"
URL
manager = "A"
queue = "IN"
consumer = "billing"
[source.columns]
payload = "upper(string(payload))"
expire_at = "timestamp_millis(put_ms + 3600000)"
size = "length(payload)"
[[route]]
when = "size > 3"
to = "long"
[[sink]]
name = "short"
kind = "queue"
URL
manager = "B"
queue = "OUT"
[[sink]]
name = "long"
kind = "queue"
URL
manager = "B"
queue = "IN"
"""


@pytest.mark.long
def test_columns_of_a_queue_change_its_messages_and_routes_have_them(
    session: SparkSession, tmp_path: Path
) -> None:
    with scene(tmp_path) as s:
        with s.a.session() as putter:
            for text in ("abc", "abcd"):
                putter.put("IN", text.encode(), persistent=True)
        config = written(s, OWN_COLUMNS)
        run_until(start(config, session), lambda: [s.b.curdepth(q) for q in ("OUT", "IN")], [1, 1])
        [short], [long] = taken(s.b, "OUT"), taken(s.b, "IN")
        assert (short.body, long.body) == (b"ABC", b"ABCD")
        assert 3_000_000 < short.remaining_ms <= 3_600_000


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A scene that is looked at only."""
    with scene(tmp_path_factory.mktemp("plain")) as s:
        yield s


MISTAKES = [
    (
        ("cast(n as binary)", "foo(n)"),
        "[[source]] 1, columns, payload: 'foo(n)': [UNRESOLVED_ROUTINE] Cannot resolve",
    ),
    (
        ("cast(n as binary)", "n +"),
        "[[source]] 1, columns, payload: 'n +': [PARSE_SYNTAX_ERROR] Syntax error at or near end",
    ),
    (
        ("cast(n as binary)", "n"),
        "[[source]] 1: column payload is bigint; it must be binary or string",
    ),
    (
        ("cast(n as binary)", "cast(uuid() as binary)"),
        "[[source]] 1, columns, payload: 'cast(uuid() as binary)': gives another value each time",
    ),
    (
        ("payload =", "body ="),
        "[[source]] 1, columns.payload: is missing: say what makes it of n",
    ),
    (
        ("n bigint", "n bigant"),
        "[[source]] 1, schema: 'n bigant': [UNSUPPORTED_DATATYPE] Unsupported data type",
    ),
    (
        ('path = "in"', 'path = "s3a://bucket/in"'),
        "[[source]] 1, path: s3a://bucket/in: this Spark has no file system for s3a: name its",
    ),
    (
        ("[[sink]]", '[[sink]]\nname = "far"\nkind = "files"\npath = "abc://b/out"\n[[sink]]'),
        "[[sink]] 1, path: abc://b/out: this Spark has no file system for abc: name",
    ),
    (('path = "in"', 'path = "inn"'), "[[source]] 1, path: [PATH_NOT_FOUND] Path does not exist"),
    (
        ('extra = "n"', "feedback = \"'none'\""),
        "[[source]] 1: column feedback is string; it must be int",
    ),
    (("[[sink]]", KAFKA_SOURCE + "[[sink]]"), "[[source]] 2: this Spark has no Kafka: name its"),
    (("[[sink]]", KAFKA_SINK + "[[sink]]"), "[[sink]] 1: this Spark has no Kafka: name its"),
    (
        ("[[sink]]", ROUTE.format("queue") + "[[sink]]"),
        "[[route]] 1, when: 'queue': is string, neither true nor false",
    ),
    (
        ("[[sink]]", ROUTE.format("n = 1") + "[[sink]]"),
        "[[route]] 1, when: 'n = 1': [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column",
    ),
    (
        ("[[sink]]", ROUTE.format("rand() < 0.5") + "[[sink]]"),
        "[[route]] 1, when: 'rand() < 0.5': gives another value each time",
    ),
]


@pytest.mark.parametrize(("change", "said"), MISTAKES, ids=[said[:40] for _, said in MISTAKES])
def test_what_spark_or_a_message_cannot_have_is_named_and_nothing_begins(
    session: SparkSession,
    plain: Scene,
    change: tuple[str, str],
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    config = written(plain, PLAIN.replace(*change, 1))
    with pytest.raises(PipelineFileError) as caught:
        start(config, session)
    assert str(caught.value).startswith(f"{config.path}: {said}")
    assert "\n" not in str(caught.value)
    [problem] = [
        p
        for p in check(config, session)
        if said.startswith(p.where) and p.text in str(caught.value)
    ]
    assert not problem.is_warning
    assert "SQLQueryContextLogger" not in capfd.readouterr().err
    assert not Path(config.checkpoint).exists()


def test_a_checkpoint_on_a_file_system_that_spark_does_not_know_is_named_and_nothing_begins(
    session: SparkSession, plain: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = replace(written(plain, PLAIN), checkpoint="s3a://bucket/cp")
    with pytest.raises(
        PipelineFileError, match="checkpoint: s3a://bucket/cp: this Spark has no file"
    ):
        start(config, session)
    assert list(tmp_path.iterdir()) == []


def test_the_example_is_right(session: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[2] / "examples" / "boarding", tmp_path / "boarding")
    shutil.copy(Path(__file__).parents[2] / "examples" / "boarding.toml", tmp_path)
    assert check(load(tmp_path / "boarding.toml"), session) == []


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_damaged_mark_of_an_output_is_named_as_that_of_a_checkpoint_is(
    session: SparkSession, tmp_path: Path, text: str
) -> None:
    (tmp_path / "_mayfly_pipeline.json").write_text(text)
    with pytest.raises(CheckpointError, match=rf"^_mayfly_pipeline.json in folder {tmp_path} is d"):
        tie_output(FileSink("lake", "parquet", str(tmp_path)), "another", session)


def test_a_checkpoint_and_an_output_belong_to_one_pipeline(
    session: SparkSession, tmp_path: Path
) -> None:
    with scene(tmp_path) as s:
        config = written(s, PLAIN)
        assert tie_checkpoint(config, session) == tie_checkpoint(config, session)
        moved = written(s, PLAIN.replace('"in"', '"A"'))
        text = r"checkpoint .*cp: \[\[source\]\] 1 was kind files format json path .*/in and is now"
        with pytest.raises(CheckpointError, match=text):
            start(moved, session)
        [problem] = check(moved, None)
        assert problem.where == "checkpoint"
        more = written(s, PLAIN + BETWEEN_QUEUES[26:144])
        with pytest.raises(CheckpointError, match="is of 1 sources, the pipeline has 2: use a new"):
            tie_checkpoint(more, session)
        lake = config.sink("lake")
        assert isinstance(lake, FileSink)
        tie_output(lake, "another", session)
        with pytest.raises(CheckpointError, match="lake is the output of another checkpoint"):
            start(config, session)
        foreign = replace(config, checkpoint=str(tmp_path / "foreign"))
        (tmp_path / "foreign" / "offsets").mkdir(parents=True)
        with pytest.raises(CheckpointError, match="foreign is that of another query"):
            tie_checkpoint(foreign, session)
        assert [p.text for p in check(foreign, None)] == [
            f"{tmp_path}/foreign is that of another query"
        ]
        (tmp_path / "lake2" / "b=0").mkdir(parents=True)
        with pytest.raises(
            CheckpointError, match="lake2 of sink lake has batches of somebody else"
        ):
            tie_output(replace(lake, path=str(tmp_path / "lake2")), "x", session)
