"""The page, the table and the JSON of a run of bench say the same, from one record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.figures import Beside, Curve, Figure, at_least, at_most, table, without_aim
from bench.machine import LOAD, file_system_of
from bench.page import page, write_page
from bench.record import Part, Run, from_json, merged, to_json

_FAST = at_least("puts", 1500, 1000, "/s", "beside a | b", samples=[1400, 1500, 1800])
_SLOW = at_most("opening", 2, 0.5, " s")
_TOLD = Figure("peers", "-", "-", True, "redis is not installed")
_CURVES = [
    Curve("sizes", name, "messages", "µs", [(10, y), (1_000, 2 * y)], spans_decades=True)
    for name, y in (("put", 5.0), ("get", 7.5))
]
_BESIDE = Beside("put", " ms", False, {"Mayfly": [2.0, 4.0, 2.0], "Redis": [1.0, 2.0, 4.0]})
_RUN = Run(
    {"processors": "2", LOAD: "2.0", "Mayfly": "1.0, commit 1a", "build": "compiled"},
    [
        Part("one", 12.3, [_FAST], [], []),
        Part("two", 4, [_SLOW, _TOLD, _BESIDE.figure(["no NATS"])], _CURVES, [_BESIDE], 1.5),
    ],
    {"Redis": "7.0; appendfsync always"},
)


def test_the_page_has_the_machine_and_each_figure_with_spread_and_verdict() -> None:
    lines = page(_RUN).splitlines()
    assert "| processors | 2 |" in lines
    assert "Of 2 aims 1 were met." in lines
    assert "| puts | 1,500/s | 1,400/s to 1,800/s | >= 1000/s | met | beside a \\| b |" in lines
    assert "| opening | 2 s | - | <= 0.5 s | **missed** | - |" in lines
    assert "| peers | - | - | - | - | redis is not installed |" in lines


def test_the_page_tells_of_peers_and_what_each_of_them_did() -> None:
    lines = page(_RUN).splitlines()
    assert "| Redis | 7.0; appendfsync always |" in lines
    assert not any(line.startswith("| put |") for line in lines)
    begin = lines.index("### put")
    assert lines[begin + 2 : begin + 6] == [
        "| make | median | lowest to highest round | Mayfly against it |",
        "|---|---|---|---|",
        "| Mayfly | 2 ms | 2 ms to 4 ms | - |",
        "| Redis | 2 ms | 1 ms to 4 ms | 0.5x as good |",
    ]
    assert "![two: beside its peers](two-beside.svg)" in lines


def test_a_comparison_is_the_median_of_the_ratios_of_rounds() -> None:
    rates = Beside("puts", "/s", True, {"Mayfly": [100, 300, 200], "Redis": [200, 100, 200]})
    assert (rates.times_as_good("Redis"), _BESIDE.times_as_good("Redis")) == (1, 0.5)


def test_ways_of_ours_are_known_from_those_of_peers() -> None:
    ways = Beside("put", "/s", True, {"Mayfly, session": [1], "Mayfly, JMS": [1], "Redis": [1]})
    assert [ways.is_ours(make) for make in ways.rounds] == [True, True, False]


def test_a_number_without_an_aim_is_neither_met_nor_drawn_beside_one(tmp_path: Path) -> None:
    told = without_aim("lives", 5, "/s", is_rate=True)
    assert (told.verdict, told.aim, told.value) == ("", "-", "5/s")
    write_page(Run({}, [Part("one", 1, [told])]), tmp_path)
    assert not (tmp_path / "aims.svg").exists()


def test_the_page_tells_how_busy_the_machine_was_in_each_part() -> None:
    lines = page(_RUN).splitlines()
    assert "It took 4 s; the load of its last minute was 1.5." in lines
    assert "It took 12 s." in lines


def test_what_was_not_measured_has_not_met_its_aim() -> None:
    absent = Figure("AMQP", "-", ">= 1x", True, "rabbitmq-server is not installed")
    failed = Figure("staged", "not measured", "", False, "no room")
    assert [absent.verdict, failed.verdict, _FAST.verdict] == ["", "missed", "met"]
    assert [line.split()[0] for line in table([absent, failed, _FAST]).splitlines()] == [
        "-",
        "MISSED",
        "ok",
    ]


def test_the_aim_is_met_as_many_times_as_better() -> None:
    assert _FAST.measured is not None
    assert _SLOW.measured is not None
    assert _FAST.measured.times_the_aim == 1.5
    assert _SLOW.measured.times_the_aim == 0.25
    assert _SLOW.measured.of_aim(0) == float("inf")


@pytest.mark.parametrize(("value", "holds"), [(999.9, False), (1000, True)])
def test_an_aim_is_met_at_its_boundary(value: float, holds: bool) -> None:
    assert at_least("puts", value, 1000, "/s").holds is holds
    assert at_most("cost", -value, -1000, " s").holds is holds


def test_a_run_comes_back_from_its_json_as_it_was() -> None:
    assert from_json(to_json(_RUN)) == _RUN


def test_a_kept_run_is_written_and_printed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, folder = tmp_path / "kept.json", tmp_path / "page"
    kept.write_text(to_json(_RUN))
    assert main(["--read", str(kept), "--page", str(folder)]) == 1
    assert capsys.readouterr().out == table(_RUN.figures) + "\n"
    assert (folder / "README.md").read_text() == page(_RUN)
    assert (folder / "run.json").read_text() == kept.read_text()
    assert "opening: 2 s" in (folder / "aims.svg").read_text()


def test_curves_of_one_plot_share_a_picture_that_the_page_shows(tmp_path: Path) -> None:
    write_page(_RUN, tmp_path)
    assert "![two: two-sizes](two-sizes.svg)" in page(_RUN).splitlines()
    beside = (tmp_path / "two-beside.svg").read_text()
    assert all(f"<!-- {text} -->" in beside for text in ("Mayfly", "Redis"))
    drawn = (tmp_path / "two-sizes.svg").read_text()
    assert all(f"<!-- {text} -->" in drawn for text in ("put", "get", "messages (log)", "µs (log)"))


def test_a_run_kept_before_there_were_curves_or_peers_is_read() -> None:
    kept = json.loads(to_json(_RUN))
    del kept["peers"]
    for part in kept["parts"]:
        del part["curves"], part["besides"], part["load"]
    read = from_json(json.dumps(kept))
    assert read.peers == {}
    assert [(p.curves, p.besides, p.load) for p in read.parts] == [([], [], 0), ([], [], 0)]


def test_parts_of_a_further_record_replace_those_of_the_first() -> None:
    slower = at_least("puts", 900, 1000, "/s")
    further = Run(
        {**_RUN.machine, LOAD: "3.0", "Mayfly": "1.0, commit 1a-dirty"},
        [Part("one", 2, [slower]), Part("six", 1, [_TOLD])],
    )
    both = merged([_RUN, further])
    assert [(part.name, part.seconds) for part in both.parts] == [
        ("one", 2),
        ("two", 4),
        ("six", 1),
    ]
    assert (both.machine[LOAD], both.peers) == ("2.0, 3.0", _RUN.peers)
    assert merged([_RUN]) == _RUN


def test_records_of_two_builds_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / build for build in ("pure Python", "compiled")]
    for file in files:
        file.write_text(to_json(Run({"Mayfly": "1.0", "build": file.name}, [])))
    with pytest.raises(SystemExit) as raised:
        main(["--read", *map(str, files)])
    assert raised.value.code == 2
    assert "not of one Mayfly: 1.0, pure Python and 1.0, compiled" in capsys.readouterr().err


def test_an_unknown_part_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["mesaging"])
    assert raised.value.code == 2
    assert "unknown part 'mesaging'" in capsys.readouterr().err


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    mounts = "a / overlay rw 0 0\nb /tmp tmpfs rw 0 0\nc /tmpdata ext4 rw 0 0\n"
    assert file_system_of(Path("/tmp/x"), mounts) == "tmpfs"
    assert file_system_of(Path("/tmpdata"), mounts) == "ext4"
    assert file_system_of(Path("/home"), mounts) == "overlay"
