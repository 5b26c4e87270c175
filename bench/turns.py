"""Two sides that are measured in turn, round by round, so that both meet the same load."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

#: By step the costs of the rounds, in µs.
Costs: TypeAlias = dict[str, list[float]]
#: Does a round, and tells each step with its cost in µs.
Round: TypeAlias = Callable[[], Iterable[tuple[str, float]]]


def in_turn(rounds: int, one: Round, other: Round) -> tuple[Costs, Costs]:
    """Return what the steps of two sides cost; the side that begins changes round by round."""
    costs: tuple[Costs, Costs] = ({}, {})
    sides = list(zip(costs, (one, other), strict=True))
    for number in range(rounds):
        for found, side in sides if number % 2 else reversed(sides):
            for step, cost_us in side():
                found.setdefault(step, []).append(cost_us)
    return costs
