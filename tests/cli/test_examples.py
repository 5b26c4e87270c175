"""Each example runs and says what it promises."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOO_LONG = "delay_ms 3600000 is longer than the lifetime of 3599999 ms"
SHORT_LIFE = "time to live 1000 ms is less than delivery delay 5000 ms"
SAID = {
    "expiry_report.py": [
        "after 59.999 s: 'half price for a minute', 1 tenth is left",
        "after 60 s: a get finds None",
        "the report returns 'half price for a minute'",
    ],
    "delivery_delay.py": [
        "put: 1 waits for its time, 0 can be got",
        "a millisecond before: None",
        "on the hour: 'leave for the airport'",
        "what is left of its life: 3600000 ms",
        f"refused: MQRC_EXPIRY_ERROR (2013): {TOO_LONG}",
    ],
    "durable_subscription.py": [
        "FAILED: MQRC_NO_MSG_AVAILABLE",
        "LH400 with 250 tenths to live",
        "FAILED: MQRC_NO_MSG_AVAILABLE",
        "after a minute: WARNING: MQRC_NO_SUBS_MATCHED",
    ],
    "ims_bridge.py": [
        "Flags 0: 'booked: two tickets', None ms left",
        "Flags 1: 'booked: two tickets', 8000 ms left",
    ],
    "listener_port.py": [
        (
            "5000 ms are left of the total transaction lifetime timeout of 120000 ms after a "
            "receive of 115000 ms, not more than the 15000 ms of the longest on_message"
        ),
        "delivered 2, rolled back 1, committed 1",
    ],
    "listener_threads.py": [
        *("1 1 0 12 1", "1 2 12 24 1", "1 3 24 36 1", "1 4 36 48 1", "1 5 48 60 1"),
        "1 8 60 72 1",
        *("2 1 0 12 1", "2 2 5 17 2", "2 3 12 24 1", "2 4 17 29 2", "2 5 24 36 1"),
        *("2 6 29 41 2", "2 7 36 48 1", "2 8 41 53 2"),
    ],
    "everyplace_rule.py": [
        "first stage: 1 - seen there: None",
        "expired at VAN: 'two crates'",
        "expired at DEPOT: 'two crates'",
        "second stage: 0 - there: None",
        "kept: ['two crates']",
    ],
    "transacted.py": [
        "backed out: the printer is on fire",
        "orders 1, invoices 0",
        "second attempt, backout count 1",
        "orders 0, invoices 1",
    ],
    "jms_delay.py": [
        "a millisecond before: None",
        "on time: 'two tickets' for anna",
        "held back 5000 ms of 20000 ms",
        f"refused: MQRC_EXPIRY_ERROR (2013): {SHORT_LIFE}",
    ],
    "replay.py": [
        "one consumer: got got got got got expired got expired expired got",
        "two consumers: got 7 -> 10, deepest 4",
        "  got -> got: 6",
        "  expired -> got: 3",
        "20 s to live: got 7 -> 10, deepest 7",
        "  expired -> got: 3",
        "  got -> got: 2",
        "capped at 5 s: got 7 -> 5, deepest 5",
        "  got -> expired: 4",
        "  expired -> got: 2",
        "  expired -> expired: 1",
    ],
    "schedule.py": [
        "in 1 h for REMINDERS: 4 bytes",
        "in 2 h for REMINDERS: 11 bytes",
        "in 3 h for REMINDERS: 12 bytes",
        "pack: cancelled, and once more: cancelled",
        "taxi: rescheduled",
        "gate: cancelled, 2 wait",
        "a millisecond before: None",
        "on time: 'call a taxi', to cancel it now: already-released",
        "released: 1, 'go to gate 9'",
    ],
}


def test_every_example_is_known_here() -> None:
    examples = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
    assert examples == sorted(SAID)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_example(name: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines() == SAID[name]


@pytest.mark.slow
@pytest.mark.long
def test_the_picture_of_listener_threads_is_that_of_its_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    program, drawn = ROOT / "examples" / "listener_threads.py", tmp_path / "drawn.svg"
    subprocess.run([sys.executable, "-W", "error", str(program), str(drawn)], check=True)
    shown = ROOT / "docs" / "images" / "listener-threads.svg"
    assert drawn.read_text("utf-8") == shown.read_text("utf-8")
