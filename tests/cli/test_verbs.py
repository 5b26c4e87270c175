"""put, get, browse, mqsc and verify: what they print, and how they end when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.app import COMMANDS as COMMANDS_OF_THE_APP
from mayfly.cli.app import command_named
from mayfly.cli.ledger import print_reports
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.show import remaining
from mayfly.lifetime.life import OUTCOMES
from mayfly.mqi.constants import MQFB_EXPIRATION, MQRO_EXPIRATION_WITH_DATA
from mayfly.pipeline.lake.queries import QueueReport
from mayfly.store.database import DATABASE_FILE
from tests.cli.conftest import Invoke, environment
from tests.store.scene import raw

COMMANDS = [
    "mqsc",
    "put",
    "get",
    "browse",
    "why",
    "verify",
    "compact",
    "serve",
    "demo",
    "ping",
    "export",
]
LEDGER_COMMANDS = ["run", "report", "verify", "compact", "export"]


def one_line(text: str) -> str:
    """Return the only line of an error; a traceback has more."""
    [line] = text.splitlines()
    assert line.startswith("mayfly: ")
    return line


@pytest.mark.parametrize(
    "words",
    [[name] for name in COMMANDS]
    + [["ledger", name] for name in LEDGER_COMMANDS]
    + [["clock", name] for name in ("show", "accept", "advance")]
    + [["qm", name] for name in ("create", "list", "status", "start", "stop", "delete")],
)
def test_every_command_has_help_with_an_example(mayfly: Invoke, words: list[str]) -> None:
    answer = mayfly(*words, "--help")
    assert answer.exit_code == 0
    assert f"  mayfly {' '.join(words)} " in answer.output.partition("Example")[2]
    # The page is plain text: what would escape it for another renderer is shown.
    assert "\\[" not in answer.output


def test_help_lists_the_commands_and_the_exit_codes(mayfly: Invoke) -> None:
    answer = mayfly("--help")
    assert answer.exit_code == 0
    for code in ExitCode:
        assert f"\n    {code.value:<3}  " in answer.output
    for name in [*COMMANDS, "ledger"]:
        assert f"\n  {name} " in answer.output


@pytest.mark.parametrize("name", COMMANDS_OF_THE_APP)
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    """The list has the first sentence of each, so that it need not import them all."""
    first, _, _rest = (command_named(name).help or "").partition("\n\n")
    assert first.strip() == COMMANDS_OF_THE_APP[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        (["--help"], {"apsw", "lark", "mayfly.engine", "mayfly.store", "pyarrow", "pyspark"}),
        (["--version"], {"apsw", "lark", "mayfly.engine", "mayfly.store", "pyarrow", "pyspark"}),
        (["put", "--help"], {"pyarrow", "pandas", "pyspark", "mayfly.cli.why", "mayfly.cli.dlq"}),
        (["serve", "--help"], {"pandas", "pyspark", "mayfly.cli.demo", "mayfly.cli.ledger"}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_what_it_runs_and_nothing_else(
    home: Path, words: list[str], unwanted: set[str]
) -> None:
    exit_code, imported = imports_of(home, words)
    assert exit_code == 0
    assert not unwanted & imported


@pytest.mark.slow
def test_serve_listens_before_it_imports_what_its_first_calls_need(home: Path) -> None:
    """An address of no machine: it ends where it would listen. pandas alone takes half a second."""
    words = ["serve", "QM1", "--flight", "192.0.2.1:9414", "--without-client-certificates"]
    exit_code, imported = imports_of(home, words)
    assert exit_code == ExitCode.PIPELINE
    assert "mayfly.servers.flight" in imported
    assert not {"pandas", "pyspark", "mayfly.cli.ledger", "mayfly.cli.demo"} & imported


@pytest.mark.slow
def test_serve_without_flight_imports_no_arrow(home: Path) -> None:
    """Arrow alone takes as long as all the rest of a start."""
    exit_code, imported = imports_of(home, ["serve", "QM1", "--mq", "192.0.2.1:1414"])
    assert exit_code == ExitCode.PIPELINE
    assert "mayfly.servers.wire.server" in imported
    assert not {"pyarrow", "pandas", "cryptography", "mayfly.servers.flight"} & imported


def imports_of(home: Path, words: list[str]) -> tuple[int, set[str]]:
    """Run a command in a process; return its exit code and the modules that it has imported."""
    code = (
        "import sys; from mayfly.cli import main\n"
        f"sys.argv = ['mayfly', *{words}]\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code or 0\n"
        "print(int(code), *sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(home),
        capture_output=True,
        text=True,
        check=True,
    )
    exit_code, *imported = answer.stdout.splitlines()[-1].split()
    return int(exit_code), set(imported)


@pytest.mark.parametrize(
    ("remaining_ms", "shown"),
    [(None, "never"), (1, "1 ms"), (3_560_800, "59 min 21 s"), (3_560_000, "59 min 20 s")],
)
def test_E4_what_is_left_of_a_life_is_told_in_its_two_largest_units_and_rounded_up(
    remaining_ms: int | None, shown: str
) -> None:
    assert remaining(remaining_ms) == shown


def test_put_prints_the_id_and_get_takes_the_message_once(queue: Invoke) -> None:
    put = queue("put", "QM1", "Q1", "hello")
    assert put.exit_code == 0
    assert len(bytes.fromhex(put.stdout.strip())) == 24
    assert queue("get", "QM1", "Q1").stdout == "hello\n"
    again = queue("get", "QM1", "Q1")
    assert again.exit_code == ExitCode.NOTHING
    assert one_line(again.stderr) == "mayfly: no message on Q1"


def test_a_body_from_stdin_or_a_file_comes_out_byte_by_byte(queue: Invoke, tmp_path: Path) -> None:
    binary = bytes(range(256))
    (tmp_path / "body").write_bytes(binary)
    assert queue("put", "QM1", "Q1", "--file", str(tmp_path / "body")).exit_code == 0
    assert queue("put", "QM1", "Q1", input=b"\xff\x00").exit_code == 0
    assert queue("get", "QM1", "Q1").stdout_bytes == binary + b"\n"
    shown = json.loads(queue("get", "QM1", "Q1", "--json").stdout)
    assert shown["body_hex"] == "ff00"
    assert "body" not in shown


def test_a_body_of_the_command_line_that_is_no_text_goes_through_as_it_is(queue: Invoke) -> None:
    """Python hands such bytes over as lone surrogates."""
    assert queue("put", "QM1", "Q1", os.fsdecode(b"caf\xe9\xff")).exit_code == 0
    assert queue("get", "QM1", "Q1").stdout_bytes == b"caf\xe9\xff\n"


def test_a_body_longer_than_any_message_is_refused_before_it_is_read(
    queue: Invoke, tmp_path: Path
) -> None:
    """A device has no end; the size of a file is looked at first."""
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(2**33)
    for path in (sparse, Path("/dev/zero")):
        answer = queue("put", "QM1", "Q1", "--file", str(path))
        assert answer.exit_code == ExitCode.MQ
        assert one_line(answer.stderr) == (
            f"mayfly: MQRC_MSG_TOO_BIG_FOR_Q_MGR (2031): --file {path} has more than 104,857,600 "
            "bytes, the most that MAXMSGL can be"
        )
    missing = queue("put", "QM1", "Q1", "--file", str(tmp_path / "missing"))
    assert (missing.exit_code, "missing: No such file" in missing.stderr) == (ExitCode.FILE, True)


def test_json_tells_the_descriptor_and_the_lifetime(queue: Invoke) -> None:
    put = queue(
        *("put", "QM1", "Q1", "späť", "--expiry", "2h", "--correl-id", "ab01", "--priority", "7"),
        *("--report", "expiration-with-data", "--reply-to", "REPORTS", "--json"),
    )
    msg_id = json.loads(put.stdout)["msg_id"]
    [line] = queue("browse", "QM1", "Q1", "--json").stdout.splitlines()
    shown = json.loads(line)
    assert shown["msg_id"] == msg_id
    assert shown["body"] == "späť"
    assert shown["correl_id"] == "ab01".ljust(48, "0")
    assert shown["expire_at_ms"] == shown["put_ms"] + 7_200_000
    assert 0 < shown["remaining_ms"] <= 7_200_000
    assert (shown["priority"], shown["persistent"]) == (7, True)
    assert (shown["report"], shown["reply_to_q"]) == (MQRO_EXPIRATION_WITH_DATA, "REPORTS")


def test_get_by_id_passes_the_others_over(queue: Invoke) -> None:
    first, second = (queue("put", "QM1", "Q1", body).stdout.strip() for body in ("one", "two"))
    queue("put", "QM1", "Q1", "three", "--correl-id", "c0ffee")
    assert queue("get", "QM1", "Q1", "--correl-id", "C0FFEE").stdout == "three\n"
    assert queue("get", "QM1", "Q1", "--msg-id", second).stdout == "two\n"
    assert queue("get", "QM1", "Q1", "--msg-id", second).exit_code == ExitCode.NOTHING
    assert queue("get", "QM1", "Q1", "--msg-id", first).stdout == "one\n"


def test_get_all_takes_them_in_order_and_browse_leaves_them(queue: Invoke) -> None:
    for body in ("one", "two"):
        queue("put", "QM1", "Q1", body)
    head, *lines = queue("browse", "QM1", "Q1").stdout.splitlines()
    assert head.split() == ["MsgId", "put", "(UTC)", "expires", "in", "bytes", "body"]
    assert [line.split()[-3:] for line in lines] == [["never", "3", "one"], ["never", "3", "two"]]
    assert queue("get", "QM1", "Q1", "--all").stdout == "one\ntwo\n"
    assert queue("browse", "QM1", "Q1").exit_code == ExitCode.NOTHING


def test_a_report_of_queues_is_a_table_of_any_width(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {outcome.value: 0 for outcome in OUTCOMES} | {"got": 1_500, "expired": 500}
    row = QueueReport("QM1", "Q" * 48, 2_000, counts, 0.25, 61_000.0, 62_000.0, 3_600_000.0, 7)
    empty = QueueReport("QM1", "R", 0, dict.fromkeys(counts, 0), 0.0, None, None, None, 0)
    print_reports([row, empty])
    head, *lines = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in (head, *lines)}) == 1
    assert lines[0].split() == ["Q" * 48, *"2,000 1,500 500 0 25.0% 61.0 62.0 3,600.0 7".split()]
    assert lines[1].split() == ["R", *"0 0 0 0 0.0% - - - 0".split()]


@pytest.mark.slow
def test_a_delayed_message_is_got_by_a_get_that_waits(queue: Invoke) -> None:
    queue("put", "QM1", "Q1", "not today", "--delay", "1h")
    assert queue("get", "QM1", "Q1").exit_code == ExitCode.NOTHING
    queue("put", "QM1", "Q1", "later", "--delay", "700ms", "--expiry", "1h")
    answer = queue("get", "QM1", "Q1", "--wait", "30s", "--json")
    shown = json.loads(answer.stdout)
    assert shown["body"] == "later"
    assert shown["deliver_at_ms"] == shown["put_ms"] + 700


@pytest.mark.slow
def test_an_expired_message_leaves_a_report_for_the_next_command(queue: Invoke) -> None:
    put = queue(
        *("put", "QM1", "Q1", "short", "--expiry", "1ms"),
        *("--report", "MQRO_EXPIRATION", "--reply-to", "REPORTS"),
    )
    assert queue("get", "QM1", "Q1", "--wait", "300ms").exit_code == ExitCode.NOTHING
    report = json.loads(queue("get", "QM1", "REPORTS", "--json").stdout)
    assert report["feedback"] == MQFB_EXPIRATION
    assert report["correl_id"] == put.stdout.strip()


def test_a_folder_that_is_in_use_is_named(queue: Invoke, home: Path) -> None:
    with QueueManager("QM1", home / "QM1"):
        answer = queue("put", "QM1", "Q1", "x")
    assert answer.exit_code == ExitCode.FILE
    assert one_line(answer.stderr) == (
        f"mayfly: {home / 'QM1'} is in use by another queue manager; programs share QM1 through "
        "the command `mayfly serve QM1`, to which they connect as clients (docs/SERVING.md)"
    )


def test_mqsc_prints_what_runmqsc_prints_or_rows(mayfly: Invoke, tmp_path: Path) -> None:
    script = tmp_path / "queues.mqsc"
    script.write_text("DEFINE QLOCAL(Q1) CAPEXPRY(600)\nDISPLAY QLOCAL(Q1) CAPEXPRY\n")
    assert "CAPEXPRY(600)" in mayfly("mqsc", "QM1", str(script)).stdout
    answer = mayfly("mqsc", "QM1", "--json", input="DISPLAY QLOCAL(Q1) CAPEXPRY\n")
    shown = json.loads(answer.stdout)
    assert shown["ok"] is True
    assert [row["CAPEXPRY"] for row in shown["rows"]] == [600]


def test_mqsc_makes_a_missing_queue_manager_and_says_so(mayfly: Invoke, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    answer = mayfly("mqsc", "QM1", "-c", "PING QMGR", "--path", str(folder))
    assert one_line(answer.stderr) == f"mayfly: made queue manager QM1 in {folder}"
    assert (folder / DATABASE_FILE).exists()


def test_a_failed_mqsc_command_ends_with_3_and_is_in_the_json(queue: Invoke) -> None:
    answer = queue("mqsc", "QM1", "-c", "DELETE QLOCAL(NONE)", "--json")
    assert answer.exit_code == ExitCode.MQ
    shown = json.loads(answer.stdout)
    assert shown["ok"] is False
    [message] = shown["messages"]
    assert message == {
        "command": "DELETE QLOCAL(NONE)",
        "code": "AMQ8147E",
        "text": "IBM MQ object NONE not found.",
        "detail": "IBM MQ object NONE not found.",
        "reason": 2085,
        "line": 1,
        "column": 1,
    }
    assert one_line(answer.stderr) == (
        "mayfly: line 1, column 1: DELETE QLOCAL(NONE): AMQ8147E: IBM MQ object NONE not found."
    )


def test_each_failed_command_of_a_script_has_a_line_with_its_place_and_reason(
    queue: Invoke, tmp_path: Path
) -> None:
    script = tmp_path / "wrong.mqsc"
    script.write_text(
        "* news\nDEFINE SUB(S) +\n  TOPICSTR('a') DEST(NOPE)\nDEFINE QLOCAL(B) MAXDEP(5)\n", "utf-8"
    )
    answer = queue("mqsc", "QM1", str(script))
    assert answer.exit_code == ExitCode.MQ
    assert answer.stderr.splitlines() == [
        (
            "mayfly: line 2, column 1: DEFINE SUB(S): AMQ8147E: IBM MQ object NOPE not found."
            " queue 'NOPE' is not defined"
        ),
        (
            "mayfly: line 4, column 18: DEFINE QLOCAL(B): AMQ8405E: MAXDEP is not a keyword of"
            " QLOCAL; did you mean MAXDEPTH?"
        ),
        "mayfly: 2 of 2 commands failed",
    ]


def test_export_writes_a_script_that_makes_the_same_queue_manager(
    queue: Invoke, tmp_path: Path
) -> None:
    queue("mqsc", "QM1", "-c", "DEFINE QLOCAL(Q2) NPMCLASS(HIGH)", "-c", "DEFINE LISTENER(L)")
    first = queue("export", "QM1")
    assert (first.exit_code, first.stderr) == (0, "")
    assert "DEFINE LISTENER(L) +\n   TRPTYPE(TCP) +\n" in first.stdout
    script = tmp_path / "qm1.mqsc"
    script.write_text(first.stdout, "utf-8")
    again = queue("mqsc", "QM2", str(script))
    assert again.exit_code == 0
    assert "MFY1003I: These are kept, and have no effect here:" in again.stdout
    assert queue("export", "QM2").stdout == first.stdout


def test_verify_is_0_for_a_store_in_order_and_1_for_a_wrong_one(queue: Invoke, home: Path) -> None:
    queue("put", "QM1", "Q1", "x")
    answer = queue("verify", "QM1", "--json")
    assert answer.exit_code == 0
    shown = json.loads(answer.stdout)
    assert (shown["ok"], shown["problems"], shown["messages"]) == (True, [], 1)
    database = raw(home / "QM1")
    database.execute("DELETE FROM message")
    database.close()
    wrong = queue("verify", "QM1")
    assert wrong.exit_code == ExitCode.NOTHING
    assert "Q1" in wrong.stdout
    one_line(wrong.stderr)


def test_verify_accepts_an_older_store_when_told_to(queue: Invoke, home: Path) -> None:
    folder = home / "QM1"
    backup = (folder / DATABASE_FILE).read_bytes()
    queue("put", "QM1", "Q1", "x")
    (folder / DATABASE_FILE).write_bytes(backup)
    refused = queue("verify", "QM1")
    assert refused.exit_code == ExitCode.FILE
    assert "mayfly verify --accept-restored" in one_line(refused.stderr)
    assert queue("put", "QM1", "Q1", "x").exit_code == ExitCode.FILE
    accepted = queue("verify", "QM1", "--accept-restored")
    assert (accepted.exit_code, accepted.stderr) == (0, "")
    assert queue("verify", "QM1").exit_code == 0
    elsewhere = queue("verify", "QM1", "--accept-restored", "--path", "grpc://127.0.0.1:1")
    assert elsewhere.exit_code == ExitCode.USAGE
    assert queue("verify", "QM9", "--accept-restored").exit_code == ExitCode.MQ


def test_compact_says_what_it_has_given_back(queue: Invoke) -> None:
    for _ in range(3):
        queue("put", "QM1", "Q1", "x" * 100_000)
        queue("get", "QM1", "Q1")
    answer = queue("compact", "QM1")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("QM1: ")
    assert answer.stdout.endswith(" now, with checksums\n")
    shown = json.loads(queue("compact", "QM1", "--json").stdout)
    assert shown["bytes_before"] == shown["bytes_after"]
    assert queue("verify", "QM1").exit_code == 0
    assert queue("compact", "QM9").exit_code == ExitCode.MQ


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["put", "QM1", "NONE", "x"], ExitCode.MQ, "MQRC_UNKNOWN_OBJECT_NAME (2085)"),
        (["get", "QM9", "Q1"], ExitCode.MQ, "MQRC_Q_MGR_NAME_ERROR (2058): there is no"),
        (["get", "../QM1", "Q1"], ExitCode.MQ, "2058"),
        (["get", "Q M", "Q1"], ExitCode.MQ, "2058"),
        (["put", "QM1", "Q1", "x", "--expiry", "1s", "--delay", "2s"], ExitCode.MQ, "2013"),
        (["put", "QM1", "Q1", "x", "--priority=-2"], ExitCode.MQ, "2050"),
        (["put", "QM1", "Q1", "x", "--file", "y"], ExitCode.USAGE, "not both"),
        (["put", "QM1", "Q1", "--file", "/nowhere/body"], ExitCode.FILE, "/nowhere/body: No such"),
        (["mqsc", "QM1", "-c", "PING QMGR", "--path", "/dev/null/x"], ExitCode.FILE, "/dev/null/x"),
        (["serve", "QM1", "QM2", "--path", "x"], ExitCode.USAGE, "--path"),
        (["serve", "QM1", "--token-file", "/nowhere/token"], ExitCode.FILE, "/nowhere/token"),
        (["demo", "--date", "2012-03-08"], ExitCode.USAGE, "2012-03-08"),
        (["demo", "--date", "2013-02-30"], ExitCode.USAGE, "day"),
        (["ledger", "run", "lake"], ExitCode.USAGE, "--url"),
        (["ledger", "verify", "/nowhere"], ExitCode.PIPELINE, "there is no lake at /nowhere"),
        (["ledger", "report", "/nowhere"], ExitCode.PIPELINE, "there is no lake at /nowhere"),
        (["ledger", "run", "lake", "--qmgr", "QM1"], ExitCode.PIPELINE, "mayfly serve QM1"),
    ],
)
def test_a_mistake_is_one_line_with_its_code(
    queue: Invoke, words: list[str], code: ExitCode, said: str
) -> None:
    answer = queue(*words)
    assert answer.exit_code == code, answer.output
    assert said in one_line(answer.stderr)


def test_E3_put_keeps_to_the_maximum(queue: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """1157 days are 999,648,000 tenths, 1158 are more than 999,999,999."""
    monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", "True")
    answer = queue("put", "QM1", "Q1", "x", "--expiry", "1158d")
    assert answer.exit_code == ExitCode.MQ
    assert "Expiry 1000512000, is above 999999999" in one_line(answer.stderr)
    assert queue("get", "QM1", "Q1").exit_code == ExitCode.NOTHING
    assert queue("put", "QM1", "Q1", "x", "--expiry", "1157d").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["get", "QM1", "Q1", "--msg-id", "xyz"], "'xyz' is not hexadecimal"),
        (["get", "QM1", "Q1", "--correl-id", "00" * 25], "has 25 bytes"),
        (["get", "QM1", "Q1", "--wait", "1 week"], "'1 week' is not a duration"),
        (["put", "QM1", "Q1", "x", "--delay", "0.0001s"], "not a whole number of milliseconds"),
        (["put", "QM1", "Q1", "x", "--priority", "high"], "'--priority'"),
        (["put", "QM1", "Q1", "x", "--report", "everything"], "'everything' is not one of"),
        (["mqsc", "QM1", "/nowhere/script"], "/nowhere/script"),
        (["get", "QM1"], "QUEUE"),
        (["gett", "QM1"], "gett"),
    ],
)
def test_a_wrong_value_is_a_usage_error_that_names_it(
    queue: Invoke, words: list[str], said: str
) -> None:
    answer = queue(*words)
    assert answer.exit_code == ExitCode.USAGE
    assert said in answer.stderr
    assert "Traceback" not in answer.output


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["put", "QM1", "Q1", "x"], "--delay"),
        (["put", "QM1", "Q1", "x"], "--expiry"),
        (["get", "QM1", "Q1"], "--wait"),
        (["schedule", "list", "QM1"], "--within"),
    ],
)
def test_a_duration_has_a_unit(queue: Invoke, command: list[str], option: str) -> None:
    answer = queue(*command, option, "5")
    assert answer.exit_code == ExitCode.USAGE
    assert "'5' has no unit: 5ms, 5s, 5m, 5h or 5d" in " ".join(answer.stderr.split())
    assert queue("browse", "QM1", "Q1").exit_code == ExitCode.NOTHING
    assert queue("get", "QM1", "Q1", "--wait", "0").exit_code == ExitCode.NOTHING


def test_an_id_is_accepted_as_it_was_printed(queue: Invoke, home: Path) -> None:
    """With the prefix of JMS as well, and by the verbs of Python."""
    for _ in range(3):
        put = queue("put", "QM1", "Q1", "x", "--correl-id", "ID:ab01")
        msg_id = put.stdout.strip()
    shown = json.loads(queue("browse", "QM1", "Q1", "--msg-id", f"ID:{msg_id}", "--json").stdout)
    assert (shown["msg_id"], shown["correl_id"]) == (msg_id, "ab01".ljust(48, "0"))
    assert queue("get", "QM1", "Q1", "--msg-id", msg_id.upper()).exit_code == 0
    with QueueManager("QM1", home / "QM1") as qm, qm.session() as session:
        left = list(session.browse("Q1", correl_id="AB01"))
        assert len(left) == 2
        assert session.get("Q1", msg_id=left[1].msg_id.hex(), correl_id=shown["correl_id"])
        assert session.get("Q1", msg_id=f"ID:{left[0].msg_id.hex()}")
        assert qm.curdepth("Q1") == 0


CONFIGURE = ("--command-level", "800", "--setting", "expiry.max_check=ALWAYS")


def test_K_the_commands_configure_what_the_folder_keeps(mayfly: Invoke, home: Path) -> None:
    made = mayfly("mqsc", "QMI", "-c", "DEFINE QLOCAL(Q1)", "--platform", "ibmi", *CONFIGURE)
    assert made.exit_code == 0
    retention = ("--setting", "ledger.retention_count=9")
    assert mayfly("put", "QMI", "Q1", "x", *retention).exit_code == 0
    with QueueManager("QMI", home / "QMI") as qm:
        assert (qm.engine.platform, qm.engine.command_level) == ("ibmi", 800)
        assert qm.engine.settings.in_force["expiry.max_check"] == "always"
        assert qm.engine.settings.in_force["ledger.retention_count"] == 9
        assert qm.engine.settings.in_force["xqh.enforce_format"] is False


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--setting", "expiry.max_check", "NAME=VALUE"),
        ("--setting", "expiry.maximum=env", "expiry.maximum"),
        ("--setting", "expiry.max_check=maybe", "'maybe' is not one of env, always, never"),
        ("--setting", "ledger.retention_count=0", "'0' is not a positive number"),
        ("--command-level", "0", "command_level 0 is not a positive number"),
        ("--platform", "vms", "'vms'"),
        ("--platform", "zos", "made for 'distributed'"),
    ],
)
def test_K_a_wrong_configuration_is_a_wrong_command_line(
    queue: Invoke, option: str, value: str, said: str
) -> None:
    answer = queue("mqsc", "QM1", "-c", "DISPLAY QMGR", option, value)
    assert answer.exit_code == ExitCode.USAGE
    assert said in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.output


def test_D3_a_message_on_the_staging_queue_is_printed_as_what_it_was(queue: Invoke) -> None:
    """Its body without the 208 bytes of the header; --json says what the header says."""
    staging = "SYSTEM.DDELAY.LOCAL.QUEUE"
    answer = queue("put", "QM1", "Q1", "by mistake", "--delay", "1h", "--json")
    assert answer.exit_code == 0, answer.output
    msg_id = json.loads(answer.stdout)["msg_id"]
    line = queue("browse", "QM1", staging).stdout.splitlines()[1]
    assert line.endswith("     10  by mistake")
    shown = json.loads(queue("browse", "QM1", staging, "--correl-id", msg_id, "--json").stdout)
    assert (shown["body"], shown["correl_id"]) == ("by mistake", msg_id)
    assert shown["delayed"] == {
        "target_queue": "Q1",
        "target_manager": "QM1",
        "deliver_at_ms": shown["deliver_at_ms"],
        "msg_id": msg_id,
        "correl_id": "00" * 24,
        "format": "",
    }
    taken = queue("get", "QM1", staging, "--correl-id", msg_id)
    assert taken.stdout == "by mistake\n"
    answer = queue("put", "QM1", "Q1", "now")
    assert answer.exit_code == 0
    assert "delayed" not in json.loads(queue("get", "QM1", "Q1", "--json").stdout)
