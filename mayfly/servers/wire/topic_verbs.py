"""The verbs about subscriptions and topics, carried out on a conversation."""

from __future__ import annotations

from typing import Any

from mayfly.contracts.wire_verbs import Verb
from mayfly.servers.wire.operating_verbs import Caller, Runs


def _subscribe(conversation: Caller, fields: list[Any]) -> Any:
    options, topic, topic_object, name, queue, selector, user_data, correl_id = fields[:8]
    expiry_tenths, priority, altered, held = fields[8:]
    return conversation.connection.topics.subscribe(
        options,
        topic=topic,
        topic_object=topic_object,
        name=name,
        queue=queue,
        selector=selector,
        user_data=user_data,
        correl_id=correl_id,
        expiry_tenths=expiry_tenths,
        priority=priority,
        altered=altered,
        held=held,
    )


def _close_subscription(conversation: Caller, fields: list[Any]) -> None:
    number, remove = fields
    conversation.connection.topics.close(number, remove=remove)


def _request_retained(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.topics.request_retained(*fields)


def _join(conversation: Caller, fields: list[Any]) -> Any:
    topic, name, is_durable, is_shared, no_local, selector = fields
    return conversation.connection.topics.join(
        topic,
        name=name,
        is_durable=is_durable,
        is_shared=is_shared,
        no_local=no_local,
        selector=selector,
    )


def _is_open(conversation: Caller, fields: list[Any]) -> Any:
    return conversation.connection.topics.is_open(*fields)


def _remove(conversation: Caller, fields: list[Any]) -> None:
    conversation.connection.topics.remove(*fields)


def _belong_to(conversation: Caller, fields: list[Any]) -> None:
    conversation.connection.topics.belong_to(*fields)


def _claim(conversation: Caller, fields: list[Any]) -> None:
    conversation.connection.topics.claim(*fields)


def _make_temporary(conversation: Caller, _fields: list[Any]) -> Any:
    return conversation.connection.topics.make_temporary()


def _delete_temporary(conversation: Caller, fields: list[Any]) -> None:
    conversation.connection.topics.delete_temporary(*fields)


TOPICS: dict[int, Runs] = {
    Verb.SUBSCRIBE: _subscribe,
    Verb.CLOSE_SUBSCRIPTION: _close_subscription,
    Verb.REQUEST_RETAINED: _request_retained,
    Verb.TOPIC_JOIN: _join,
    Verb.TOPIC_IS_OPEN: _is_open,
    Verb.TOPIC_REMOVE: _remove,
    Verb.TOPIC_BELONG_TO: _belong_to,
    Verb.TOPIC_CLAIM: _claim,
    Verb.TOPIC_MAKE_TEMPORARY: _make_temporary,
    Verb.TOPIC_DELETE_TEMPORARY: _delete_temporary,
}
