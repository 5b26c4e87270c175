"""Helpers of the tests of the dead-letter handler: letters, tables, a handler that works once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.lifetime.dead_letters import Refusal, behind_header
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.services.dead_letter import DeadLetterHandler, Outcome, parse_rules
from mayfly.verbs.messages import Message
from tests.spec.report_scene import BODY, CORREL_ID, MSG_ID, ORIGINAL
from tests.spec.scene import DEAD, Running, put_md, waiting

#: A letter with every field set, to nobody's group.
LETTER = ORIGINAL._replace(
    msg_flags=c.MQMF_NONE, msg_seq_number=1, offset=0, group_id=b"", report=c.MQRO_NONE
)
PLAIN = Descriptor(persistence=c.MQPER_PERSISTENT, format="MQSTR")


def put_dead_letter(
    qm: QueueManager, descriptor: Descriptor = PLAIN, body: bytes = b"x", **more: Any
) -> bytes:
    """Put a dead letter as an application does and return its MsgId; ``more`` as bury_in."""
    with qm.session() as session:
        return bury_in(qm, session, descriptor, body, **more)


def bury_in(
    qm: QueueManager, session: Session, descriptor: Descriptor, body: bytes, **more: Any
) -> bytes:
    """Put a dead letter through a session, for Q1 because it is full unless ``more`` says else.

    Its other names are ``target``, ``target_manager``, ``reason`` and those of put_md.
    """
    target, reason = more.pop("target", "Q1"), more.pop("reason", rc.MQRC_Q_FULL)
    meant_for = more.pop("target_manager", qm.name)
    options = more.pop("options", c.MQPMO_SET_ALL_CONTEXT)
    refusal = Refusal(reason, target, meant_for, c.MQAT_UNIX, "channel", qm.now_ms())
    dead, header = behind_header(descriptor, refusal)
    return put_md(session, DEAD, header + body, dead, options=options, **more).msg_id


def bury_whole(qm: QueueManager, **more: Any) -> None:
    """Put a dead letter with every field of its descriptor set."""
    put_dead_letter(qm, LETTER, BODY, msg_id=MSG_ID, correl_id=CORREL_ID, **more)


def handler(qm: QueueManager, rules: str, **more: Any) -> DeadLetterHandler:
    """Return a handler by the text of its rules."""
    return DeadLetterHandler(qm, parse_rules(rules), **more)


def handled(qm: QueueManager, rules: str, **more: Any) -> dict[str, int]:
    """Let a handler go through the queue once and return what it counts."""
    with handler(qm, rules, **more) as working:
        return named(working.run_once())


def named(counts: Counter[Outcome]) -> dict[str, int]:
    """Return counts that are not 0 by plain names."""
    return {outcome.value: count for outcome, count in counts.items() if count}


def on(qm: QueueManager, queue: str) -> list[Message]:
    """Return what a browse of a queue shows."""
    with qm.session() as session:
        return list(session.browse(queue))


def started(qm: QueueManager, working: DeadLetterHandler) -> Running:
    """Run a handler on a thread of its own; return when it waits."""
    return waiting(qm, DEAD, working.run)


def settled(qm: QueueManager, running: Running) -> bool:
    """Return once a handler waits again, True, or has come to its end, False."""
    number = qm.engine.registry.queue(DEAD).number
    while running.is_under_way:
        if qm.engine.waits.is_waited_on(number):
            return True
    return False
