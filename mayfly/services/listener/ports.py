"""Listener ports, the message listener service of several ports, and activation specifications."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mayfly.jms.destinations import Destination
from mayfly.jms.errors import IllegalStateException
from mayfly.jms.factory import ConnectionFactory
from mayfly.lifetime.time_limits import TOTAL_TRAN_LIFETIME_TIMEOUT_S
from mayfly.queue_manager import QueueManager
from mayfly.services.listener.runs import ASF, NonASF, PortRun, ThreadPool
from mayfly.services.listener.sessions import Statistics, Tally
from mayfly.services.listener.settings import (
    MAX_CONVERSATIONS,
    OnMessage,
    Properties,
    Settings,
    check_number,
    check_timeouts,
    destination_named,
    number_of,
    of_listener_port,
    ports_named,
    translated,
)
from mayfly.services.listener.transactions import factory_of

_LOG = logging.getLogger("mayfly.listener")


class Endpoint:
    """Starts and stops the threads that call on_message; any thread may do either."""

    def __init__(
        self,
        manager: QueueManager | ConnectionFactory,
        settings: Settings,
        pool: ThreadPool | None = None,
    ) -> None:
        """Take the settings; timeouts that cannot be safe are warned of (L10).

        Its sessions have their threads from ``pool``; None is one of its own, without a limit.
        """
        self._factory = factory_of(manager)
        self._settings = settings
        runtime = self._factory.runtime
        self._pool = ThreadPool(runtime) if pool is None else pool
        self._tally = Tally(runtime.lock("tally"))
        self._lock = runtime.lock("port")
        self._run: PortRun | None = None
        for problem in check_timeouts(
            receive_timeout_ms=settings.receive_timeout_ms,
            total_tran_lifetime_timeout_s=settings.total_tran_lifetime_timeout_s,
            longest_on_message_ms=0,
        ):
            _LOG.warning("%s", problem)

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor given up since."""
        return self._run is not None and not self._run.has_stopped_taking

    def start(self) -> None:
        """Open sessions and connections and begin; nothing when it is running.

        Raises JMSException with the reason why the destination or selector cannot be opened; the
        port is stopped then, and nothing is left open. IllegalStateException from inside of an
        on_message that has stopped it.
        """
        if self._run is not None and self._run.is_own_thread and not self.is_running:
            # Checked before the lock: another starter holds it, and waits for this very on_message.
            raise IllegalStateException("start() inside of on_message, which it waits for")
        with self._lock:
            if self.is_running:
                return
            if self._run is not None:
                self._run.join()
            mode = NonASF if self._settings.receive_timeout_ms else ASF
            # An on_message may stop it before its start has returned.
            run = self._run = mode(self._factory, self._settings, self._tally, self._pool)
            try:
                run.start()
            except BaseException:
                self._run = None
                raise

    def stop(self) -> None:
        """Take no more messages, and wait for those in work; a second stop does nothing.

        From inside of on_message it does not wait: the port ends when that has returned.
        """
        run = self._run
        if run is not None:
            run.request_stop()
            if not run.is_own_thread:
                run.join()

    def statistics(self) -> Statistics:
        """Return how it stands and what it has done."""
        return self._tally.statistics(self._state)

    def _state(self) -> tuple[int, int, int]:
        run = self._run
        if run is None:
            return 0, 0, 0
        with self._pool.changed:
            return run.thread_count, run.connection_count, run.receiving_count


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
        conversations_per_connection: int = MAX_CONVERSATIONS,
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


#: The default of the thread pool of WebSphere.
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
        self._pool = ThreadPool(self._factory.runtime, check_number("max_threads", max_threads, 1))
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
        conversations_per_connection: int = MAX_CONVERSATIONS,
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

        Raises JMSException with the reason of the first that cannot be started; ports that this
        call has started are stopped again then. The reason is MQRC_RESOURCE_PROBLEM when the pool
        has too few threads for the sessions of a non-ASF port.
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
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_SELECTOR = "messageSelector"
#: The field of Settings and its lowest value; all times are milliseconds.
_NUMBERS = {
    "maxPoolDepth": ("max_sessions", 1),
    "nonASFTimeout": ("receive_timeout_ms", 0),
    "poolTimeout": ("unused_timeout_ms", 1),
    "reconnectionRetryCount": ("max_recovery_retries", 0),
    "reconnectionRetryInterval": ("retry_interval_ms", 1),
}
_UNUSED = frozenset(
    {"destinationType", "maxMessages", "nonASFRollbackEnabled", "startTimeout", "useJNDI"}
)


class ActivationSpec(Endpoint):
    """Receives messages and calls on_message with each, as :class:`ListenerPort` does."""

    def __init__(
        self,
        manager: QueueManager | ConnectionFactory,
        *,
        destination: str | Destination,
        on_message: OnMessage,
        properties: Properties | None = None,
        conversations_per_connection: int = MAX_CONVERSATIONS,
        total_tran_lifetime_timeout_s: int = TOTAL_TRAN_LIFETIME_TIMEOUT_S,
        max_retries: int | None = None,
    ) -> None:
        """Take the properties of the resource adapter of IBM MQ; docs/LISTENERS.md lists them.

        Defaults are maxPoolDepth 10, nonASFTimeout 0 (ASF), poolTimeout 300000,
        reconnectionRetryCount 5 and reconnectionRetryInterval 300000. Raises ValueError for an
        unknown property or a wrong value, InvalidDestinationException for no destination.
        """
        #: Properties that :meth:`of_listener_port` could not translate: name -> reason.
        self.not_translated: Mapping[str, str] = {}
        super().__init__(
            manager,
            Settings(
                destination=destination_named(destination),
                on_message=on_message,
                conversations_per_connection=conversations_per_connection,
                total_tran_lifetime_timeout_s=total_tran_lifetime_timeout_s,
                max_retries=max_retries,
                reap_interval_ms=1,
                **_fields(properties or {}),
            ),
        )

    @classmethod
    def of_listener_port(
        cls,
        manager: QueueManager | ConnectionFactory,
        *,
        name: str = "",
        destination: str | Destination,
        on_message: OnMessage,
        max_sessions: int = 1,
        selector: str | None = None,
        conversations_per_connection: int = MAX_CONVERSATIONS,
        properties: Properties | None = None,
        total_tran_lifetime_timeout_s: int = TOTAL_TRAN_LIFETIME_TIMEOUT_S,
        max_retries: int | None = None,
    ) -> ActivationSpec:
        """Return what replaces a listener port; the arguments are those of ListenerPort.

        The property table of the port becomes one of the resource adapter: ``not_translated`` of
        the result names what that cannot say, and why. Raises as ListenerPort.
        """
        translation = translated(properties or {}, port_name=name)
        own: dict[str, str | int] = {"maxPoolDepth": max_sessions}
        if selector is not None:
            own[_SELECTOR] = selector
        made = cls(
            manager,
            destination=destination,
            on_message=on_message,
            properties=translation.properties | own,
            conversations_per_connection=conversations_per_connection,
            total_tran_lifetime_timeout_s=total_tran_lifetime_timeout_s,
            max_retries=max_retries,
        )
        made.not_translated = MappingProxyType(translation.not_translated)
        for given, why in translation.not_translated.items():
            _LOG.warning("%s is not translated: %s", given, why)
        return made


def _fields(properties: Properties) -> dict[str, Any]:
    found: dict[str, Any] = {
        "max_sessions": 10,
        "selector": None,
        "unused_timeout_ms": 300_000,
        "retry_interval_ms": 300_000,
    }
    for name, value in properties.items():
        if name == _SELECTOR:
            if not isinstance(value, str):
                raise TypeError(f"{name} {value!r} is no text")
            found["selector"] = value
        elif name in _NUMBERS:
            field, lowest = _NUMBERS[name]
            found[field] = number_of(name, value, lowest)
        elif name in _UNUSED:
            _LOG.warning("%s is accepted and means nothing here", name)
        else:
            known = ", ".join(sorted({_SELECTOR, *_NUMBERS, *_UNUSED}))
            raise ValueError(f"property {name!r} is not known; known are {known}")
    if found.get("receive_timeout_ms") and "poolTimeout" in properties:
        _LOG.warning("poolTimeout is accepted and ignored: nonASFTimeout is not 0")
    return found
