"""Helpers of the tests of publish/subscribe: topics, subscriptions, and arrivals."""

from __future__ import annotations

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import alter_topic, define_subscription, define_topic
from mayfly.mqi import constants as c
from mayfly.verbs.facts import Value

BASE = "SYSTEM.BASE.TOPIC"


def topic(qm: QueueManager, name: str, string: str, **attributes: Value) -> str:
    """Define a topic object and return its topic string."""
    define_topic(qm.engine, name, {"TOPICSTR": string, **attributes})
    return string


def deliver(qm: QueueManager, promise: int, name: str = BASE) -> None:
    """Promise delivery alike for persistent and non-persistent publications."""
    alter_topic(qm.engine, name, {"PMSGDLV": promise, "NPMSGDLV": promise})


def available_only(qm: QueueManager) -> None:
    """Let publications be delayed (D26)."""
    deliver(qm, c.MQDLV_ALL_AVAIL)


def admin_sub(qm: QueueManager, name: str, string: str, queue: str, **attributes: Value) -> None:
    """Define an administrative subscription to a queue."""
    define_subscription(qm.engine, name, {"TOPICSTR": string, "DEST": queue, **attributes})


def drained(session: Session, queue: str) -> list[tuple[str | None, bytes]]:
    """Get all there is and return topic strings and bodies."""
    found = []
    while (message := session.get(queue)) is not None:
        found.append((message.topic, message.body))
    return found
