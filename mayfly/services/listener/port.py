"""Listener ports, as WebSphere has them: sessions that receive messages and call on_message."""

from __future__ import annotations

import logging

from mayfly.jms.destinations import Destination
from mayfly.jms.factory import ConnectionFactory
from mayfly.lifetime.transactions import TOTAL_TRAN_LIFETIME_TIMEOUT_S
from mayfly.queue_manager import QueueManager
from mayfly.services.listener.endpoint import Endpoint
from mayfly.services.listener.settings import (
    MOST_CONVERSATIONS,
    OnMessage,
    Properties,
    Settings,
    destination_named,
    of_listener_port,
    ports_named,
)
from mayfly.services.listener.thread_pool import ThreadPool

_LOG = logging.getLogger("mayfly.listener")


class ListenerPort(Endpoint):
    """Receives the messages of a destination and calls on_message with each, in a transaction.

    In non-ASF mode (NON.ASF.RECEIVE.TIMEOUT is not 0, L1) each session has a thread that begins a
    transaction, receives, calls and commits, from the start to the stop. In ASF one dispatcher
    finds messages, and a session gets a thread when there is work.
    """

    def __init__(
        self,
        manager: QueueManager | ConnectionFactory,
        *,
        name: str = "",
        destination: str | Destination,
        on_message: OnMessage,
        max_sessions: int = 1,
        selector: str | None = None,
        conversations_per_connection: int = MOST_CONVERSATIONS,
        properties: Properties | None = None,
        total_tran_lifetime_timeout_s: int = TOTAL_TRAN_LIFETIME_TIMEOUT_S,
        max_retries: int | None = None,
        pool: ThreadPool | None = None,
    ) -> None:
        """Take a queue or topic, by its name or URI, and what is called with each JMS message.

        ``manager`` is a queue manager of this process, or what makes connections to another one.
        ``properties`` are the custom properties of the message listener service
        (docs/LISTENERS.md); one that ends with the name of a port is for the port of this ``name``
        alone, in any case. ``conversations_per_connection`` is 1 to 10 (L4); a lifetime of 0 is no
        limit; ``max_retries`` is how often one message may fail and be delivered again before the
        port stops, None for ever; ``pool`` is where its sessions have their threads from, None for
        no limit. Raises ValueError for an unknown property or a wrong value, which it names,
        InvalidDestinationException for no destination.
        """
        given = properties or {}
        if not name and ports_named(given):
            _LOG.warning(
                "properties for the ports %s reach no port: this one has no name",
                ", ".join(ports_named(given)),
            )
        super().__init__(
            manager,
            Settings(
                destination=destination_named(destination),
                on_message=on_message,
                name=name,
                max_sessions=max_sessions,
                selector=selector,
                conversations_per_connection=conversations_per_connection,
                total_tran_lifetime_timeout_s=total_tran_lifetime_timeout_s,
                max_retries=max_retries,
                **of_listener_port(given, name),
            ),
            pool,
        )
