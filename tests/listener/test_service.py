"""The message listener service: ports by name, shared properties, one pool of threads for all."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mayfly import QueueManager, jms
from mayfly.listener import ListenerPort, MessageListenerService
from mayfly.mqi import reasons as rc
from mayfly.services.listener.runs import ASF
from mayfly.testing import VirtualClock
from tests.facts import wait_until
from tests.listener.scene import Calls, fail, idle, ignore, put, until

NON_ASF: dict[str, str | int] = {"NON.ASF.RECEIVE.TIMEOUT": 110_000}
REAPING: dict[str, str | int] = {
    "SERVER.SESSION.POOL.REAP.TIME": 1,
    "SERVER.SESSION.POOL.UNUSED.TIMEOUT": 500,
    "SERVER.SESSION.POOL.UNUSED.TIMEOUT.Slow": 5,
}


def two_ports(
    service: MessageListenerService, first: Any = ignore, second: Any = ignore, **options: Any
) -> tuple[ListenerPort, ListenerPort]:
    """Add a port on each of two queues."""
    return (
        service.add_port("One", destination="Q1", on_message=first, **options),
        service.add_port("Two", destination="Q2", on_message=second, **options),
    )


def test_L1_its_properties_are_those_of_all_its_ports(
    manager: QueueManager, clock: VirtualClock
) -> None:
    service = MessageListenerService(manager, properties=NON_ASF)
    ports = two_ports(service, max_sessions=2)
    with service:
        assert [port.statistics().threads for port in ports] == [2, 2]
        assert service.threads_in_use == 4
        clock.advance(110_000)
        for port in ports:
            idle(port, 2)
    assert service.threads_in_use == 0
    assert not any(port.is_running for port in service.ports.values())


def test_the_unused_timeout_of_a_port_reaches_the_port_of_that_name(
    manager: QueueManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    service = MessageListenerService(manager, properties=REAPING)
    slow = service.add_port("SLOW", destination="Q1", on_message=ignore)
    other = service.add_port("Other", destination="Q2", on_message=ignore)
    with service:
        put(manager, "x")
        put(manager, "x", name="Q2")
        for port in (slow, other):
            until(port, lambda now: now.receiving == 1)
        clock.advance(4_999)
        assert slow.statistics().receiving == 1
        clock.advance(1)
        until(slow, lambda now: now.threads == 0)
        clock.advance(494_999)
        assert other.statistics().receiving == 1
        clock.advance(1)
        until(other, lambda now: now.threads == 0)
    assert caplog.text == ""


def test_a_property_for_a_port_that_is_not_there_is_warned_of(
    manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    service = MessageListenerService(manager, properties=REAPING)
    two_ports(service)
    service.start()
    service.stop()
    assert "a property is for the port Slow, which is not here" in caplog.text


def test_L2_a_non_asf_port_whose_sessions_need_more_threads_than_are_free_is_refused(
    manager: QueueManager,
) -> None:
    service = MessageListenerService(manager, properties=NON_ASF, max_threads=3)
    ports = two_ports(service, max_sessions=2)
    with pytest.raises(
        jms.JMSException, match=r"port Two needs 2 threads .* 1 of 3 are free"
    ) as no:
        service.start()
    assert no.value.reason == rc.MQRC_RESOURCE_PROBLEM
    # All or none: what the call has started is stopped again.
    assert [port.is_running for port in ports] == [False, False]
    assert service.threads_in_use == 0
    ports[1].start()
    assert service.threads_in_use == 2
    ports[1].stop()
    assert (
        manager.engine.registry.queue("Q1").input_count
        == manager.engine.registry.queue("Q2").input_count
        == 0
    )


def test_ASF_no_more_threads_work_at_a_time_than_the_pool_has(manager: QueueManager) -> None:
    """The message stays on its queue, not taken, until a thread is free."""
    first, second = Calls(is_held=True), Calls(is_held=True)
    service = MessageListenerService(manager, max_threads=2)
    one, two = two_ports(service, first, second, max_sessions=3)
    with service:
        put(manager, "1", "2", "3")
        until(one, lambda now: now.delivered == 2)
        put(manager, "4", name="Q2")
        assert service.threads_in_use == 2
        assert (manager.counts("Q1").locked, manager.counts("Q2").locked) == (2, 0)
        assert (manager.curdepth("Q1"), manager.curdepth("Q2")) == (1, 1)
        first.let_go()
        # The port that has waited longest has the first thread that is free.
        assert second.text() == "4"
        assert service.threads_in_use <= 2
        second.let_go()
        until(one, lambda now: now.committed == 3)
        until(two, lambda now: now.committed == 1)
    assert service.threads_in_use == 0
    assert manager.curdepth("Q1") == manager.curdepth("Q2") == 0


def test_ASF_a_thread_that_only_waits_is_given_up_for_another_port(manager: QueueManager) -> None:
    """Without reaping a session keeps its thread, but not from a port that needs it."""
    service = MessageListenerService(manager, max_threads=1)
    calls = Calls(), Calls()
    one, two = two_ports(service, *calls)
    with service:
        for number in range(20):
            put(manager, f"{number} one")
            assert calls[0].text() == f"{number} one"
            put(manager, f"{number} two", name="Q2")
            assert calls[1].text() == f"{number} two"
            assert service.threads_in_use == 1
        until(one, lambda now: now.committed == 20)
        until(two, lambda now: now.committed == 20)


def test_ASF_a_port_that_is_always_at_work_leaves_threads_for_others(
    manager: QueueManager,
) -> None:
    first, second = Calls(is_held=True), Calls()
    service = MessageListenerService(manager, max_threads=1)
    one, two = two_ports(service, first, second)
    put(manager, *(str(number) for number in range(100)))
    with service:
        until(one, lambda now: now.delivered == 1)
        put(manager, "between", name="Q2")
        done: list[int] = []
        first.let_go()
        assert second.text() == "between"
        done.append(one.statistics().committed)
        until(one, lambda now: now.committed == 100)
        until(two, lambda now: now.committed == 1)
    assert done[0] < 100


def test_ASF_a_message_that_expires_while_no_thread_is_free_is_not_delivered(
    manager: QueueManager, clock: VirtualClock
) -> None:
    first = Calls(is_held=True)
    service = MessageListenerService(manager, max_threads=1, total_tran_lifetime_timeout_s=0)
    one, two = two_ports(service, first, fail)
    with service:
        put(manager, "x")
        until(one, lambda now: now.delivered == 1)
        put(manager, "short", name="Q2", time_to_live_ms=1_000)
        clock.advance(1_000)
        assert manager.counts("Q2").expired_present == 1
        first.let_go()
        until(one, lambda now: now.committed == 1)
        put(manager, "y")
        until(one, lambda now: now.committed == 2)
        assert two.statistics().delivered == 0
    # Whoever looks next finds it expired, unless somebody has before.
    with manager.session() as session:
        assert session.get("Q2") is None
    assert manager.curdepth("Q2") == 0


def test_L3_a_port_stopped_while_it_waits_for_a_thread_leaves_the_others_alone(
    manager: QueueManager,
) -> None:
    first = Calls(is_held=True)
    service = MessageListenerService(manager, max_threads=1)
    one, two = two_ports(service, first)
    with service:
        put(manager, "x")
        until(one, lambda now: now.delivered == 1)
        put(manager, "y", name="Q2")
        two.stop()
        assert manager.counts("Q2").live == 1
        first.let_go()
        put(manager, "z")
        until(one, lambda now: now.committed == 2)
        two.start()
        until(two, lambda now: now.committed == 1)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"max_threads": 0}, ValueError, "max_threads 0 is not within 1"),
        ({"max_threads": "5"}, TypeError, "max_threads '5' is no number"),
        ({"properties": {"NON.ASF": 1}}, ValueError, "property 'NON.ASF' is not known"),
    ],
)
def test_a_wrong_argument_of_the_service_is_named(
    manager: QueueManager, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        MessageListenerService(manager, **options)


def test_a_port_has_a_name_of_its_own(manager: QueueManager) -> None:
    service = MessageListenerService(manager)
    two_ports(service)
    for name in ("ONE", ""):
        with pytest.raises(ValueError, match=f"name '{name}' is"):
            service.add_port(name, destination="Q1", on_message=ignore)
    assert list(service.ports) == ["One", "Two"]


def test_the_name_of_a_port_stands_in_what_is_logged_of_it(
    manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    service = MessageListenerService(manager, properties=NON_ASF | {"MAX.RECOVERY.RETRIES": 0})
    port = service.add_port("Orders", destination="Q1", on_message=ignore)
    with service:
        assert manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
        until(port, lambda now: now.threads == 0)
    assert "port Orders stops: MQRC_GET_INHIBITED" in caplog.text


def test_ASF_a_permit_that_is_asked_back_as_it_is_granted_is_given_up(
    manager: QueueManager, clock: VirtualClock
) -> None:
    """Both wake the same wait: the one who has the permit must not wait for a message with it."""
    first = Calls(is_held=True)
    service = MessageListenerService(manager, max_threads=1, total_tran_lifetime_timeout_s=0)
    one, two = two_ports(service, first, fail)
    with service:
        put(manager, "x")
        until(one, lambda now: now.delivered == 1)
        pool, run = service._pool, two._run
        assert isinstance(run, ASF)
        put(manager, "short", name="Q2", time_to_live_ms=1_000)
        wait_until(lambda: run in pool.waiting)
        clock.advance(1_000)
        with pool.changed:
            pool.cancel_request(run)
            pool.permitted.append(run)
            run.grant()
            run.give_up_permit()
        wait_until(lambda: run not in pool.permitted)
        first.let_go()
        until(one, lambda now: now.committed == 1)
