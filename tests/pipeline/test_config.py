"""What is read from the TOML of a pipeline, and how each mistake in it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.pipeline.config import (
    AVAILABLE_NOW,
    DelayLine,
    FileSink,
    FileSource,
    KafkaSink,
    KafkaSource,
    Limit,
    PipelineConfig,
    PipelineFileError,
    QueueLimit,
    QueueSink,
    QueueSource,
    Route,
    StagingSource,
    load,
)

TOP = 'name = "calls"\ncheckpoint = "cp"\n'
QUEUE = """
[[source]]
kind = "queue"
url = "grpc://127.0.0.1:9414"
queue = "CALLS"
consumer = "billing"
"""
FILES = """
[[source]]
kind = "files"
format = "json"
path = "in"
schema = "n bigint"
columns = { queue = "'CALLS'", payload = "cast(n as binary)" }
"""
KAFKA = """
[[source]]
kind = "kafka"
bootstrap_servers = "127.0.0.1:9092"
topic = "calls"
columns = { queue = "topic", payload = "value" }
"""
ORDERS = """
[[sink]]
name = "orders"
kind = "queue"
url = "grpc://127.0.0.1:9415"
"""
LAKE = """
[[sink]]
name = "lake"
kind = "files"
path = "out"
"""
TOPIC = """
[[sink]]
name = "topic"
kind = "kafka"
bootstrap_servers = "127.0.0.1:9092"
topic = "done"
"""


def read(folder: Path, *parts: str) -> PipelineConfig:
    path = folder / "calls.toml"
    path.write_text("".join(parts))
    return load(path)


def refusal(folder: Path, *parts: str) -> str:
    """Return what is said of a file, without its path and line, which always come first."""
    with pytest.raises(PipelineFileError) as caught:
        read(folder, *parts)
    path, text = str(caught.value).split(": ", 1)
    assert path.partition(", line ")[0] == str(folder / "calls.toml")
    return text


def test_the_smallest_pipeline_has_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, TOP, QUEUE, ORDERS) == PipelineConfig(
        path=tmp_path / "calls.toml",
        name="calls",
        checkpoint=str(tmp_path / "cp"),
        trigger="1 second",
        sources=(QueueSource("grpc://127.0.0.1:9414", "CALLS", "billing"),),
        sinks=(QueueSink("orders", "grpc://127.0.0.1:9415"),),
        dead_letter="orders",
        reports="orders",
    )


def test_every_key_is_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
name = "calls-1"
checkpoint = "s3a://bucket/cp"
trigger = "available now"
dead_letter = "lake"
reports = "orders"
[spark]
"spark.sql.shuffle.partitions" = 4
"spark.x" = true
[[source]]
kind = "queue"
url = "grpc+tls://mq.example:9414"
token_file = "token"
manager = "QM1"
queue = "CALLS"
consumer = "billing"
columns = { Size = "length(payload)" }
rows_per_batch = 10
bytes_per_batch = 4294967296
partitions = 2
bytes_per_task = 1_000_000
[[source]]
kind = "files"
format = "csv"
path = "/data/in"
schema = "n bigint"
files_per_batch = 3
[source.columns]
QUEUE = "'CALLS'"
payload = "cast(n as binary)"
flight = "n"
[source.options]
header = true
[[source]]
kind = "kafka"
bootstrap_servers = "127.0.0.1:9092"
topic = "calls"
starting_offsets = "latest"
rows_per_batch = 7
options = { "kafka.security.protocol" = "SSL" }
columns = { queue = "topic", payload = "value" }
[limit]
cap_ms = 3_600_000
[[limit.queue]]
name = "CALLS.*"
cap_ms = 60_000
[delay_line]
holds_all = true
ttl_rule = "release"
slot_ms = 1000
shards = 3
[[route]]
when = "queue = 'AUDIT'"
to = "lake"
[[route]]
outcome = "expired"
to = "lake"
[[sink]]
name = "orders"
kind = "queue"
url = "grpc://127.0.0.1:9415"
token_file = "/etc/token"
manager = "QM2"
queue = "IN"
dead_letter_queue = "DLQ"
persistence = "as_queue"
[[sink]]
name = "lake"
kind = "files"
format = "json"
path = "out"
options = { compression = "gzip" }
[[sink]]
name = "topic"
kind = "kafka"
bootstrap_servers = "127.0.0.1:9092"
topic = "done"
key = "msg_id"
value = "to_json(struct(queue))"
options = { acks = "all" }
""",
    )
    assert config == PipelineConfig(
        path=tmp_path / "calls.toml",
        name="calls-1",
        checkpoint="s3a://bucket/cp",
        trigger=AVAILABLE_NOW,
        spark={"spark.sql.shuffle.partitions": "4", "spark.x": "true"},
        sources=(
            QueueSource(
                "grpc+tls://mq.example:9414",
                "CALLS",
                "billing",
                columns={"size": "length(payload)"},
                token_file=str(tmp_path / "token"),
                manager="QM1",
                rows_per_batch=10,
                bytes_per_batch=2**32,
                partitions=2,
                bytes_per_task=1_000_000,
            ),
            FileSource(
                "csv",
                "/data/in",
                "n bigint",
                {"queue": "'CALLS'", "payload": "cast(n as binary)", "flight": "n"},
                files_per_batch=3,
                options={"header": "true"},
            ),
            KafkaSource(
                "127.0.0.1:9092",
                "calls",
                {"queue": "topic", "payload": "value"},
                starting_offsets="latest",
                rows_per_batch=7,
                options={"kafka.security.protocol": "SSL"},
            ),
        ),
        limit=Limit(3_600_000, (QueueLimit("CALLS.*", 60_000),)),
        delay_line=DelayLine("release", 1_000, 3, holds_all=True),
        routes=(Route("lake", "queue = 'AUDIT'"), Route("lake", outcome="expired")),
        sinks=(
            QueueSink(
                "orders",
                "grpc://127.0.0.1:9415",
                token_file="/etc/token",
                manager="QM2",
                queue="IN",
                dead_letter_queue="DLQ",
                persistence="as_queue",
            ),
            FileSink("lake", "json", str(tmp_path / "out"), {"compression": "gzip"}),
            KafkaSink(
                "topic",
                "127.0.0.1:9092",
                "done",
                "msg_id",
                "to_json(struct(queue))",
                {"acks": "all"},
            ),
        ),
        dead_letter="lake",
        reports="orders",
    )
    assert (config.is_available_now, config.has_delay_line) == (True, True)


def test_rows_of_queues_alone_need_no_delay_line_and_no_place_for_refused_ones(
    tmp_path: Path,
) -> None:
    config = read(tmp_path, TOP, QUEUE, LAKE)
    assert (config.has_delay_line, config.dead_letter, config.reports) == (False, None, None)
    assert read(tmp_path, TOP, FILES, LAKE, ORDERS).dead_letter == "orders"
    said = refusal(tmp_path, TOP, FILES, LAKE)
    assert said.startswith("dead_letter: is missing: it names the sink of refused rows")
    found = read(tmp_path, TOP, 'dead_letter = "lake"\n', FILES, LAKE)
    assert (found.dead_letter, found.reports) == ("lake", None)


def test_text_files_have_their_schema(tmp_path: Path) -> None:
    text = FILES.replace('"json"', '"text"').replace('schema = "n bigint"\n', "")
    (source,) = read(tmp_path, TOP, text, ORDERS).sources
    assert isinstance(source, FileSource)
    assert source.schema == "value string"
    csv = FILES.replace('schema = "n bigint"\n', "")
    assert refusal(tmp_path, TOP, csv, ORDERS) == "[[source]] 1, schema: is missing"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ("name = calls", "is not TOML: Invalid value (at line 1, column 8)"),
        (QUEUE + ORDERS, "name: is missing"),
        (TOP + ORDERS, "[[source]]: is missing: a pipeline has at least one source"),
        (TOP + QUEUE, "[[sink]]: is missing: a pipeline has at least one sink"),
        (
            TOP + 'sources = "x"\n' + QUEUE + ORDERS,
            "sources: is no key here, did you mean 'source'?",
        ),
        (TOP + 'source = "x"\n' + ORDERS, "source: is not an array of tables: write [[source]]"),
        (
            TOP + 'trigger = "1 s"\n' + QUEUE + ORDERS,
            "trigger: '1 s' is neither 'available now' nor like '1 second'",
        ),
        (
            TOP + 'dead_letter = "order"\n' + QUEUE + ORDERS,
            "dead_letter: no sink is named 'order', did you mean 'orders'?",
        ),
        (
            TOP + 'reports = "lake"\n' + QUEUE + LAKE,
            "reports: 'lake' is no sink of kind queue",
        ),
        (TOP + "limit = 3\n" + QUEUE + ORDERS, "limit: 3 is not a table: write [limit]"),
        (
            TOP + "spark = { a = [1] }\n" + QUEUE + ORDERS,
            "spark.a: [1] is not a text",
        ),
        (
            'name = "a b"\ncheckpoint = "c"\n' + QUEUE + ORDERS,
            "name: 'a b' is not a name of letters, digits, '.', '_' and '-'",
        ),
    ],
)
def test_a_wrong_key_at_the_top_is_named(tmp_path: Path, parts: str, said: str) -> None:
    assert refusal(tmp_path, parts) == said


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            QUEUE.replace('"queue"', '"queues"', 1),
            "kind: 'queues' is none of queue, files, kafka, staging, did you mean 'queue'?",
        ),
        (
            QUEUE.replace('"queue"', '"staging"', 1),
            "queue: is no key here",
        ),
        (
            QUEUE.replace("CALLS", "SYSTEM.DDELAY.LOCAL.QUEUE"),
            (
                'queue: SYSTEM.DDELAY.LOCAL.QUEUE is read by kind = "staging": '
                "what is there has a target"
            ),
        ),
        (QUEUE.replace('consumer = "billing"', ""), "consumer: is missing"),
        (QUEUE.replace('"billing"', '""'), "consumer: '' is not a text"),
        (QUEUE.replace('"billing"', "7"), "consumer: 7 is not a text"),
        (
            QUEUE.replace("grpc://127.0.0.1:9414", "http://x"),
            "url: url 'http://x' is not grpc://HOST:PORT or grpc+tls://HOST:PORT",
        ),
        (
            QUEUE.replace("127.0.0.1", "${HOST}"),
            "url: 'grpc://${HOST}:9414' is taken as it is: nothing like ${NAME} is expanded",
        ),
        (
            QUEUE + 'token = "abc"\n',
            (
                "token: a token does not stand in a file that others read: name a token_file, "
                "or set MAYFLY_TOKEN"
            ),
        ),
        (
            QUEUE + 'token_file = "$HOME/token"\n',
            "token_file: '$HOME/token' is taken as it is: nothing like ${NAME} is expanded",
        ),
        (
            QUEUE + 'tokenfile = "token"\n',
            "tokenfile: is no key here, did you mean 'token_file'?",
        ),
        (
            QUEUE + "rows_per_batch = 0\n",
            "rows_per_batch: 0 is not a whole number from 1 to 2147483647",
        ),
        (
            QUEUE + "rows_per_batch = true\n",
            "rows_per_batch: True is not a whole number from 1 to 2147483647",
        ),
        (
            QUEUE.replace("CALLS", "C" * 49),
            f"queue: '{'C' * 49}' is longer than 48 characters",
        ),
        (
            FILES.replace('"json"', '"xml"'),
            "format: 'xml' is none of json, csv, text, parquet, orc",
        ),
        (FILES.replace('path = "in"', ""), "path: is missing"),
        (
            FILES.replace("payload =", "outcome ="),
            "columns.outcome: is a column that the pipeline adds",
        ),
        (
            FILES.replace("payload =", "time_to_live_ms ="),
            "columns.time_to_live_ms: is called life_ms here, did you mean 'life_ms'?",
        ),
        (
            FILES.replace("payload =", '"a.b" ='),
            "columns.a.b: is not a name of letters, digits and underscores",
        ),
        (
            QUEUE + "columns = { delay_ms = '5' }",
            "columns.delay_ms: is for rows that are no message yet: change expire_at_ms",
        ),
        (KAFKA.replace('topic = "calls"', ""), "topic: is missing"),
        (KAFKA + 'group = "x"\n', "group: is no key here"),
    ],
)
def test_a_wrong_key_of_a_source_is_named(tmp_path: Path, table: str, said: str) -> None:
    other = QUEUE.replace("billing", "other")
    assert refusal(tmp_path, TOP, other, table, ORDERS) == f"[[source]] 2, {said}"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[[sink]]\nkind = 'queue'\n", "[[sink]] 2, name: is missing"),
        (
            LAKE.replace('"files"', '"file"'),
            "[[sink]] 2, kind: 'file' is none of queue, files, kafka, did you mean 'files'?",
        ),
        (
            LAKE + 'format = "csv"\n',
            "[[sink]] 2, format: 'csv' is none of parquet, orc, json",
        ),
        (
            ORDERS.replace("orders", "x") + 'token_file = "x3://t"\n',
            "[[sink]] 2, token_file: x3://t is no path of this machine: x3: is not supported here",
        ),
        (ORDERS, "[[sink]]: two have the same name: orders, orders"),
        (
            LAKE.replace('"out"', '"in"'),
            "[[sink]]: writes to a folder that another part reads or writes, too",
        ),
        (TOPIC.replace("topic =", "topics ="), "[[sink]] 2, topic: is missing"),
        (
            ORDERS.replace("orders", "x") + 'persistence = "yes"\n',
            "[[sink]] 2, persistence: 'yes' is none of persistent, non_persistent, as_queue",
        ),
        (
            ORDERS.replace("orders", "x") + 'dead_letter = "yes"\n',
            "[[sink]] 2, dead_letter: is no key here, did you mean 'dead_letter_queue'?",
        ),
    ],
)
def test_a_wrong_key_of_a_sink_is_named(tmp_path: Path, table: str, said: str) -> None:
    assert refusal(tmp_path, TOP, FILES, ORDERS, table) == said


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            "[limit]\ncap_ms = 0\n",
            "[limit], cap_ms: 0 is not a whole number from 1 to 214748364700",
        ),
        ("[limit]\ncap = 5\n", "[limit], cap: is no key here, did you mean 'cap_ms'?"),
        ('[[limit.queue]]\nname = "A"\n', "[limit] [[queue]] 1, cap_ms: is missing"),
        (
            '[[limit.queue]]\nname = "A*B"\ncap_ms = 1\n',
            (
                "[limit] [[queue]] 1, name: 'A*B' is no name of a queue; "
                "an asterisk may stand at its end"
            ),
        ),
        (
            '[delay_line]\nttl_rule = "put"\n',
            "[delay_line], ttl_rule: 'put' is none of send, release",
        ),
        (
            "[delay_line]\nslot_ms = 3600001\n",
            "[delay_line], slot_ms: 3600001 is not a whole number from 1 to 3600000",
        ),
        ('[[route]]\nto = "lake"\n', "[[route]] 1, to: no sink is named 'lake'"),
        (
            '[[route]]\nto = "orders"\noutcome = "late"\n',
            "[[route]] 1, outcome: 'late' is none of released, expired, dead_lettered",
        ),
        (
            """[[route]]\nto = "orders"\nwhen = "outcome = 'expired'"\n""",
            (
                "[[route]] 1, when: \"outcome = 'expired'\": outcome is a key of its own, "
                'outcome = "expired"'
            ),
        ),
    ],
)
def test_a_wrong_limit_delay_line_or_route_is_named(tmp_path: Path, table: str, said: str) -> None:
    assert refusal(tmp_path, TOP, FILES, ORDERS, table) == said


def test_messages_of_queues_are_all_released(tmp_path: Path) -> None:
    route = '[[route]]\nto = "orders"\noutcome = "expired"\n'
    assert refusal(tmp_path, TOP, QUEUE, ORDERS, route) == (
        "[[route]] 1, outcome: 'expired' is none that messages of queues have here: "
        "all are released"
    )
    assert read(tmp_path, TOP, FILES, ORDERS, route).routes == (Route("orders", None, "expired"),)


def test_what_a_queue_manager_releases_needs_no_sink(tmp_path: Path) -> None:
    staging = QUEUE.replace('"queue"', '"staging"', 1).replace(
        'queue = "CALLS"', "rows_per_batch = 9"
    )
    config = read(tmp_path, TOP, staging)
    assert config.sources == (StagingSource("grpc://127.0.0.1:9414", "billing", rows_per_batch=9),)
    assert (config.sinks, config.dead_letter, config.has_delay_line) == ((), None, False)
    both = read(tmp_path, TOP, staging, QUEUE.replace("billing", "other"), ORDERS)
    assert len(both.sources) == 2
    needs = refusal(tmp_path, TOP, staging, QUEUE.replace("billing", "other"))
    assert needs == "[[sink]]: is missing: a pipeline has at least one sink"


def test_two_readers_of_one_name_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, TOP, QUEUE, QUEUE.replace("CALLS", "X"), ORDERS) == (
        "[[source]]: two sources have the same consumer: each needs a name of its own"
    )
    elsewhere = QUEUE.replace("9414", "9416")
    assert len(read(tmp_path, TOP, QUEUE, elsewhere, ORDERS).sources) == 2


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.toml")
