"""Parts that need no other server run at their smallest size, and tell all that they measure.

A part that a change of the schema or of a name breaks is noticed here.
"""

from __future__ import annotations

from typing import Final

import pytest

from bench import growth
from bench.__main__ import main
from bench.figures import Figure
from bench.parts import LONG, PARTS, PEERED, TRIED, measured, usual_parts

_STEPS: Final = ("put", "get", "get by MsgId", "release", "expiry scan", "checkpoint and close")
_MANY: Final = ("put", "get", "publish to one of as many subscriptions", "release", "expiry scan")
#: By part each figure with the unit of its number; empty for what is told without one.
FIGURES: Final = {
    "units": {
        "durable puts, 100 a unit of work, beside PostgreSQL": "",
        "durable gets, 100 a unit of work, beside PostgreSQL": "",
        "durable gets, 100 by one call, beside PostgreSQL": "",
        "durable puts, 100 a unit of work, beside Redis": "",
        "durable gets, 100 a unit of work, beside Redis": "",
        "durable gets, 100 by one call, beside Redis": "",
        "durable puts, 100 a unit of work": "/s",
        "durable gets, 100 a unit of work": "/s",
    },
    "messaging": {
        "persistent put, 100 a unit of work, session": "x",
        "persistent put, 100 a unit of work, pymqi": "x",
        "persistent get, 100 a unit of work, session": "x",
        "persistent get, 100 a unit of work, pymqi": "x",
        "one thread of single durable puts beside bare SQLite": "x",
        "2 threads of single durable puts beside the bare leader": "x",
        "non-persistent put + get, session": " µs",
        "non-persistent put + get, pymqi": " µs",
    },
    "client_peers": {
        "durable put of a program, p50": " ms",
        "durable put to get in another program, p50": " ms",
        "1 program of single durable puts": "/s",
        "2 programs of single durable puts": "/s",
    },
    "by_id": {
        f"get by {what}, {kind}": " ms"
        for kind in ("non-persistent", "persistent")
        for what in (
            "CorrelId of 100",
            "MsgId of 100",
            "token of 100",
            "a CorrelId of 20, half expired",
        )
    },
    "authority": {
        "authority: put of a user, non-persistent": "x",
        "authority: put of a user, persistent, 100 a unit of work": "x",
    },
    "channel": {
        "channel, persistent, BATCHSZ(50)": "/s",
        "channel, persistent, BATCHSZ(50), beside bare loops": "x",
        "channel over the network, against one process": "x",
    },
    "listener": {
        "listener, non-persistent, one session": "/s",
        "listener, persistent, against durable deletes": "x",
        "listener, persistent, 8 sessions": "/s",
        "listener, persistent, 8 sessions beside as many bare threads": "x",
        "listener, persistent, 8 sessions beside one processor": "x",
        "listener, idle, 2 sessions": " % of a core",
    },
    "fanout": {
        "fan-out to 5, non-persistent": "/s",
        "fan-out to 5, non-persistent, each with a selector": "/s",
        "fan-out to 5, persistent": "/s",
        "fan-out to 5, persistent, beside bare inserts": "x",
        "fan-out to 5, persistent, beside bare inserts for as many queues": "x",
        "fan-out of 10 KB to 5, persistent": "/s",
        "fan-out of 10 KB to 5, persistent, disk": " KB",
        "copies got by 5 subscribers, persistent, 100 a unit": "/s",
    },
    "opening": {"opening a folder with 20 messages": " s"},
    "steady": {
        "release while 5,000 puts/s and 2,000 due/s run, p99": " ms",
        "release while 5,000 puts/s and 2,000 due/s run, puts": "/s",
        "release while puts run at the limit, p99": " ms",
    },
    "delay": {
        "delayed put, 100 a unit of work, session": "/s",
        "delayed put, 100 a unit of work, JMS": "/s",
        "200 over 0.05 s, arrival - due, p50": " ms",
        "200 over 0.05 s, arrival - due, p99": " ms",
        "200 over 0.05 s, arrival - due, while the puts run": "",
    },
    "selectors": {
        "selector: match 3 of 30": " ms",
        "selector: the last of 30, a property": " ms",
        "selector: the last of 30, two properties": " ms",
        "selector: none of 30, a field of the MQMD": " ms",
        "selector: the last of 30, its id": " ms",
        "selector: refused again by a handle": " ms",
        "selector: longest put of another meanwhile": " ms",
    },
    "flood": {
        "500 due in one second, beside bare UPDATEs": "x",
        "500 due in one second, beside bare UPDATEs, lives and another's commits": "x",
    },
    "growth": {
        **{f"{step}: 2,500 messages against 2,000": "x" for step in _STEPS},
        "open, depth and first get: 2,500 messages against 2,000": "x",
        "verify, a message: 2,500 messages against 2,000": "x",
        "2,500 messages of 200 bytes, disk": " bytes each",
        "2,500 messages of 200 bytes, memory of the process": " MB",
        "50,000,000 messages, disk": "",
        **{f"{step}: 3 queues against 2": "x" for step in _MANY},
        "open, a queue: 3 queues against 2": "x",
        "define and subscribe, a queue: 3 queues against 2": "x",
        "3 queues, each with a subscription, memory": " bytes each",
    },
}


#: By part the plots of its curves with the points of each, and its comparisons with peers.
CURVES: Final = {
    "growth": {
        *((plot, 3) for plot in ("queues", "queues-in-turn")),
        *((plot, 2) for plot in ("messages", "messages-in-turn", "disk", "memory", "put", "get")),
    }
}
BESIDE_COUNTS: Final = {"units": 2, "client_peers": 4, "delay": 3}


def is_memory(one: Figure) -> bool:
    """Tell whether a figure is a growth of memory: in this process others may give some back."""
    return "memory" in one.name


@pytest.mark.parametrize("name", TRIED)
def test_a_part_tells_each_figure_once_with_its_unit(name: str) -> None:
    part = measured(name, "SMALLEST")
    told = [(one.name, one.measured.unit if one.measured else "") for one in part.figures]
    assert told == [*FIGURES[name].items()]
    numbers = [one.measured.number for one in part.figures if one.measured and not is_memory(one)]
    assert all(number >= 0 for number in numbers)
    assert {(one.plot, len(one.points)) for one in part.curves} == CURVES.get(name, set())
    assert len(part.besides) == BESIDE_COUNTS.get(name, 0)
    assert all(one.ours.startswith("Mayfly") for one in part.besides)


def test_parts_that_are_long_run_only_when_named_or_asked_for() -> None:
    assert {*usual_parts()} | LONG == {*PARTS}
    assert not {*usual_parts()} & LONG


@pytest.mark.parametrize(
    ("option", "parts"), [("--smallest", ", ".join(TRIED)), ("--peers", ", ".join(PEERED))]
)
def test_a_part_that_an_option_is_not_for_is_refused(
    option: str, parts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["http", option])
    assert raised.value.code == 2
    assert f"{option} is for {parts}" in capsys.readouterr().err


def test_50_million_messages_are_filled_when_that_is_asked_for() -> None:
    assert growth.USUAL.counts[-1] == 10_000_000
    assert growth.USUAL.up_to(50_000_000).counts == [*growth.USUAL.counts, 50_000_000]
    assert growth.USUAL.up_to(1_000_000).counts == [10_000, 100_000, 1_000_000]
