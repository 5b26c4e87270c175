"""The source of a link on which a client receives: a queue, a copy of one, or a subscription."""

from __future__ import annotations

from typing import Final, NamedTuple

from proton import Link, Terminus

from mayfly.client.connection import Connection
from mayfly.client.connection.topics import is_temporary_topic, quoted_client_id
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp import addresses
from mayfly.servers.amqp.addresses import QUEUE, TOPIC, Address
from mayfly.servers.amqp.conversations import Conversations, check_is_topic, not_found
from mayfly.servers.amqp.dynamic import Node, OwnNodes
from mayfly.servers.amqp.errors import AmqpError
from mayfly.servers.amqp.terminus import capabilities_of, filters_of

_GET: Final = c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INQUIRE | c.MQOO_FAIL_IF_QUIESCING
_BROWSE: Final = c.MQOO_BROWSE | c.MQOO_FAIL_IF_QUIESCING
#: Ends the name of a subscription in the name of a link; ``global``, ``volatile`` or a number
#: follows, so that several links may share one.
_DELIMITER = "|"
_GLOBAL = "global"


class Source(NamedTuple):
    """The open source of a link: the handle to get by, and the parts that end with the link.

    ``subscription`` is 0 for a queue. ``durable_name`` is that of a durable subscription, ``node``
    a dynamic node that the link has made.
    """

    handle: int
    address: str
    is_browse: bool = False
    subscription: int = 0
    durable_name: str = ""
    node: Node | None = None


def opened_source(conversations: Conversations, link: Link, container: str) -> Source:
    """Open the source of a link; the answer's source is filled in. Raises AmqpError, MQError."""
    asked, answer = link.remote_source, link.source
    connection, nodes = conversations.main, conversations.nodes
    if asked.dynamic:
        node = nodes.make(connection, asked, answer)
        if node.address.kind == TOPIC:
            found = _subscribed(connection, link, node.address, container)
        else:
            found = _queue(connection, node.address, "", nodes, is_browse=False)
        return found._replace(node=node)
    answer.copy(asked)
    if not asked.address:
        return _known_subscription(connection, link, container)
    address = addresses.read(asked.address, capabilities_of(asked))
    selector, _no_local = filters_of(asked)
    if address.kind != TOPIC:
        is_browse = asked.distribution_mode == Terminus.DIST_MODE_COPY
        try:
            return _queue(connection, address, selector, nodes, is_browse=is_browse)
        except MQError as error:
            if address.kind == QUEUE:
                raise not_found(address, error) from None
            check_is_topic(connection, address, error)
    if is_temporary_topic(address.name):
        nodes.check_reader(address.name)
    return _subscribed(connection, link, address, container)


def _queue(
    connection: Connection, address: Address, selector: str, nodes: OwnNodes, *, is_browse: bool
) -> Source:
    opened = connection.open(
        address.name,
        _BROWSE if is_browse else _GET,
        manager=address.manager,
        selector=selector or None,
    )
    if not is_browse and opened.definition_type == c.MQQDT_TEMPORARY_DYNAMIC:
        try:
            nodes.check_reader(opened.queue)
        except AmqpError:
            connection.close_object(opened.handle)
            raise
    return Source(opened.handle, address.name, is_browse=is_browse)


def _subscribed(connection: Connection, link: Link, address: Address, container: str) -> Source:
    asked = link.remote_source
    capabilities = capabilities_of(asked)
    is_durable = asked.expiry_policy == Terminus.EXPIRE_NEVER
    is_shared = "shared" in capabilities
    selector, no_local = filters_of(asked)
    name = ""
    if is_durable or is_shared:
        name = _subscription_name(link.name, container, capabilities, is_durable=is_durable)
    joined = connection.topics.join(
        address.name,
        name=name,
        is_durable=is_durable,
        is_shared=is_shared,
        no_local=no_local,
        selector=selector,
    )
    shown = addresses.topic_address(address.name)
    durable_name = name if is_durable else ""
    return Source(joined.handle, shown, subscription=joined.number, durable_name=durable_name)


def _known_subscription(connection: Connection, link: Link, container: str) -> Source:
    """Open a durable subscription by the name of the link alone, to look at it or to end it.

    Raises MQRC_NO_SUBSCRIPTION, which is amqp:not-found, and why it is not to be opened.
    """
    capabilities = capabilities_of(link.remote_source)
    if link.name.partition(_DELIMITER)[2].startswith(_GLOBAL):
        # A client without an id has no source to say so: the name of the link does.
        capabilities = (*capabilities, _GLOBAL)
    name = _subscription_name(link.name, container, capabilities, is_durable=True)
    found = connection.topics.subscribe(c.MQSO_RESUME | c.MQSO_DURABLE, name=name)
    link.source.type = Terminus.SOURCE
    address = addresses.topic_address(found.facts.topic)
    link.source.address = address
    link.source.expiry_policy = Terminus.EXPIRE_NEVER
    link.source.durability = Terminus.DELIVERIES
    return Source(found.handle, address, subscription=found.number, durable_name=name)


def _subscription_name(
    link_name: str, container: str, capabilities: tuple[str, ...], *, is_durable: bool
) -> str:
    """Return the name of a subscription: the client's own, or shared by all where global."""
    name = link_name.partition(_DELIMITER)[0]
    client = "" if _GLOBAL in capabilities else quoted_client_id(container)
    return f"{'AMQP' if is_durable else 'AMQP.ND'}:{client}:{name}"
