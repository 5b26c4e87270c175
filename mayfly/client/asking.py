"""Arguments of programs as the verbs of a connection take them, for both kinds of clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mayfly.client.connection import Connection
from mayfly.lifetime.window import check_life_ms
from mayfly.mqi import constants as c
from mayfly.properties.folders import properties_of_mapping
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import Identifier, stored_id


class Opening(NamedTuple):
    """An object and what it is opened for; equal ones share a handle."""

    name: str
    options: int
    kind: int = c.MQOT_Q
    topic: str = ""
    selector: str | None = None

    def open(self, connection: Connection) -> int:
        """Open it; ``QUEUE@MANAGER`` is a queue of another queue manager."""
        name, _, manager = self.name.partition("@")
        return connection.call(
            ask.Open(
                name,
                self.options,
                kind=self.kind,
                manager=manager,
                topic=self.topic,
                selector=self.selector,
            )
        ).handle


def to_queue(queue: str) -> Opening:
    """Return what puts to a queue need."""
    return Opening(queue, c.MQOO_OUTPUT)


def to_topic(topic: str, topic_object: str = "") -> Opening:
    """Return what publications need."""
    return Opening(topic_object, c.MQOO_OUTPUT, c.MQOT_TOPIC, topic)


def from_queue(queue: str, selector: str | None) -> Opening:
    """Return what gets need."""
    return Opening(queue, c.MQOO_INPUT_SHARED, selector=selector)


def to_browse(queue: str, selector: str | None) -> Opening:
    """Return what a browse needs."""
    return Opening(queue, c.MQOO_BROWSE, selector=selector)


def id_of(identifier: Identifier | None, name: str) -> bytes:
    """Return an id of 24 bytes, empty for None; raises MQRC_MD_ERROR with the name."""
    return stored_id(identifier, name) if identifier else b""


def life(
    *,
    msg_id: Identifier | None,
    correl_id: Identifier | None,
    time_to_live_ms: int | None,
    delay_ms: int,
    properties: Mapping[str, object] | None,
) -> ask.MessageMore:
    """Return ids, lifetime and properties; raises MQRC_MD_ERROR, MQRC_EXPIRY_ERROR."""
    check_life_ms(time_to_live_ms)
    return ask.MessageMore(
        msg_id=id_of(msg_id, "msg_id"),
        correl_id=id_of(correl_id, "correl_id"),
        time_to_live_ms=time_to_live_ms,
        delay_ms=delay_ms,
        properties=properties_of_mapping(properties) if properties else (),
    )


def get_options(wait_ms: int) -> int:
    """Return the options of a get: properties stand in an MQRFH2 before the data."""
    waits = c.MQGMO_WAIT if wait_ms else c.MQGMO_NO_WAIT
    return waits | c.MQGMO_PROPERTIES_FORCE_MQRFH2
