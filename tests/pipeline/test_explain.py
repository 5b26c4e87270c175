"""What a pipeline is said to do."""

from __future__ import annotations

from pathlib import Path

from mayfly.pipeline.check import explain
from mayfly.pipeline.config import load

TEXT = """
name = "calls"
checkpoint = "/data/cp"
[[source]]
kind = "queue"
url = "grpc://127.0.0.1:9414"
manager = "QM1"
queue = "CALLS"
consumer = "billing"
[[source]]
kind = "files"
format = "json"
path = "/data/in"
schema = "n bigint"
columns = { queue = "'X'", payload = "cast(n as binary)" }
[limit]
cap_ms = 3_600_000
[[limit.queue]]
name = "CALLS.*"
cap_ms = 60_000
[[route]]
when = "priority > 5"
to = "topic"
[[route]]
outcome = "expired"
to = "lake"
[[sink]]
name = "orders"
kind = "queue"
url = "grpc://127.0.0.1:9415"
queue = "IN"
[[sink]]
name = "lake"
kind = "files"
path = "/data/out"
[[sink]]
name = "topic"
kind = "kafka"
bootstrap_servers = "127.0.0.1:9092"
topic = "done"
"""
SAID = """\
Pipeline calls: a batch every 1 second, until it is stopped; its checkpoint is /data/cp.

Reads
  queue CALLS of QM1 at grpc://127.0.0.1:9414, claimed for billing: a claim ends when the batch \
is written
  json files that come into /data/in, each once

Limits
  no message lives longer than 3600000 ms from its put
  messages for CALLS.*: no longer than 60000 ms; the lowest limit wins

Holds
  messages of queues: not at all; their lifetimes go on, up to where they are put
  other rows: until their delivery time, in slots of 250 ms; what expires first leaves as \
expired. A life begins at the put

Routes
  released rows where priority > 5 go to topic
  all expired rows go to lake
  the rest of the released rows go to orders
  refused rows (malformed, or delayed for too long) go to orders
  reports owed go to the reply-to queues of orders

Writes
  orders: queue IN of grpc://127.0.0.1:9415; what it refuses goes to its dead-letter queue, rows \
refused before to SYSTEM.DEAD.LETTER.QUEUE
  lake: parquet files in /data/out, a folder for each batch
  topic: topic done of Kafka at 127.0.0.1:9092

Exactly once
  a batch that is repeated after a crash has the same rows, under the same number
  orders: the queue manager knows which batches it has put
  lake: a repeat replaces the folder of its batch
  topic: NOT: Kafka may get the rows of a repeated batch again
"""
SMALL = """
name = "calls"
checkpoint = "/data/cp"
trigger = "available now"
[[source]]
kind = "queue"
url = "grpc://127.0.0.1:9414"
queue = "CALLS"
consumer = "billing"
[[sink]]
name = "lake"
kind = "files"
path = "/data/out"
"""
SMALL_SAID = """\
Pipeline calls: takes what is there now, and ends; its checkpoint is /data/cp.

Reads
  queue CALLS of grpc://127.0.0.1:9414, claimed for billing: a claim ends when the batch is written

Limits
  nothing: each message lives as long as it asks for

Holds
  messages of queues: not at all; their lifetimes go on, up to where they are put

Routes
  released rows go to lake

Writes
  lake: parquet files in /data/out, a folder for each batch

Exactly once
  a batch that is repeated after a crash has the same rows, under the same number
  lake: a repeat replaces the folder of its batch
"""


def said_of(folder: Path, text: str) -> str:
    (folder / "pipeline.toml").write_text(text)
    return explain(load(folder / "pipeline.toml"))


def test_each_stage_is_told_with_what_is_exactly_once_and_what_not(tmp_path: Path) -> None:
    assert said_of(tmp_path, TEXT) == SAID
    assert said_of(tmp_path, SMALL) == SMALL_SAID


def test_release_rule_and_the_lack_of_a_queue_are_told(tmp_path: Path) -> None:
    files = TEXT[TEXT.index('[[sink]]\nname = "lake"') : TEXT.index('[[sink]]\nname = "topic"')]
    text = TEXT[: TEXT.index("[limit]")] + '[delay_line]\nttl_rule = "release"\n' + files
    said = said_of(tmp_path, text.replace('name = "calls"', 'name = "calls"\ndead_letter = "lake"'))
    assert "A life begins at the delivery time\n" in said
    assert "\n  expired rows go nowhere; they are counted\n" in said
    assert "\n  refused rows (malformed, or delayed for too long) go to lake\n" in said
    assert "  reports owed are counted and go nowhere: there is no sink of kind queue\n" in said


def test_rows_for_queues_wait_nowhere_unless_expired_ones_are_wanted(tmp_path: Path) -> None:
    """Those for a topic wait here; with holds_all, or a route of expired rows, all do."""
    text = TEXT.replace('[[route]]\noutcome = "expired"\nto = "lake"\n', "")
    assert text != TEXT
    for_queues = "  other rows for queues: not at all; each is put at once, and its queue manager"
    said = said_of(tmp_path, text)
    assert for_queues in said
    assert "  other rows for files and topics: until their delivery time" in said
    only_queues = text.replace('when = "priority > 5"\nto = "topic"', 'to = "orders"')
    assert "until their delivery time, in slots" not in said_of(tmp_path, only_queues)
    for kept in (TEXT, text.replace("[limit]", "[delay_line]\nholds_all = true\n[limit]")):
        assert for_queues not in said_of(tmp_path, kept)
        assert "  other rows: until their delivery time, in slots" in said_of(tmp_path, kept)


def test_messages_that_their_queue_manager_releases_go_to_no_sink(tmp_path: Path) -> None:
    staging = SMALL[: SMALL.index("[[sink]]")].replace('"queue"', '"staging"')
    assert said_of(tmp_path, staging.replace('queue = "CALLS"', "")) == (
        "Pipeline calls: takes what is there now, and ends; its checkpoint is /data/cp.\n\n"
        "Reads\n"
        "  delayed messages of grpc://127.0.0.1:9414 that are due, claimed for billing: the queue "
        "manager puts them where they belong when the batch is done; they go to no sink\n\n"
        "Limits\n  nothing: each message lives as long as it asks for\n\n"
        "Routes\n  nothing: there is no sink\n\n"
        "Exactly once\n"
        "  a batch that is repeated after a crash has the same rows, under the same number\n"
        "  delayed messages: each is released once, with the end of its claim\n"
    )
