"""Each part that needs no other server runs: a part that is broken is noticed here."""

from __future__ import annotations

import pytest

from bench.__main__ import main
from bench.parts import LONG, PARTS, TRIED, measured, usual_parts


@pytest.mark.parametrize("name", TRIED)
def test_a_part_runs_at_its_smallest(name: str) -> None:
    part = measured(name, smallest=True)
    names = [figure.name for figure in part.figures]
    assert part.name == name
    assert names
    assert len(names) == len({*names})
    assert all(figure.value for figure in part.figures)


def test_parts_that_are_long_run_only_when_named_or_asked_for() -> None:
    assert {*usual_parts()} | LONG == {*PARTS}
    assert not {*usual_parts()} & LONG


def test_a_part_with_peers_is_not_tried_at_its_smallest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["amqp", "--smallest"])
    assert raised.value.code == 2
    assert "--smallest is for units, steady, growth" in capsys.readouterr().err
