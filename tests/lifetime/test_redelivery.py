"""The delay before a redelivery (D32): it doubles, is bounded, and ends with the life."""

import pytest

from mayfly.lifetime.moments import redelivery_delay_ms, redelivery_ms


@pytest.mark.parametrize(
    ("backout_count", "delay_ms"),
    [(0, 5_000), (1, 5_000), (2, 10_000), (6, 160_000), (7, 300_000), (10**9, 300_000)],
)
def test_D32_the_delay_doubles_with_each_backout_up_to_the_longest(
    backout_count: int, delay_ms: int
) -> None:
    assert redelivery_delay_ms(5, 300, backout_count) == delay_ms


def test_D32_a_delay_of_0_stays_0() -> None:
    assert redelivery_delay_ms(0, 300, 9) == 0


def test_D32_a_longest_delay_below_the_first_is_the_first() -> None:
    assert [redelivery_delay_ms(5, 1, count) for count in (1, 2, 30)] == [5_000] * 3


@pytest.mark.parametrize(
    ("expire_at_ms", "ends_ms"), [(None, 100), (99, 99), (100, 100), (101, 100)]
)
def test_D32_E13_a_delay_ends_at_an_earlier_deadline(
    expire_at_ms: int | None, ends_ms: int
) -> None:
    assert redelivery_ms(100, expire_at_ms) == ends_ms
