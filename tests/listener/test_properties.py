"""The properties of ports and activation specifications: L12, ranges, unknown names."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager, jms
from mayfly.listener import ActivationSpec
from mayfly.testing import VirtualClock
from tests.listener.scene import Calls, idle, ignore, next_end_ms, port_of, put, started, until

POOL = [
    "SERVER.SESSION.POOL.REAP",
    "SERVER.SESSION.POOL.REAP.TIME",
    "SERVER.SESSION.POOL.UNUSED.TIMEOUT",
    "SERVER.SESSION.POOL.UNUSED.TIMEOUT.lpname",
    "SERVER.SESSION.POOL.UNUSED.TIMEOUT.Ipaname",
]


@pytest.mark.parametrize("name", POOL)
def test_L12_pool_properties_are_ignored_with_a_warning_in_non_asf(
    manager: QueueManager, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with started(port_of(manager, properties={name: "1"}, max_sessions=2)) as port:
        assert port.statistics().threads == 2
    assert "SERVER.SESSION.POOL.* is accepted and ignored" in caplog.text


@pytest.mark.parametrize("name", POOL)
def test_L12_pool_properties_are_no_reason_to_warn_in_asf(
    manager: QueueManager, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    port_of(manager, properties={name: "1"}, receive_timeout_ms=0)
    assert caplog.text == ""


@pytest.mark.parametrize(
    "name",
    [
        "MQJMS.POOLING.TIMEOUT",
        "MQJMS.POOLING.THRESHOLD",
        "DYNAMIC.CONFIGURATION.ENABLED",
        "NON.ASF.BMT.ROLLBACK.ENABLED",
    ],
)
def test_what_means_nothing_here_is_accepted_with_a_warning(
    manager: QueueManager, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    port_of(manager, properties={name: "true"})
    assert f"{name} is accepted and means nothing here" in caplog.text


@pytest.mark.parametrize(
    ("properties", "kind", "text"),
    [
        ({"NON.ASF.TIMEOUT": "1"}, ValueError, "property 'NON.ASF.TIMEOUT' is not known"),
        ({"SERVER.SESSION.POOL.UNUSED.TIMEOUT.": "1"}, ValueError, "TIMEOUT.' is not known"),
        ({"NON.ASF.RECEIVE.TIMEOUT": "-1"}, ValueError, "TIMEOUT -1 is not within 0 .."),
        ({"NON.ASF.RECEIVE.TIMEOUT": "2147483648"}, ValueError, "is not within"),
        ({"NON.ASF.RECEIVE.TIMEOUT": "110 s"}, ValueError, "'110 s' is not a whole number"),
        ({"NON.ASF.RECEIVE.TIMEOUT": "1_000"}, ValueError, "'1_000' is not a whole number"),
        ({"NON.ASF.RECEIVE.TIMEOUT": "\u0665"}, ValueError, "is not a whole number"),
        ({"NON.ASF.RECEIVE.TIMEOUT": ""}, ValueError, "'' is not a whole number"),
        ({1: "1"}, ValueError, "property 1 is not known"),
        ({"non.asf.receive.timeout": "0"}, ValueError, "TIMEOUT is given twice"),
        ({"NON.ASF.RECEIVE.TIMEOUT": True}, TypeError, "True is no number"),
        ({"NON.ASF.RECEIVE.TIMEOUT": 1.5}, TypeError, "1.5 is no number"),
        ({"RECOVERY.RETRY.INTERVAL": 0}, ValueError, "INTERVAL 0 is not within 1 .."),
        ({"MAX.RECOVERY.RETRIES": -1}, ValueError, "MAX.RECOVERY.RETRIES -1"),
    ],
)
def test_a_wrong_property_is_named(
    manager: QueueManager, properties: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        port_of(manager, properties=properties)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"max_sessions": 0}, ValueError, "max_sessions 0 is not within 1 .."),
        ({"conversations_per_connection": 0}, ValueError, "0 is not within 1 .. 10"),
        ({"conversations_per_connection": 11}, ValueError, "11 is not within 1 .. 10"),
        ({"total_tran_lifetime_timeout_s": -1}, ValueError, "timeout_s -1 is not within 0"),
        ({"max_retries": -1}, ValueError, "max_retries -1 is not within 0"),
        ({"max_retries": "3"}, TypeError, "max_retries '3' is no number"),
        ({"max_sessions": "3"}, TypeError, "max_sessions '3' is no number"),
        ({"conversations_per_connection": "3"}, TypeError, "connection '3' is no number"),
        ({"total_tran_lifetime_timeout_s": "3"}, TypeError, "timeout_s '3' is no number"),
        ({"on_message": None}, TypeError, "on_message None cannot be called"),
        ({"destination": None}, jms.InvalidDestinationException, "None is no name"),
        ({"destination": "queue://"}, jms.InvalidDestinationException, "queue://"),
    ],
)
def test_a_wrong_argument_is_named(
    manager: QueueManager, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        port_of(manager, **options)


def test_the_longer_name_wins(manager: QueueManager, clock: VirtualClock) -> None:
    properties: dict[str, str | int] = {
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT.P1": 5,
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 500,
        "SERVER.SESSION.POOL.REAP.TIME": 1,
    }
    with started(port_of(manager, properties=properties, receive_timeout_ms=0)) as port:
        put(manager, "x")
        until(port, lambda now: now.committed == 1 and next_end_ms(manager) is not None)
        assert next_end_ms(manager) == clock.now_ms() + 5_000


def test_L13_an_activation_specification_runs_non_asf_too(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls()
    spec = ActivationSpec(
        manager,
        destination="Q1",
        on_message=calls,
        properties={
            "nonASFTimeout": "110000",
            "maxPoolDepth": "2",
            "messageSelector": "colour = 'red'",
        },
    )
    with started(spec):
        assert (spec.statistics().threads, spec.statistics().receiving) == (2, 2)
        clock.advance(110_000)
        idle(spec, 2)
        put(manager, "blue", properties={"colour": "blue"})
        put(manager, "red", properties={"colour": "red"})
        assert calls.text() == "red"
    assert (spec.is_running, manager.curdepth("Q1")) == (False, 1)


def test_L13_by_default_it_is_asf_with_ten_sessions_kept_for_5_minutes(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls(is_held=True)
    spec = ActivationSpec(manager, destination="Q1", on_message=calls)
    with started(spec):
        assert spec.statistics().threads == 0
        put(manager, *(str(number) for number in range(11)))
        until(spec, lambda now: now.delivered == 10)
        assert (spec.statistics().threads, manager.curdepth("Q1")) == (10, 1)
        calls.let_go()
        until(spec, lambda now: now.committed == 11 and now.receiving == 10)
        clock.advance(299_999)
        assert spec.statistics().threads == 10
        clock.advance(1)
        until(spec, lambda now: now.threads == 0)


@pytest.mark.parametrize("selector", [None, 5])
def test_a_selector_that_is_no_text_is_named(manager: QueueManager, selector: Any) -> None:
    """Made text of, None would be a property that no message has."""
    with pytest.raises(TypeError, match=f"messageSelector {selector} is no text"):
        ActivationSpec(
            manager,
            destination="Q1",
            on_message=ignore,
            properties={"messageSelector": selector},
        )


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"nonAsfTimeout": "1"}, "property 'nonAsfTimeout' is not known"),
        ({"maxPoolDepth": "0"}, "maxPoolDepth 0 is not within 1"),
        ({"poolTimeout": "soon"}, "poolTimeout 'soon' is not a whole number"),
    ],
)
def test_a_wrong_property_of_an_activation_specification_is_named(
    manager: QueueManager, properties: dict[str, str], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        ActivationSpec(manager, destination="Q1", on_message=ignore, properties=properties)


def test_properties_that_an_activation_specification_ignores(
    manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {"startTimeout": "1", "poolTimeout": "1", "nonASFTimeout": "1"}
    ActivationSpec(manager, destination="Q1", on_message=ignore, properties=properties)
    assert "startTimeout is accepted and means nothing here" in caplog.text
    assert "poolTimeout is accepted and ignored" in caplog.text
