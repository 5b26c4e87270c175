"""Factories for queue managers that other processes serve: where they connect to, and as whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager, jms
from mayfly.client.connection.endpoint import Address
from mayfly.mqi import reasons as rc
from tests.connection.serving import HOST, Served, serving
from tests.jms.scene import refused


@pytest.fixture
def served(manager: QueueManager) -> Iterator[Served]:
    """``QM1`` on a port of its own; who says nothing of themselves, and operator, may all."""
    with serving(manager) as it:
        yield it


def port_of(served: Served) -> int:
    """Return the port that a server listens on."""
    assert isinstance(served.address, Address)
    return served.address.port


def passes_a_message(factory: jms.ConnectionFactory) -> None:
    """Send and receive with a delay of nothing and a life."""
    with factory.create_context(jms.SESSION_TRANSACTED) as context:
        queue = context.create_queue("Q1")
        context.create_producer().set_time_to_live(60_000).send(queue, "over there")
        context.commit()
        message = context.create_consumer(queue).receive(timeout_ms=10_000)
        assert isinstance(message, jms.TextMessage)
        assert message.text == "over there"
        assert message.jms_expiration == message.jms_timestamp + 60_000
        context.commit()


def test_a_host_and_a_port_lead_to_a_server(served: Served, manager: QueueManager) -> None:
    factory = jms.ConnectionFactory(
        host=HOST, port=port_of(served), channel="CH", queue_manager="QM1", user="operator"
    )
    passes_a_message(factory)
    [applicant, *_] = served.admission.applicants
    assert (applicant.user, applicant.channel, applicant.application) == ("operator", "CH", "jms")
    assert manager.curdepth("Q1") == 0


def test_the_names_of_a_list_are_tried_in_order(served: Served) -> None:
    names = f"{HOST}(1),{HOST}({port_of(served)})"
    factory = jms.ConnectionFactory(connection_name_list=names, channel="CH", user="operator")
    passes_a_message(factory)


def test_a_uri_says_all_of_it(served: Served) -> None:
    uri = f"mq://{HOST}:{port_of(served)}/QM1?channel=CH"
    factory = jms.ConnectionFactory.from_uri(uri, user="operator", application_name="gates")
    passes_a_message(factory)
    assert {one.application for one in served.admission.applicants} == {"gates"}


def test_a_channel_table_says_where_it_is(served: Served, tmp_path: Path) -> None:
    connection = {"host": HOST, "port": port_of(served)}
    channel = {
        "name": "CH",
        "type": "clientConnection",
        "clientConnection": {"connection": [connection], "queueManager": "QM1"},
    }
    table = tmp_path / "ccdt.json"
    table.write_text(json.dumps({"channel": [channel]}))
    factory = jms.ConnectionFactory(queue_manager="QM1", ccdt_url=table.as_uri(), user="operator")
    passes_a_message(factory)


def test_a_user_given_with_the_connection_comes_before_that_of_the_factory(served: Served) -> None:
    factory = jms.ConnectionFactory(
        host=HOST, port=port_of(served), channel="CH", user="anna", password="wrong"
    )
    with refused(jms.JMSSecurityException, rc.MQRC_NOT_AUTHORIZED):
        factory.create_connection()
    with refused(jms.JMSSecurityRuntimeException, rc.MQRC_NOT_AUTHORIZED):
        factory.create_context()
    with factory.create_context(user_name="operator", password="right"):
        pass


def test_failures_to_connect_have_the_reasons_of_mq(served: Served) -> None:
    nobody = jms.ConnectionFactory(host=HOST, port=1)
    with refused(jms.JMSException, rc.MQRC_HOST_NOT_AVAILABLE):
        nobody.create_connection()
    other = jms.ConnectionFactory(
        host=HOST, port=port_of(served), channel="CH", queue_manager="QM9", user="operator"
    )
    with refused(jms.JMSException, rc.MQRC_Q_MGR_NAME_ERROR):
        other.create_connection()
    plain = jms.ConnectionFactory(host=HOST, port=port_of(served), channel="CH", tls=True)
    with pytest.raises(jms.JMSException) as caught:
        plain.create_connection()
    assert caught.value.reason == rc.MQRC_JSSE_ERROR


def test_what_contradicts_itself_is_refused(manager: QueueManager) -> None:
    for wrong in (
        {"manager": manager, "host": HOST},
        {"manager": manager, "queue_manager": "QM1"},
        {"host": HOST, "connection_name_list": HOST},
        {"host": HOST, "ccdt_url": "file:///t"},
        {"queue_manager": "QM1", "tls": True},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            jms.ConnectionFactory(**wrong)
    with pytest.raises(TypeError):
        jms.ConnectionFactory()
    with refused(jms.JMSException, rc.MQRC_HOST_NOT_AVAILABLE):
        jms.ConnectionFactory(connection_name_list="a b")
    with refused(jms.JMSException, rc.MQRC_CLIENT_CONN_ERROR):
        jms.ConnectionFactory.from_uri("http://host")


def test_a_listener_hears_over_a_network_what_comes(served: Served, manager: QueueManager) -> None:
    import queue

    uri = f"mq://{HOST}:{port_of(served)}/QM1?channel=CH"
    heard: queue.Queue[jms.Message] = queue.Queue()
    with jms.ConnectionFactory.from_uri(uri, user="operator").create_context() as context:
        context.create_consumer(context.create_queue("Q1")).set_message_listener(heard.put)
        with manager.session() as native:
            native.put("Q1", b"x", format_name="MQSTR")
        message = heard.get(timeout=60)
        assert isinstance(message, jms.TextMessage)
        assert message.text == "x"
    assert manager.curdepth("Q1") == 0
    assert manager.verify().ok
