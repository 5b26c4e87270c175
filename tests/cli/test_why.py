"""why: where a message is, in one sentence and step by step; its documentation runs."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.why import lines_of
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock
from tests.bulk.books import life
from tests.cli.conftest import Invoke
from tests.pages import part
from tests.spark.lakes import write_lake

TEXT = part("WHY.md", "Why is my message not there?")


def doc_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_documented_commands_print_what_is_shown(
    mayfly: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command without output shown must succeed; in what is shown … stands for anything."""
    monkeypatch.setenv("LOGNAME", "alice")
    [block] = doc_blocks("console")
    steps = re.findall(r"^\$ mayfly (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)
    assert len(steps) == 7
    for command, output in steps:
        answer = mayfly(*shlex.split(command))
        if not output:
            assert answer.exit_code == 0, answer.output
            continue
        pattern = ".*".join(map(re.escape, output.split("…")))
        assert re.fullmatch(pattern, answer.output), f"{command}:\n{answer.output}"


def test_the_documented_story_over_two_queue_managers_is_what_is_printed() -> None:
    clock = VirtualClock(1_700_000_000_000)
    with QueueManager("QM1", clock=clock) as one, QueueManager("QM2", clock=clock) as two:
        for here, there in ((one, two), (two, one)):
            name = f"{here.name}.TO.{there.name}"
            there.mqsc(f"DEFINE CHANNEL({name}) CHLTYPE(RCVR) TRPTYPE(LOCAL)")
            here.mqsc(
                f"DEFINE QLOCAL({there.name}) USAGE(XMITQ)\n"
                f"DEFINE CHANNEL({name}) CHLTYPE(SDR) TRPTYPE(LOCAL) XMITQ({there.name}) "
                f"CONNAME({there.name})\nSTART CHANNEL({name})"
            )
        one.mqsc("DEFINE QLOCAL(REPLIES)\nDEFINE QREMOTE(ORDERS) RNAME(IN) RQMNAME(QM2)")
        two.mqsc("DEFINE QLOCAL(IN)")
        with one.session("alice") as session:
            msg_id = session.put(
                "ORDERS",
                b"tickets",
                time_to_live_ms=60_000,
                persistent=True,
                report=c.MQRO_EXPIRATION,
                reply_to_q="REPLIES",
            )
        clock.advance(60_000)
        with two.session() as session:
            assert session.get("IN") is None
        clock.advance(0)
        found = one.traces.of(msg_id)
    printed = "\n".join((found.sentence, *lines_of(found.steps), ""))
    [shown] = doc_blocks("output")
    assert re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed), printed


def test_the_documented_program_prints_what_is_shown() -> None:
    [program], [output] = doc_blocks("python"), doc_blocks("text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue() == output


def test_json_has_every_field_and_ids_as_they_are_printed(queue: Invoke) -> None:
    msg_id = queue("put", "QM1", "Q1", "x", "--correl-id", "17").stdout.strip()
    answer = queue("why", "QM1", "17", "--json")
    assert (answer.exit_code, answer.stderr) == (0, "")
    found = json.loads(answer.stdout)
    assert (found["id"], found["is_known"], found["is_cut"]) == ("17".ljust(48, "0"), True, False)
    assert found["sentence"] == "It is on Q1 and can be got; it never expires."
    assert [(step["what"], step["queue"]) for step in found["steps"]] == [
        ("put", "Q1"),
        ("available", "Q1"),
    ]
    [entry] = found["entries"]
    assert (entry["msg_id"], entry["correl_id"]) == (msg_id, "17".ljust(48, "0"))
    assert (entry["state"], entry["reason"], entry["reason_name"]) == ("available", 0, None)


def test_the_id_of_a_task_may_have_its_hyphens(queue: Invoke) -> None:
    task_id = "3e916dfa-6930-40f9-9c13-e184bb0873eb"
    queue("put", "QM1", "Q1", "x", "--msg-id", task_id.replace("-", ""))
    answer = queue("why", "QM1", task_id)
    assert answer.stdout.startswith("It is on Q1 and can be got")


def test_what_retention_has_removed_is_told_from_a_lake(queue: Invoke, tmp_path: Path) -> None:
    write_lake(tmp_path / "lake", [life(1)])
    identifier = life(1).msg_id.hex()
    assert queue("why", "QM1", identifier).exit_code == ExitCode.NOTHING
    answer = queue("why", "QM1", identifier, "--lake", str(tmp_path / "lake"))
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout.startswith("It was got from Q1 at 2023-11-14 22:13:21.250, 250 ms after")
    answer = queue("why", "QM1", identifier, "--lake", str(tmp_path / "no"))
    assert answer.exit_code == ExitCode.NOTHING
    assert f"lake {tmp_path / 'no'} cannot be read: there is no lake at" in answer.stderr


def test_traces_are_asked_for_by_a_property(queue: Invoke, home: Path) -> None:
    with QueueManager("QM1", home / "QM1") as manager, manager.session() as session:
        ids = [
            session.put("Q1", b"x", persistent=True, properties={"order": number}).hex()
            for number in (17, 17, 18)
        ]
    answer = queue("why", "QM1", "--property", "order=18", "--from", "2020-01-01")
    assert (answer.exit_code, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert lines[:2] == [ids[2], "It is on Q1 and can be got; it never expires."]
    assert lines[-1].startswith("Messages that have ended are not among them")
    found = json.loads(queue("why", "QM1", "--property", "order=17", "--json").stdout)
    assert sorted(trace["id"] for trace in found["traces"]) == sorted(ids[:2])
    answer = queue("why", "QM1", "--property", "order=17", "--limit", "1")
    assert "There are more." in answer.stdout
    answer = queue("why", "QM1", "--property", "order=17", "--before", "2020-01-01")
    assert answer.exit_code == ExitCode.NOTHING
    assert answer.stderr.startswith("mayfly: no message on QM1 has this property.")


@pytest.mark.parametrize("words", [[], ["17", "--property", "order=17"]])
def test_either_an_id_or_a_property_is_given(queue: Invoke, words: list[str]) -> None:
    answer = queue("why", "QM1", *words)
    assert answer.exit_code == ExitCode.USAGE
    assert "give either an ID or --property" in answer.stderr


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_unknown_id_ends_with_1_and_one_line(queue: Invoke, options: list[str]) -> None:
    answer = queue("why", "QM1", "00ff", *options)
    assert answer.exit_code == ExitCode.NOTHING
    assert answer.stderr.startswith("mayfly: QM1 knows no message with this MsgId or CorrelId")
    assert len(answer.stderr.splitlines()) == 1
    if options:
        assert json.loads(answer.stdout)["is_known"] is False
    else:
        assert not answer.stdout


@pytest.mark.parametrize(
    ("identifier", "code", "said"),
    [
        ("xyz", ExitCode.USAGE, "'xyz' is not hexadecimal"),
        ("aa" * 25, ExitCode.USAGE, "has 25 bytes; an id has 1 to 24"),
        ("00", ExitCode.MQ, "MQRC_MD_ERROR (2026)"),
    ],
)
def test_a_wrong_id_is_named(queue: Invoke, identifier: str, code: ExitCode, said: str) -> None:
    answer = queue("why", "QM1", identifier)
    assert answer.exit_code == code
    assert said in answer.stderr
    assert not answer.stdout
