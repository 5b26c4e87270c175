"""schedule: what waits is listed, cancelled, given another time and released, with receipts."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.cli.outcomes import ExitCode
from mayfly.engine import Session
from mayfly.mqi.structures import RFH2
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt
from tests.cli.conftest import COMMAND, Invoke, environment
from tests.pages import part

COMMANDS = ["list", "show", "cancel", "reschedule", "release", "count", "audit"]
#: In May 2033: a store that has seen this moment never goes back behind it, so no test waits.
START_MS = 2_000_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
#: (MsgId, sender, queue, hours until it is due, colour)
WAITING = [
    ("a1", "alice", "Q1", 1, "red"),
    ("b2", "bob", "Q1", 2, "red"),
    ("a3", "alice", "Q2", 2, "blue"),
    ("a4", "alice", "Q1", 3, "blue"),
]


def full(msg_id: str) -> str:
    """Return an id as it is printed."""
    return msg_id.ljust(48, "0")


def with_color(color: str, text: bytes) -> bytes:
    """Return a body with a property in its MQRFH2."""
    folder = f"<usr><color>{color}</color></usr>".encode()
    folder = folder.ljust(-(-len(folder) // 4) * 4)
    length = 36 + 4 + len(folder)
    header = RFH2.pack({"StrucLength": length, "Format": "MQSTR"})
    return header + struct.pack("<i", len(folder)) + folder + text


def put_waiting(session: Session, user: str) -> None:
    for msg_id, sender, queue, hours, color in WAITING:
        if sender == user:
            session.put(
                queue,
                with_color(color, b"hello"),
                delay_ms=hours * HOUR_MS,
                time_to_live_ms=10 * DAY_MS,
                persistent=True,
                msg_id=bytes.fromhex(msg_id),
                format_name="MQHRF2",
            )


@pytest.fixture
def waiting(mayfly: Invoke, home: Path) -> Invoke:
    """Run a command; queue manager QM1 has the messages of WAITING, put at START_MS."""
    with QueueManager("QM1", home / "QM1", VirtualClock(START_MS)) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
        for user in ("alice", "bob"):
            with manager.session(user=user) as session:
                put_waiting(session, user)
    return mayfly


def listed(mayfly: Invoke, *options: str) -> list[str]:
    """Return the ids that a list shows, each without the zeros it is filled up with."""
    answer = mayfly("schedule", "list", "QM1", "--json", *options)
    assert answer.exit_code == (0 if answer.stdout else ExitCode.NOTHING), answer.output
    return [json.loads(line)["msg_id"].rstrip("0") for line in answer.stdout.splitlines()]


def due_ms(mayfly: Invoke, msg_id: str) -> int:
    """Return the delivery time of a message that waits."""
    shown = json.loads(mayfly("schedule", "show", "QM1", msg_id, "--json").stdout)
    deliver_at_ms: int = shown["deliver_at_ms"]
    return deliver_at_ms


def all_due_ms(mayfly: Invoke) -> dict[str, int]:
    """Return the delivery times of all messages that wait, by their ids."""
    rows = map(json.loads, mayfly("schedule", "list", "QM1", "--json").stdout.splitlines())
    return {row["msg_id"].rstrip("0"): row["deliver_at_ms"] for row in rows}


def one_line(text: str) -> str:
    """Return the only line of an error; a traceback has more."""
    [line] = text.splitlines()
    assert line.startswith("mayfly: ")
    return line


# What is shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(mayfly: Invoke, name: str) -> None:
    answer = mayfly("schedule", name, "--help")
    assert answer.exit_code == 0
    assert f"  mayfly schedule {name} " in answer.output.partition("Example")[2]
    assert f"\n  {name} " in mayfly("schedule", "--help").output
    assert "\n  schedule " in mayfly("--help").output


def test_list_is_in_the_order_of_delivery_time_then_put(waiting: Invoke) -> None:
    answer = waiting("schedule", "list", "QM1")
    assert (answer.exit_code, answer.stderr) == (0, "")
    head, *lines = answer.stdout.splitlines()
    assert head == f"{'MsgId':<48}  due (UTC)            queue  sender  bytes"
    length = len(with_color("red", b"hello"))
    assert lines == [
        f"{full('a1')}  2033-05-18 04:33:20  Q1     alice   {length:>5}",
        f"{full('a3')}  2033-05-18 05:33:20  Q2     alice   {length:>5}",
        f"{full('b2')}  2033-05-18 05:33:20  Q1     bob     {length:>5}",
        f"{full('a4')}  2033-05-18 06:33:20  Q1     alice   {length:>5}",
    ]
    assert all(len(line.partition("  Q")[0]) + len("  Q1") <= 80 for line in lines)


def test_list_says_how_to_go_on_and_goes_on(waiting: Invoke) -> None:
    first = waiting("schedule", "list", "QM1", "--limit", "3", "--json")
    rows = [json.loads(line) for line in first.stdout.splitlines()]
    assert [row["msg_id"] for row in rows] == [full("a1"), full("a3"), full("b2")]
    position = rows[-1]["position"]
    assert one_line(first.stderr) == f"mayfly: there are more: --after {position}"
    rest = waiting("schedule", "list", "QM1", "--after", position, "--json")
    assert [json.loads(line)["msg_id"] for line in rest.stdout.splitlines()] == [full("a4")]
    assert rest.stderr == ""
    exact = waiting("schedule", "list", "QM1", "--limit", "4")
    assert exact.stderr == ""


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--queue", "Q1"], ["a1", "b2", "a4"]),
        (["--sender", "bob"], ["b2"]),
        (["--sender", "carol"], []),
        (["--property", "color=blue"], ["a3", "a4"]),
        (["--property", "color=blue", "--property", "size=1"], []),
        (["--queue", "Q1", "--sender", "alice", "--property", "color=red"], ["a1"]),
        (["--queue", "NONE"], []),
    ],
)
def test_a_filter_takes_what_matches_all_of_it(
    waiting: Invoke, options: list[str], found: list[str]
) -> None:
    assert listed(waiting, *options) == found


@pytest.mark.parametrize(
    ("at_ms", "before", "since"),
    [
        (START_MS + 2 * HOUR_MS - 1, ["a1"], ["a3", "b2", "a4"]),
        (START_MS + 2 * HOUR_MS, ["a1"], ["a3", "b2", "a4"]),
        (START_MS + 2 * HOUR_MS + 1, ["a1", "a3", "b2"], ["a4"]),
    ],
)
def test_a_range_of_delivery_times_has_its_start_and_not_its_end(
    waiting: Invoke, at_ms: int, before: list[str], since: list[str]
) -> None:
    assert listed(waiting, "--due-before", str(at_ms)) == before
    assert listed(waiting, "--due-from", str(at_ms)) == since


def test_due_times_count_from_the_time_of_the_queue_manager(mayfly: Invoke, home: Path) -> None:
    """Which may be ahead of the clock of the machine; --within has its end, --due-before not."""
    with QueueManager("QM1", home / "QM1", VirtualClock(START_MS)) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with manager.session() as session:
            for minutes in (30, 90, 150):
                msg_id = bytes.fromhex(f"{minutes:04}")
                session.put("Q1", b"x", delay_ms=minutes * 60_000, msg_id=msg_id, persistent=True)
    assert listed(mayfly, "--within", "1h") == ["003"]
    assert listed(mayfly, "--due-before", "+1h") == ["003"]
    assert listed(mayfly, "--due-from", "+1h", "--due-before", "+2h") == ["009"]
    assert listed(mayfly, "--due-from", "+2h") == ["015"]
    cancelled = mayfly("schedule", "cancel", "QM1", "--within", "100m", "--all")
    assert cancelled.stdout == "2 cancelled\n"
    both = mayfly("schedule", "list", "QM1", "--within", "1h", "--due-before", "+2h")
    assert both.exit_code == ExitCode.USAGE
    assert one_line(both.stderr) == "mayfly: give --within or --due-before, not both"


@pytest.mark.parametrize(
    "text",
    ["2033-05-18T05:33:20Z", "2033-05-18T07:33:20+02:00", "2033-05-18 05:33:20", "2000007200000"],
)
def test_a_moment_has_a_zone_or_is_utc_or_ms(waiting: Invoke, text: str) -> None:
    assert listed(waiting, "--due-from", text, "--due-before", "2033-05-18T06:00") == ["a3", "b2"]


def test_show_tells_all_of_one_message_with_or_without_the_prefix(waiting: Invoke) -> None:
    answer = waiting("schedule", "show", "QM1", f"ID:{full('a1')}", "--json")
    shown = json.loads(answer.stdout)
    # Text: most readers of JSON round such a number.
    assert -(2**63) < int(shown.pop("position")) < -(2**53)
    assert shown == {
        "msg_id": full("a1"),
        "correl_id": full(""),
        "target": "Q1",
        "put_ms": START_MS,
        "deliver_at_ms": START_MS + HOUR_MS,
        "expire_at_ms": START_MS + 10 * DAY_MS,
        "priority": 0,
        "persistent": True,
        "body_bytes": len(with_color("red", b"hello")),
        "user_identifier": "alice",
    }
    lines = waiting("schedule", "show", "QM1", "A1").stdout.splitlines()
    assert lines[0] == f"MsgId           {full('a1')}"
    assert lines[4:6] == [
        "due (UTC)       2033-05-18 04:33:20.000",
        "expires (UTC)   2033-05-28 03:33:20.000",
    ]


def test_show_of_what_does_not_wait_ends_with_1(waiting: Invoke) -> None:
    answer = waiting("schedule", "show", "QM1", "ff")
    assert (answer.exit_code, answer.stdout) == (ExitCode.NOTHING, "")
    said = f"{full('ff')} does not wait on QM1; mayfly why QM1 {full('ff')} tells more"
    assert one_line(answer.stderr) == f"mayfly: {said}"


def test_count_is_of_all_or_of_a_queue(waiting: Invoke) -> None:
    assert waiting("schedule", "count", "QM1").stdout == "4\n"
    assert waiting("schedule", "count", "QM1", "--queue", "Q1").stdout == "3\n"
    answer = waiting("schedule", "count", "QM1", "--queue", "Q2", "--json")
    assert json.loads(answer.stdout) == {"queue": "Q2", "message_count": 1}


# What is done


def test_D3_cancel_twice_says_cancelled_twice_and_it_is_never_delivered(waiting: Invoke) -> None:
    first = waiting("schedule", "cancel", "QM1", "a1")
    assert (first.exit_code, first.output) == (0, f"{full('a1')}  cancelled\n")
    second = waiting("schedule", "cancel", "QM1", "a1")
    assert (second.exit_code, second.output) == (0, f"{full('a1')}  cancelled\n")
    assert listed(waiting) == ["a3", "b2", "a4"]
    assert waiting("schedule", "reschedule", "QM1", "a1", "--delay", "1ms").stdout == (
        f"{full('a1')}  cancelled\n"
    )
    assert waiting("get", "QM1", "Q1").exit_code == ExitCode.NOTHING
    assert waiting("verify", "QM1").exit_code == 0


def test_cancel_after_the_release_says_already_released(waiting: Invoke) -> None:
    released = waiting("schedule", "release", "QM1", "a1")
    assert (released.exit_code, released.output) == (0, f"{full('a1')}  released\n")
    again = waiting("schedule", "release", "QM1", "a1")
    assert (again.exit_code, again.output) == (0, f"{full('a1')}  already-released\n")
    cancelled = waiting("schedule", "cancel", "QM1", "a1")
    assert cancelled.exit_code == ExitCode.NOTHING
    assert cancelled.stdout == f"{full('a1')}  already-released\n"
    assert one_line(cancelled.stderr) == "mayfly: 1 of 1 not cancelled: 1 already-released"
    got = json.loads(waiting("get", "QM1", "Q1", "--json").stdout)
    assert (got["msg_id"], got["deliver_at_ms"] <= START_MS + HOUR_MS) == (full("a1"), True)


def test_receipts_of_several_ids_come_one_a_line_and_in_json(waiting: Invoke) -> None:
    waiting("schedule", "release", "QM1", "b2")
    answer = waiting("schedule", "cancel", "QM1", "a1", "ff", "b2", "fe", "--json")
    assert answer.exit_code == ExitCode.NOTHING
    assert [json.loads(line) for line in answer.stdout.splitlines()] == [
        {"msg_id": full("a1"), "receipt": "cancelled", "message_count": 1},
        {"msg_id": full("ff"), "receipt": "unknown", "message_count": 1},
        {"msg_id": full("b2"), "receipt": "already-released", "message_count": 1},
        {"msg_id": full("fe"), "receipt": "unknown", "message_count": 1},
    ]
    assert one_line(answer.stderr) == (
        "mayfly: 3 of 4 not cancelled: 1 already-released, 2 unknown; mayfly why QM1 ID tells more"
    )


@pytest.mark.parametrize(
    ("words", "receipt"),
    [
        (("cancel",), "cancelled"),
        (("release",), "released"),
        (("reschedule", "--delay", "9h"), "rescheduled"),
    ],
)
def test_D3_all_messages_of_one_msg_id_are_changed_and_counted(
    waiting: Invoke, words: tuple[str, ...], receipt: str
) -> None:
    waiting("put", "QM1", "Q2", "of the same id", "--delay", "5h", "--msg-id", "a1")
    verb, *options = words
    answer = waiting("schedule", verb, "QM1", "a1", *options)
    assert (answer.exit_code, answer.output) == (0, f"{full('a1')}  {receipt}, 2 messages\n")
    assert listed(waiting).count("a1") == (2 if verb == "reschedule" else 0)
    told = waiting("schedule", "cancel", "QM1", "a1", "--json").stdout
    assert json.loads(told)["message_count"] == (2 if verb == "reschedule" else 1)


def test_D18_what_expired_while_it_waited_says_expired(mayfly: Invoke, home: Path) -> None:
    """Its life ends with its delay, so that it never can be got."""
    with QueueManager("QM1", home / "QM1", VirtualClock(START_MS)) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with manager.session() as session:
            session.put("Q1", b"x", delay_ms=1, time_to_live_ms=1, persistent=True, msg_id=b"\xee")
    with QueueManager("QM1", home / "QM1", VirtualClock(START_MS + DAY_MS)):
        pass
    answer = mayfly("schedule", "cancel", "QM1", "ee")
    assert (answer.exit_code, answer.stdout) == (ExitCode.NOTHING, f"{full('ee')}  expired\n")


def test_reschedule_by_a_delay_counts_from_now(waiting: Invoke) -> None:
    answer = waiting("schedule", "reschedule", "QM1", "a1", "--delay", "2d")
    assert (answer.exit_code, answer.output) == (0, f"{full('a1')}  rescheduled\n")
    late_ms = due_ms(waiting, "a1") - (START_MS + 2 * DAY_MS)
    assert -2_000 < late_ms < 60_000
    assert listed(waiting) == ["a3", "b2", "a4", "a1"]


def test_reschedule_to_a_moment_said_twice_is_the_same(waiting: Invoke) -> None:
    for _ in range(2):
        answer = waiting("schedule", "reschedule", "QM1", "a4", "--at", "2033-05-18T05:00Z")
        assert (answer.exit_code, answer.output) == (0, f"{full('a4')}  rescheduled\n")
    assert due_ms(waiting, "a4") == 2_000_005_200_000
    assert listed(waiting) == ["a1", "a4", "a3", "b2"]


def test_reschedule_into_the_past_releases_at_once(waiting: Invoke) -> None:
    answer = waiting("schedule", "reschedule", "QM1", "a1", "--at", "2001-01-01")
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert listed(waiting) == ["a3", "b2", "a4"]
    assert json.loads(waiting("get", "QM1", "Q1", "--json").stdout)["msg_id"] == full("a1")
    assert waiting("schedule", "cancel", "QM1", "a1").stdout == f"{full('a1')}  already-released\n"


def test_D7_a_delivery_time_after_the_deadline_is_refused_and_at_it_is_not(waiting: Invoke) -> None:
    deadline_ms = START_MS + 10 * DAY_MS
    for at_ms in (deadline_ms - 1, deadline_ms):
        answer = waiting("schedule", "reschedule", "QM1", "a1", "--at", str(at_ms))
        assert (answer.exit_code, due_ms(waiting, "a1")) == (0, at_ms)
    answer = waiting("schedule", "reschedule", "QM1", "a1", "--at", str(deadline_ms + 1))
    assert answer.exit_code == ExitCode.MQ
    assert one_line(answer.stderr).startswith("mayfly: MQRC_EXPIRY_ERROR (2013): ")
    assert due_ms(waiting, "a1") == deadline_ms


def test_bulk_cancel_by_queue_sender_and_property_leaves_the_others(waiting: Invoke) -> None:
    words = ("schedule", "cancel", "QM1", "--queue", "Q1", "--sender", "alice")
    answer = waiting(*words, "--property", "color=blue", "--all")
    assert (answer.exit_code, answer.output) == (0, "1 cancelled\n")
    assert listed(waiting) == ["a1", "a3", "b2"]
    again = waiting(*words, "--property", "color=blue", "--all", "--json")
    assert (again.exit_code, again.stdout) == (0, '{"receipt": "cancelled", "message_count": 0}\n')


def test_bulk_reschedule_by_moves_each_by_the_same(waiting: Invoke) -> None:
    answer = waiting("schedule", "reschedule", "QM1", "--queue", "Q1", "--all", "--by", "1h")
    assert (answer.exit_code, answer.output) == (0, "3 rescheduled\n")
    hours = [(due_ms(waiting, found[0]) - START_MS) / HOUR_MS for found in WAITING]
    assert hours == [2, 3, 2, 4]
    waiting("schedule", "reschedule", "QM1", "--sender", "bob", "--all", "--by", "-90min")
    assert due_ms(waiting, "b2") == START_MS + 3 * HOUR_MS // 2


def test_bulk_reschedule_to_a_moment(waiting: Invoke) -> None:
    answer = waiting("schedule", "reschedule", "QM1", "--all", "--yes", "--at", "2033-05-20")
    assert (answer.exit_code, answer.output) == (0, "4 rescheduled\n")
    assert {due_ms(waiting, found[0]) for found in WAITING} == {2_000_160_000_000}


def test_bulk_release_delivers_what_matches_in_the_order_it_was_due(waiting: Invoke) -> None:
    answer = waiting("schedule", "release", "QM1", "--queue", "Q1", "--all")
    assert (answer.exit_code, answer.output) == (0, "3 released\n")
    assert listed(waiting) == ["a3"]
    got = waiting("get", "QM1", "Q1", "--all", "--json").stdout.splitlines()
    assert [json.loads(line)["msg_id"] for line in got] == [full("a1"), full("b2"), full("a4")]
    assert waiting("verify", "QM1").exit_code == 0


@pytest.mark.slow
def test_bulk_cancel_of_2500_messages_is_quiet_in_a_pipe(mayfly: Invoke, home: Path) -> None:
    with QueueManager("QM1", home / "QM1", VirtualClock(START_MS)) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2)")
        for queue, count in (("Q1", 2_500), ("Q2", 1)):
            with manager.session(transacted=True) as session:
                for number in range(count):
                    session.put(queue, b"x", delay_ms=HOUR_MS + number, persistent=True)
    assert len(listed(mayfly, "--queue", "Q1", "--limit", "2400")) == 2_400
    answer = mayfly("schedule", "cancel", "QM1", "--queue", "Q1", "--all")
    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, "2,500 cancelled\n", "")
    assert mayfly("schedule", "count", "QM1").stdout == "1\n"
    assert mayfly("verify", "QM1").exit_code == 0


# Who did it


def test_audit_tells_who_did_what_the_latest_first(
    waiting: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = waiting("schedule", "audit", "QM1")
    assert (empty.exit_code, empty.stdout) == (ExitCode.NOTHING, "")
    assert one_line(empty.stderr) == "mayfly: nobody has changed what waits on QM1"
    for user, words in [
        ("carol", ["cancel", "QM1", "a1"]),
        ("dave", ["cancel", "QM1", "ff"]),
        ("erin", ["release", "QM1", "--queue", "Q1", "--all"]),
    ]:
        monkeypatch.setenv("LOGNAME", user)
        waiting("schedule", *words)
    lines = waiting("schedule", "audit", "QM1", "--json").stdout.splitlines()
    entries = [json.loads(line) for line in lines]
    keys = ("user", "action", "msg_id", "receipt", "message_count")
    assert [tuple(entry[key] for key in keys) for entry in entries] == [
        ("erin", "release", "", "released", 2),
        ("dave", "cancel", full("ff"), "unknown", 0),
        ("carol", "cancel", full("a1"), "cancelled", 1),
    ]
    assert "Q1" in entries[0]["detail"]
    head, *lines = waiting("schedule", "audit", "QM1").stdout.splitlines()
    assert head == "at (UTC)             user   action   receipt    count  what"
    assert [line[19:] for line in lines] == [
        "  erin   release  released       2  queue=Q1",
        f"  dave   cancel   unknown        0  {full('ff')}",
        f"  carol  cancel   cancelled      1  {full('a1')}",
    ]
    assert len(waiting("schedule", "audit", "QM1", "--limit", "1").stdout.splitlines()) == 2


def test_audit_spells_moments_as_the_command_line_does(waiting: Invoke) -> None:
    waiting("schedule", "reschedule", "QM1", "a1", "--at", "2033-05-19T10:00Z")
    words = ("--due-from", "2033-05-19", "--due-before", "2200-01-01")
    assert waiting("schedule", "cancel", "QM1", *words, "--all").stdout == "1 cancelled\n"
    _head, *lines = waiting("schedule", "audit", "QM1").stdout.splitlines()
    assert [line.partition("1  ")[2] for line in lines] == [
        "due_from=2033-05-19T00:00:00.000Z due_before=2200-01-01T00:00:00.000Z",
        f"{full('a1')} to 2033-05-19T10:00:00.000Z",
    ]


def test_what_the_command_line_puts_is_in_the_name_of_who_runs_it(
    queue: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MQMD.UserIdentifier holds 12 characters of it; a filter may name them all."""
    for user, msg_id in [("carol", "c1"), ("anna-maria-luise", "c2")]:
        monkeypatch.setenv("LOGNAME", user)
        queue("put", "QM1", "Q1", "x", "--delay", "5m", "--msg-id", msg_id)
    assert listed(queue, "--sender", "carol") == ["c1"]
    assert listed(queue, "--sender", "anna-maria-luise") == ["c2"]
    assert listed(queue, "--sender", "anna-maria-l") == ["c2"]
    shown = json.loads(queue("schedule", "show", "QM1", "c1", "--json").stdout)
    assert shown["deliver_at_ms"] - shown["put_ms"] == 300_000


# What is wrong


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cancel", "QM1"], ExitCode.USAGE, "cancel what? Give ids, or --all"),
        (["cancel", "QM1", "--queue", "Q1"], ExitCode.USAGE, "add --all"),
        (["cancel", "QM1", "--all"], ExitCode.USAGE, "add --yes"),
        (["cancel", "QM1", "a1", "--all"], ExitCode.USAGE, "not both"),
        (["release", "QM1", "a1", "--sender", "bob"], ExitCode.USAGE, "not both"),
        (["reschedule", "QM1", "a1"], ExitCode.USAGE, "give one of --delay, --at and --by"),
        (
            ["reschedule", "QM1", "a1", "--delay", "1h", "--at", "2033-06-01"],
            ExitCode.USAGE,
            "give one of --delay, --at and --by; found --delay and --at",
        ),
        (["reschedule", "QM1", "a1", "--by", "1h"], ExitCode.USAGE, "--by is for --all"),
        (
            ["list", "QM1", "--due-from", "2033-06-01", "--due-before", "2033-06-01"],
            ExitCode.USAGE,
            "--due-from 2001196800000 is not before --due-before 2001196800000",
        ),
        (["reschedule", "QM1", "--queue", "Q1", "--all", "--by", "0"], ExitCode.USAGE, "--by 0"),
        (["list", "QM1", "--queue", "NONE"], ExitCode.NOTHING, "nothing that waits on QM1 matches"),
        (["list", "QM1", "--due-from", "9" * 14], ExitCode.NOTHING, "QM1 matches"),
        (["list", "QM1", "--due-before", "0001-01-01"], ExitCode.NOTHING, "QM1 matches"),
        (["count", "QM1", "--queue", "NONE"], ExitCode.MQ, "MQRC_UNKNOWN_OBJECT_NAME (2085)"),
        (["reschedule", "QM1", "a1", "--at", "0001-01-01"], ExitCode.MQ, "(2046)"),
        (["reschedule", "QM1", "a1", "--delay", "11d"], ExitCode.MQ, "MQRC_EXPIRY_ERROR (2013)"),
        (["reschedule", "QM1", "a1", "--at", "2110-01-01"], ExitCode.MQ, "(2046)"),
        (["reschedule", "QM1", "a1", "--delay", "99999999d"], ExitCode.MQ, "(2046)"),
        (["reschedule", "QM1", "--sender", "bob", "--all", "--by", "99999d"], ExitCode.MQ, "(20"),
        (["count", "QM9"], ExitCode.MQ, "MQRC_Q_MGR_NAME_ERROR (2058): there is no"),
        (["cancel", "QM9", "--all", "--yes"], ExitCode.MQ, "(2058)"),
        (["list", "QM1", "--path", "/dev/null/x"], ExitCode.MQ, "(2058): there is no"),
    ],
)
def test_a_mistake_is_one_line_with_its_code_and_changes_nothing(
    waiting: Invoke, words: list[str], code: ExitCode, said: str
) -> None:
    answer = waiting("schedule", *words)
    assert answer.exit_code == code, answer.output
    assert said in one_line(answer.stderr)
    assert answer.stdout == ""
    assert all_due_ms(waiting) == {found[0]: START_MS + found[3] * HOUR_MS for found in WAITING}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cancel", "QM1", "a1", "xyz"], "'xyz' is not hexadecimal"),
        (["cancel", "QM1", "a"], "'a' is not hexadecimal"),
        (["cancel", "QM1", "ID:"], "has 0 bytes"),
        (["show", "QM1", "00" * 25], "has 25 bytes"),
        (["list", "QM1", "--limit", "0"], "'--limit': '0' is not a count"),
        (["audit", "QM1", "--limit", "0"], "'--limit': '0' is not a count"),
        (["list", "QM1", "--limit", "ten"], "'--limit': 'ten' is not a count"),
        (["list", "QM1", "--after", str(2**63 - 1)], f"'{2**63 - 1}' is not a position"),
        (["list", "QM1", "--after", str(-(2**63) - 1)], f"'{-(2**63) - 1}' is not a position"),
        (["list", "QM1", "--property", "color"], "'--property': 'color' is not name=value"),
        (["list", "QM1", "--due-from", "noon"], "'--due-from': 'noon' is no moment"),
        (["list", "QM1", "--due-before", "2033-02-30"], "'2033-02-30' is no moment"),
        (["reschedule", "QM1", "a1", "--at", "1795197600"], "'1795197600' is no moment"),
        (["reschedule", "QM1", "a1", "--at", "20331120"], "'20331120' is no moment"),
        (["reschedule", "QM1", "a1", "--at", "9" * 5_000], "is no moment"),
        (
            ["reschedule", "QM1", "a1", "--at", "2033-06-01T00:00:00.0001Z"],
            "'2033-06-01T00:00:00.0001Z' is not a whole number of milliseconds",
        ),
        (["reschedule", "QM1", "a1", "--delay", "-1h"], "'--delay': '-1h' is not a duration"),
        (["reschedule", "QM1", "--all", "--by", "--1h"], "'--by': '-1h' is not a duration"),
        (["show", "QM1"], "MSG_ID"),
        (["stop", "QM1"], "stop"),
    ],
)
def test_a_wrong_value_is_a_usage_error_that_names_it(
    mayfly: Invoke, words: list[str], said: str
) -> None:
    answer = mayfly("schedule", *words)
    assert answer.exit_code == ExitCode.USAGE
    assert said in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.output


def test_D28_a_stopped_delay_processor_is_named_and_nothing_is_delivered(waiting: Invoke) -> None:
    staging = "SYSTEM.DDELAY.LOCAL.QUEUE"
    waiting("mqsc", "QM1", "-c", f"ALTER QLOCAL({staging}) GET(DISABLED)")
    released = waiting("schedule", "release", "QM1", "a1")
    assert (released.exit_code, released.stdout) == (0, f"{full('a1')}  released\n")
    assert one_line(released.stderr) == (
        f"mayfly: nothing is delivered on QM1, delay processor stopped: GET(DISABLED) on {staging}"
    )
    assert waiting("schedule", "count", "QM1").stdout == "4\n"
    assert waiting("schedule", "cancel", "QM1", "a1").stdout == f"{full('a1')}  cancelled\n"


def test_list_of_an_empty_schedule_says_so(queue: Invoke) -> None:
    answer = queue("schedule", "list", "QM1")
    assert (answer.exit_code, answer.stdout) == (ExitCode.NOTHING, "")
    assert one_line(answer.stderr) == "mayfly: nothing waits on QM1"


def test_a_folder_that_is_in_use_is_named(waiting: Invoke, home: Path) -> None:
    with QueueManager("QM1", home / "QM1", VirtualClock(START_MS)):
        answer = waiting("schedule", "cancel", "QM1", "a1")
    assert answer.exit_code == ExitCode.FILE
    assert one_line(answer.stderr) == (
        f"mayfly: {home / 'QM1'} is in use by another queue manager; programs share QM1 through "
        "the command `mayfly serve QM1`, to which they connect as clients (docs/SERVING.md)"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "code", "printed", "left"),
    [
        (b"y\n", 0, "4 cancelled\n", []),
        (b"n\n", ExitCode.NOTHING, "", ["a1", "a3", "b2", "a4"]),
    ],
)
def test_all_without_a_filter_asks_on_a_terminal(
    waiting: Invoke, home: Path, typed: bytes, code: int, printed: str, left: list[str]
) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed)
        answer = subprocess.run(
            [*COMMAND, "schedule", "cancel", "QM1", "--all"],
            env=environment(home),
            stdin=theirs,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert (answer.returncode, answer.stdout) == (code, printed), answer.stderr
    assert "cancel all 4 messages that wait on QM1? [y/N] " in answer.stderr
    assert listed(waiting) == left


@pytest.mark.slow
def test_a_terminal_is_told_how_far_a_long_operation_is(waiting: Invoke, home: Path) -> None:
    """Everything is long here; what was told is wiped at the end."""
    code = (
        "import sys; from mayfly.cli import main, schedule\n"
        "schedule._SILENT_SECONDS = -1\n"
        "sys.argv = 'mayfly schedule cancel QM1 --all --yes'.split(); main()"
    )
    ours, theirs = pty.openpty()
    try:
        answer = subprocess.run(
            [sys.executable, "-c", code],
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=theirs,
            check=False,
            timeout=60,
        )
        os.close(theirs)
        told = b""
        # All of it has been read when the terminal has nobody at its other end: EIO.
        with contextlib.suppress(OSError):
            while part := os.read(ours, 1_000):
                told += part
    finally:
        os.close(ours)
    assert (answer.returncode, answer.stdout) == (0, b"4 cancelled\n")
    assert told.endswith(b"\r4 cancelled\r\x1b[K")


# What the documentation shows


def doc_blocks(language: str) -> list[str]:
    text = part("WHY.md", "The schedule")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_documented_commands_print_what_is_shown(
    mayfly: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command without output shown must succeed; in what is shown … stands for anything."""
    monkeypatch.setenv("LOGNAME", "alice")
    [block] = doc_blocks("console")
    steps = re.findall(r"^\$ mayfly (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)
    assert len(steps) == 9
    for command, output in steps:
        answer = mayfly(*shlex.split(command))
        if not output:
            assert answer.exit_code == 0, answer.output
            continue
        pattern = ".*".join(map(re.escape, output.split("…")))
        assert re.fullmatch(pattern, answer.output), f"{command}:\n{answer.output}"


def test_the_documented_program_prints_what_is_shown() -> None:
    [program], [output] = doc_blocks("python"), doc_blocks("text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue() == output


def test_the_documentation_names_every_receipt() -> None:
    text = part("WHY.md", "The schedule")
    assert re.findall(r"^\| ([a-z-]+) \|", text, re.MULTILINE)[1:] == [*Receipt]
