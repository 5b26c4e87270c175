"""The properties of ports and activation specifications: L12, ranges, unknown names."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager, jms
from mayfly.listener import ActivationSpec
from mayfly.services.listener.settings import translated
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
    port_of(manager, name=name.split(".")[-1], properties={name: "1"}, receive_timeout_ms=0)
    assert caplog.text == ""


@pytest.mark.parametrize(
    "name",
    [
        "MQJMS.POOLING.TIMEOUT",
        "MQJMS.POOLING.THRESHOLD",
        "DYNAMIC.CONFIGURATION.ENABLED",
        "NON.ASF.BMT.ROLLBACK.ENABLED",
        "ENABLE.ZOS.LP.RECOVERY",
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


@pytest.mark.parametrize(
    ("port_name", "unused_s"), [("P1", 5), ("p1", 5), ("P2", 50), ("P3", 500), ("", 500)]
)
def test_the_unused_timeout_of_a_port_reaches_that_port(
    manager: QueueManager,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    port_name: str,
    unused_s: int,
) -> None:
    properties: dict[str, str | int] = {
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT.P2": 50,
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT.P1": 5,
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 500,
        "SERVER.SESSION.POOL.REAP.TIME": 1,
    }
    port = port_of(manager, name=port_name, properties=properties, receive_timeout_ms=0)
    unreached = "properties for the ports P1, P2 reach no port: this one has no name"
    assert (unreached in caplog.text) is (port_name == "")
    with started(port):
        put(manager, "x")
        until(port, lambda now: now.receiving == 1)
        clock.advance(unused_s * 1_000 - 1)
        # The clock decides the wait of the thread; its end comes later.
        assert port.statistics().receiving == 1
        clock.advance(1)
        until(port, lambda now: now.threads == 0)


def test_a_wrong_value_for_another_port_is_refused_all_the_same(manager: QueueManager) -> None:
    with pytest.raises(ValueError, match=r"TIMEOUT\.P2 'soon' is not a whole number"):
        port_of(manager, name="P1", properties={"SERVER.SESSION.POOL.UNUSED.TIMEOUT.P2": "soon"})


def test_the_longer_name_wins(manager: QueueManager, clock: VirtualClock) -> None:
    properties: dict[str, str | int] = {
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT.P1": 5,
        "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 500,
        "SERVER.SESSION.POOL.REAP.TIME": 1,
    }
    port = port_of(manager, name="P1", properties=properties, receive_timeout_ms=0)
    with started(port):
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


def migrated(manager: QueueManager, **options: Any) -> ActivationSpec:
    """Return the activation specification that replaces a listener port."""
    return ActivationSpec.of_listener_port(manager, destination="Q1", on_message=ignore, **options)


def test_L13_a_non_asf_port_becomes_an_activation_specification_by_one_call(
    manager: QueueManager, clock: VirtualClock
) -> None:
    calls = Calls()
    spec = ActivationSpec.of_listener_port(
        manager,
        destination="Q1",
        on_message=calls,
        max_sessions=2,
        selector="colour = 'red'",
        properties={"NON.ASF.RECEIVE.TIMEOUT": "110000", "MAX.RECOVERY.RETRIES": "3"},
    )
    assert dict(spec.not_translated) == {}
    with started(spec):
        assert (spec.statistics().threads, spec.statistics().receiving) == (2, 2)
        clock.advance(109_999)
        assert spec.statistics().idle_rollbacks == 0
        clock.advance(1)
        idle(spec, 2)
        put(manager, "blue", properties={"colour": "blue"})
        put(manager, "red", properties={"colour": "red"})
        assert calls.text() == "red"


def test_L13_the_pool_of_an_asf_port_is_translated_to_ms(
    manager: QueueManager, clock: VirtualClock
) -> None:
    """SERVER.SESSION.POOL.* are seconds, poolTimeout is ms; the look of a session is its own."""
    spec = migrated(
        manager,
        name="orders",
        properties={
            "SERVER.SESSION.POOL.UNUSED.TIMEOUT.Orders": 25,
            "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 500,
            "SERVER.SESSION.POOL.REAP.TIME": 10,
        },
    )
    assert dict(spec.not_translated) == {
        "SERVER.SESSION.POOL.REAP.TIME": "an activation specification looks at each session by "
        "itself"
    }
    with started(spec):
        put(manager, "x")
        until(spec, lambda now: now.receiving == 1)
        clock.advance(24_999)
        assert spec.statistics().receiving == 1
        clock.advance(1)
        until(spec, lambda now: now.threads == 0)


@pytest.mark.parametrize(
    ("properties", "name", "why"),
    [
        ({"MQJMS.POOLING.TIMEOUT": "1"}, "MQJMS.POOLING.TIMEOUT", "connections are not pooled"),
        ({"DYNAMIC.CONFIGURATION.ENABLED": "true"}, "DYNAMIC.CONFIGURATION.ENABLED", "another"),
        ({"ENABLE.ZOS.LP.RECOVERY": "false"}, "ENABLE.ZOS.LP.RECOVERY", "always recovers"),
        (
            {"SERVER.SESSION.POOL.UNUSED.TIMEOUT.P2": 5},
            "SERVER.SESSION.POOL.UNUSED.TIMEOUT.P2",
            "it is for the port P2",
        ),
        (
            {"SERVER.SESSION.POOL.UNUSED.TIMEOUT": 5},
            "SERVER.SESSION.POOL.UNUSED.TIMEOUT",
            "kept for ever",
        ),
        (
            {"SERVER.SESSION.POOL.UNUSED.TIMEOUT": 5, "NON.ASF.RECEIVE.TIMEOUT": 1},
            "SERVER.SESSION.POOL.UNUSED.TIMEOUT",
            "L12",
        ),
        (
            {
                "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 2_147_484,
                "SERVER.SESSION.POOL.REAP": 1,
            },
            "SERVER.SESSION.POOL.UNUSED.TIMEOUT",
            "more ms than poolTimeout can say",
        ),
        (
            {"RECOVERY.RETRY.INTERVAL": 2_147_484},
            "RECOVERY.RETRY.INTERVAL",
            "2147484 s are more ms than reconnectionRetryInterval can say",
        ),
    ],
)
def test_L13_what_cannot_be_translated_is_named(
    manager: QueueManager,
    caplog: pytest.LogCaptureFixture,
    properties: dict[str, str | int],
    name: str,
    why: str,
) -> None:
    spec = migrated(manager, name="P1", properties=properties)
    assert why in spec.not_translated[name]
    assert f"{name} is not translated" in caplog.text


def test_L13_a_wrong_property_of_the_port_is_named_before_anything_is_made(
    manager: QueueManager,
) -> None:
    with pytest.raises(ValueError, match=r"property 'NON\.ASF\.TIMEOUT' is not known"):
        migrated(manager, properties={"NON.ASF.TIMEOUT": 1})
    with pytest.raises(ValueError, match="maxPoolDepth 0 is not within 1"):
        migrated(manager, max_sessions=0)


@pytest.mark.parametrize(
    ("properties", "table"),
    [
        ({}, {"reconnectionRetryInterval": 60_000}),
        ({"RECOVERY.RETRY.INTERVAL": "5"}, {"reconnectionRetryInterval": 5_000}),
        (
            {"NON.ASF.BMT.ROLLBACK.ENABLED": "true", "non.asf.receive.timeout": "1"},
            {
                "reconnectionRetryInterval": 60_000,
                "nonASFRollbackEnabled": "true",
                "nonASFTimeout": 1,
            },
        ),
        (
            {
                "MAX.RECOVERY.RETRIES": 0,
                "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 2_147_483,
                "SERVER.SESSION.POOL.REAP": 1,
            },
            {
                "reconnectionRetryInterval": 60_000,
                "reconnectionRetryCount": 0,
                "poolTimeout": 2_147_483_000,
            },
        ),
    ],
)
def test_L13_the_table_is_that_of_the_resource_adapter(
    properties: dict[str, str | int], table: dict[str, str | int]
) -> None:
    """A port that says nothing waits 60 s between its tries, a specification 5 minutes."""
    assert translated(properties).properties == table
