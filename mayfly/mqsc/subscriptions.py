"""The MQSC commands about subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mayfly.engine.pubsub import subscription_administration
from mayfly.engine.pubsub.subscription_administration import CHANGEABLE
from mayfly.mqsc.display import selection, subscription_row
from mayfly.mqsc.grammar import Command
from mayfly.mqsc.outcome import Outcome, done, not_found, nothing_else, shown
from mayfly.mqsc.values import GENERIC, distinct, matches, one_value, settings, switch

if TYPE_CHECKING:
    from mayfly.engine.manager import Manager


def define(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DEFINE SUB(name) TOPICSTR(text) and/or TOPICOBJ(name) [LIKE(name)] [REPLACE] attributes."""
    name = one_value(command.object)
    given = distinct(command.parameters)
    replace = switch(given, "REPLACE")
    like = given.pop("LIKE", None)
    attributes = settings(given, kind)
    if like is not None:
        model_name = one_value(like)
        with queue_manager.latch:
            model = queue_manager.registry.subscriptions.find(model_name)
            if model is None:
                return not_found(model_name)
            inherited = {k: v for k, v in model.definition.attributes.items() if k in CHANGEABLE}
        attributes = {**inherited, **attributes}
    subscription_administration.define_subscription(
        queue_manager, name, attributes, replace=replace
    )
    return done("AMQ8094I", "IBM MQ subscription created.")


def alter(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """ALTER SUB(name) attributes."""
    name = one_value(command.object)
    given = distinct(command.parameters)
    attributes = settings(given, kind)
    for keyword, parameter in given.items():
        if keyword not in CHANGEABLE:
            raise parameter.wrong(f"{keyword} cannot be changed")
    subscription_administration.alter_subscription(queue_manager, name, attributes)
    return done("AMQ8095I", "IBM MQ subscription changed.")


def delete(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DELETE SUB(name)."""
    name = one_value(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    subscription_administration.delete_subscription(queue_manager, name)
    return done("AMQ8091I", "IBM MQ subscription deleted.")


def display(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY SUB(generic) [attributes] [WHERE()]; non-durable ones are shown while they last."""
    pattern = one_value(command.object)
    wanted = selection(distinct(command.parameters), (kind,), generic=pattern.endswith(GENERIC))
    with queue_manager.latch:
        found = [s for s in queue_manager.registry.subscriptions.all() if matches(s.name, pattern)]
        rows = [subscription_row(s) for s in sorted(found, key=lambda s: s.name)]
    return shown(rows, wanted, pattern, ("AMQ8096I", "IBM MQ subscription inquired."))
