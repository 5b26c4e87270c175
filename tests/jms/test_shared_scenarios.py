"""The JMS rules D1 to D31 and L1 to L15 as programs of Java observe them (interop/scenarios.json).

``make interop`` runs the same file through Qpid JMS and Spring, with the same outcome.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager, jms
from mayfly.testing import VirtualClock
from tests.connection.serving import serving
from tests.jms.scenario_file import APIS, CONTENT, SCENARIOS, USER, Play

RULES = [f"D{number}" for number in range(1, 32)] + [f"L{number}" for number in range(1, 16)]


@pytest.fixture
def factory(
    request: pytest.FixtureRequest, queue_manager: QueueManager
) -> Iterator[jms.ConnectionFactory]:
    """The connections of a program: in this process, and over TCP."""
    if request.param == "local":
        yield jms.ConnectionFactory(queue_manager, user=USER)
        return
    with serving(queue_manager) as served:
        yield jms.ConnectionFactory(
            connection_name_list=str(served.address), channel="CH", user=USER, password="secret"
        )


@pytest.mark.parametrize(
    ("factory", "api"),
    [
        ("local", "simplified"),
        ("socket", "classic"),
        # Each way and each API is in a pair above.
        pytest.param("local", "classic", marks=pytest.mark.soak),
        pytest.param("socket", "simplified", marks=pytest.mark.soak),
    ],
    indirect=["factory"],
)
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_outcome_is_that_of_the_file(
    queue_manager: QueueManager,
    clock: VirtualClock,
    factory: jms.ConnectionFactory,
    name: str,
    api: str,
) -> None:
    Play(queue_manager, clock, factory, APIS[api]).run(SCENARIOS[name])


def test_each_rule_has_a_scenario_or_a_reason_why_not() -> None:
    shown = {name.split("_")[0] for name in SCENARIOS}
    assert shown.isdisjoint(CONTENT["not_observable"])
    assert shown | set(CONTENT["not_observable"]) == set(RULES)
    assert len(SCENARIOS) == len(CONTENT["scenarios"])
