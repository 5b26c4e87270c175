"""Two versions measured in turn: medians, the verdict, and what is left out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.compare import commit_of, differing, earlier, main
from bench.figures import Figure, at_least, at_most
from bench.ratios import THEN, TODAY, CannotRun, Comparison, Ratio, compared, table
from bench.record import Part
from bench.side import check_package


def rates(name: str, *rounds: float) -> list[list[Figure]]:
    """Return the figures of each round of a part that has one figure."""
    return [[at_least(name, number, 1, "/s", samples=[1, 9_999])] for number in rounds]


def comparison(today: list[list[Figure]], then: list[list[Figure]]) -> Comparison:
    left = {TODAY: iter(today), THEN: iter(then)}
    return compared(["one"], len(today), lambda side, name: Part(name, 1, next(left[side])))


def only(today: list[list[Figure]], then: list[list[Figure]]) -> Ratio:
    (ratio,) = comparison(today, then).ratios
    return ratio


def costs(*rounds: float) -> list[list[Figure]]:
    return [[at_most("cost", number, 1, " ms")] for number in rounds]


def test_both_medians_are_those_of_the_rounds_whatever_samples_a_round_had() -> None:
    ratio = only(rates("puts", 300, 100, 150), rates("puts", 90, 80, 100))
    assert (ratio.today.number, ratio.then.number) == (150, 90)
    assert (ratio.today.samples, ratio.then.samples) == ((300, 100, 150), (90, 80, 100))
    assert ratio.value == 150 / 90


@pytest.mark.parametrize(
    ("today", "then", "of_rates", "of_costs"),
    [
        ((101, 120, 130), (80, 90, 100), "better", "worse"),
        # A round as good as one of the other side is no proof.
        ((100, 120, 130), (80, 90, 100), "", ""),
        ((80, 90, 99), (100, 120, 130), "worse", "better"),
        ((80, 90, 100), (100, 120, 130), "", ""),
        ((90, 100, 110), (90, 100, 110), "", ""),
        # One round far off does not hide behind a median.
        ((120, 130, 70), (80, 90, 100), "", ""),
    ],
)
def test_a_ratio_counts_where_the_rounds_of_both_sides_do_not_overlap(
    today: tuple[float, ...], then: tuple[float, ...], of_rates: str, of_costs: str
) -> None:
    assert only(rates("puts", *today), rates("puts", *then)).verdict == of_rates
    assert only(costs(*today), costs(*then)).verdict == of_costs


def test_a_cost_of_nothing_has_a_ratio() -> None:
    assert only(costs(0, 0, 0), costs(0, 0, 0)).value == 1
    assert only(costs(1, 1, 1), costs(0, 0, 0)).value == float("inf")
    assert only(costs(0, 0, 0), costs(1, 1, 1)).value == 0


def test_a_line_has_both_medians_with_their_rounds_the_ratio_and_the_verdict() -> None:
    ratio = only(rates("puts", 1500, 1600, 1700), rates("puts", 700, 800, 900))
    head, line = (" | ".join(line.split("  ")) for line in table([ratio]).splitlines())
    cells = [cell.strip() for cell in line.split(" | ") if cell.strip()]
    assert cells == [
        "better",
        "puts",
        "1,600/s",
        "1,500/s to 1,700/s",
        "800/s",
        "700/s to 900/s",
        "2.00",
    ]
    assert head.endswith("today / then")


def test_the_sides_take_turns() -> None:
    turns = []

    def measure(side: str, name: str) -> Part:
        turns.append((name, side))
        return Part(name, 1, [])

    compared(["one", "two"], 3, measure)
    assert turns == [("one", TODAY), ("one", THEN)] * 3 + [("two", TODAY), ("two", THEN)] * 3


@pytest.mark.parametrize(
    ("failing", "line"),
    [
        (THEN, "one cannot run on that commit: no module 'x'"),
        (TODAY, "one cannot run today: no module 'x'"),
    ],
)
def test_a_part_that_cannot_run_is_named_once_and_the_others_go_on(failing: str, line: str) -> None:
    def measure(side: str, name: str) -> Part:
        if (side, name) == (failing, "one"):
            raise CannotRun("no module 'x'")
        return Part(name, 1, [at_least(f"{name} puts", 5, 1, "/s")])

    found = compared(["one", "two"], 3, measure)
    assert found.left_out == [line]
    assert [ratio.name for ratio in found.ratios] == ["two puts"]


def test_a_figure_without_a_number_in_every_round_of_both_sides_is_named() -> None:
    peer = Figure("peer", "-", "-", True, "redis is not installed")
    now, new = at_least("puts", 5, 1, "/s"), at_least("new", 5, 1, "/s")
    found = comparison([[now, new, peer]] * 3, [[now, peer], [now, new, peer], [now, peer]])
    assert [ratio.name for ratio in found.ratios] == ["puts"]
    assert found.left_out == ["'new' was measured in every round only today"]


def test_a_side_refuses_a_mayfly_that_is_not_its_own(tmp_path: Path) -> None:
    check_package(Path(__file__).parents[2])
    with pytest.raises(SystemExit) as raised:
        check_package(tmp_path)
    assert f"not the Mayfly of {tmp_path}" in str(raised.value.code)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-commit", "fanout"], "no commit 'no-such-commit'"),
        (["HEAD", "fan-out"], "unknown part 'fan-out'"),
        (["HEAD", "--rounds", "2"], "2 is below 3"),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert said in capsys.readouterr().err


def test_an_earlier_commit_is_beside_todays_bench_and_leaves_nothing(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        settings = ("user.name=a", "user.email=a@example.com", "commit.gpgsign=no")
        told = [word for setting in settings for word in ("-c", setting)]
        return subprocess.check_output(["git", *told, *words], cwd=tmp_path, text=True)

    for name in ("mayfly", "bench"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "it.py").write_text("old")
    (tmp_path / "pyproject.toml").write_text("old")
    (tmp_path / "constraints.txt").write_text("old")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "old")
    for name in ("mayfly", "bench"):
        (tmp_path / name / "it.py").write_text("new")
    (tmp_path / "constraints.txt").write_text("new")
    commit = commit_of(tmp_path, "HEAD")
    assert commit == git("rev-parse", "HEAD").strip()
    assert differing(tmp_path, commit) == ["constraints.txt"]
    with earlier(tmp_path, commit) as tree:
        assert (tree / "mayfly" / "it.py").read_text() == "old"
        assert (tree / "bench" / "it.py").read_text() == "new"
    assert list((tmp_path / "out").iterdir()) == []
    assert len(git("worktree", "list").splitlines()) == 1
