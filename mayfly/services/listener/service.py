"""The message listener service of an application server: its ports, properties and threads."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from mayfly.jms.destinations import Destination
from mayfly.jms.factory import ConnectionFactory
from mayfly.lifetime.transactions import TOTAL_TRAN_LIFETIME_TIMEOUT_S
from mayfly.queue_manager import QueueManager
from mayfly.services.listener.conversations import factory_of
from mayfly.services.listener.port import ListenerPort
from mayfly.services.listener.settings import (
    MOST_CONVERSATIONS,
    OnMessage,
    Properties,
    check_number,
    of_listener_port,
    ports_named,
)
from mayfly.services.listener.thread_pool import ThreadPool

_LOG = logging.getLogger("mayfly.listener")
#: As large as the thread pool of WebSphere is unless it is told otherwise.
MAX_THREADS = 50


class MessageListenerService:
    """Listener ports by name, with custom properties for all of them and one pool of threads.

    To be stopped; also as a context manager, which starts and stops it.
    """

    def __init__(
        self,
        manager: QueueManager | ConnectionFactory,
        *,
        properties: Properties | None = None,
        max_threads: int = MAX_THREADS,
        total_tran_lifetime_timeout_s: int = TOTAL_TRAN_LIFETIME_TIMEOUT_S,
    ) -> None:
        """Take what all ports have in common; docs/LISTENERS.md lists the properties.

        A property that ends with the name of a port is for that port alone. The sessions of all
        ports have at most ``max_threads`` threads together. Raises ValueError or TypeError for an
        unknown property or a wrong value, which it names.
        """
        self._factory = factory_of(manager)
        self._properties = dict(properties or {})
        of_listener_port(self._properties)
        self._pool = ThreadPool(check_number("max_threads", max_threads, 1), self._factory.runtime)
        self._total_tran_lifetime_timeout_s = total_tran_lifetime_timeout_s
        self._ports: dict[str, ListenerPort] = {}

    @property
    def ports(self) -> Mapping[str, ListenerPort]:
        """The ports by name, in the order in which they were added."""
        return MappingProxyType(self._ports)

    @property
    def threads_in_use(self) -> int:
        """How many sessions of all ports have a thread now."""
        return self._pool.used_count

    def add_port(
        self,
        name: str,
        *,
        destination: str | Destination,
        on_message: OnMessage,
        max_sessions: int = 1,
        selector: str | None = None,
        conversations_per_connection: int = MOST_CONVERSATIONS,
        max_retries: int | None = None,
    ) -> ListenerPort:
        """Return a new port, which :meth:`start` starts; the arguments are those of ListenerPort.

        Raises ValueError for no name, or one that another port has in whatever case, and as
        ListenerPort.
        """
        if not name.strip():
            raise ValueError(f"name {name!r} is no name for a port")
        if any(known.upper() == name.upper() for known in self._ports):
            raise ValueError(f"name {name!r} is that of another port")
        port = self._ports[name] = ListenerPort(
            self._factory,
            name=name,
            destination=destination,
            on_message=on_message,
            max_sessions=max_sessions,
            selector=selector,
            conversations_per_connection=conversations_per_connection,
            properties=self._properties,
            total_tran_lifetime_timeout_s=self._total_tran_lifetime_timeout_s,
            max_retries=max_retries,
            pool=self._pool,
        )
        return port

    def start(self) -> None:
        """Start all ports that are not running, in the order in which they were added.

        Raises JMSException with the reason of the first that cannot be started, also
        MQRC_RESOURCE_PROBLEM when the pool has too few threads for the sessions of a non-ASF port;
        those that this call has started are stopped again then.
        """
        names = {name.upper() for name in self._ports}
        for named in ports_named(self._properties):
            if named.upper() not in names:
                _LOG.warning("a property is for the port %s, which is not here", named)
        begun: list[ListenerPort] = []
        try:
            for port in self._ports.values():
                if not port.is_running:
                    port.start()
                    begun.append(port)
        except BaseException:
            for port in begun:
                port.stop()
            raise

    def stop(self) -> None:
        """Stop all ports, as each one's stop does."""
        for port in self._ports.values():
            port.stop()

    def __enter__(self) -> MessageListenerService:
        """Start it and return it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()
