"""docs/JMS.md names what the package has."""

import re
from pathlib import Path

import pytest

from mayfly import QueueManager, jms
from mayfly.jms.constants import DESCRIPTOR_PROPERTIES, KNOWN_PROPERTIES
from mayfly.testing import VirtualClock
from tests.facts import wait_until

DOCS = (Path(__file__).parents[2] / "docs/JMS.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(DESCRIPTOR_PROPERTIES))
def test_every_property_that_mq_knows_is_in_the_table(name: str) -> None:
    report = "JMS_IBM_Report"
    short = name.removeprefix(report) if name.startswith(report) else name
    assert f"{short}`" in DOCS or f"{short}," in DOCS or f" {short} " in DOCS


def test_public_names_are_there_once() -> None:
    assert len(set(jms.__all__)) == len(jms.__all__)
    assert all(hasattr(jms, name) for name in jms.__all__)


def test_every_property_of_MQ_has_the_constant_that_MQ_classes_for_JMS_have() -> None:
    """``JMS_IBM_MSGTYPE`` is ``JMS_IBM_MsgType``: the name in capitals, with no line between words
    where IBM has none."""
    ours = {name: getattr(jms, name) for name in jms.__all__ if name.startswith(("JMS_", "JMSX_"))}
    unnamed = {"JMSXProducerTXID", "JMSXConsumerTXID", "JMSXRcvTimestamp", "JMSXState"}
    assert set(ours.values()) == KNOWN_PROPERTIES - unnamed
    for name, value in ours.items():
        assert name.replace("_", "") == value.replace("_", "").upper()
    assert jms.JMS_IBM_RETAIN == "JMS_IBM_Retain"
    assert jms.JMS_IBM_REPORT_PASS_CORREL_ID == "JMS_IBM_Report_Pass_Correl_ID"
    assert jms.JMSX_GROUPID == "JMSXGroupID"


def test_the_example_of_topics_runs(
    factory: jms.ConnectionFactory, manager: QueueManager, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = [rest.split("```")[0] for rest in DOCS.split("```python\n")[1:]]
    (code,) = [block for block in blocks if "create_topic" in block]
    exec(compile(code, "docs/JMS.md", "exec"), {"jms": jms, "manager": manager})
    assert capsys.readouterr().out == "topic://flight/LH400/gate\n"


def test_the_example_of_the_staging_queue_runs(
    context: jms.JMSContext, q1: jms.Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    (code, output) = re.findall(
        r"^```python\n(sent = .*?)^```\n```text\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL
    )[0]
    exec(compile(code, "docs/JMS.md", "exec"), {"context": context, "queue": q1, "jms": jms})
    assert capsys.readouterr().out == output


def test_the_example_of_listeners_runs(
    context: jms.JMSContext,
    q1: jms.Queue,
    manager: QueueManager,
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = [rest.split("```")[0] for rest in DOCS.split("```python\n")[1:]]
    (code,) = [block for block in blocks if "set_message_listener" in block]
    exec(compile(code, "docs/JMS.md", "exec"), {"context": context, "queue": q1})
    context.create_producer().send(q1, "hello")
    wait_until(lambda: not (manager.curdepth("Q1") or manager.counts("Q1").locked))
    assert capsys.readouterr().out == "hello\n"


def test_the_example_of_a_lifetime_runs(manager: QueueManager, clock: VirtualClock) -> None:
    blocks = [rest.split("```")[0] for rest in DOCS.split("```python\n")[1:]]
    (code,) = [block for block in blocks if "total_tran_lifetime_timeout_s" in block]
    with manager.session() as native:
        native.put("Q1", b"x")
    exec(compile(code, "docs/JMS.md", "exec"), {"jms": jms, "manager": manager, "clock": clock})
    assert manager.curdepth("Q1") == 0


def test_the_example_in_the_docs_runs() -> None:
    import mayfly

    code = DOCS.split("```python\n")[1].split("```")[0]
    clock = VirtualClock()
    with mayfly.QueueManager("DOCS", clock=clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        # The receive waits for the delivery time: it has come when the message is got.
        code = code.replace("context.commit()", "context.commit(); clock.advance(5_000)")
        names: dict[str, object] = {"manager": manager, "clock": clock}
        exec(compile(code, "docs/JMS.md", "exec"), names)
        assert type(names["message"]) is jms.TextMessage
