"""Listener ports, the message listener service of several ports, and activation specifications."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mayfly.jms.connections import ConnectionFactory
from mayfly.jms.destinations import Destination
from mayfly.jms.errors import IllegalStateException
from mayfly.lifetime.moments import TOTAL_TRAN_LIFETIME_TIMEOUT_S
from mayfly.queue_manager import QueueManager
from mayfly.services.listener.runs import ASF, NonASF, PortRun, ThreadPool
from mayfly.services.listener.sessions import Counters, Statistics
from mayfly.services.listener.settings import (
    MAX_CONVERSATIONS,
    OnMessage,
    PortSettings,
    Properties,
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


class MessageEndpoint:
    """Base class of listener ports and activation specifications.

    Any thread may call its methods.
    """

    def __init__(
        self,
        manager: QueueManager | ConnectionFactory,
        settings: PortSettings,
        pool: ThreadPool | None = None,
    ) -> None:
        """Store the settings; timeouts that are not safe (see ``check_timeouts``) are logged.

        ``pool`` supplies the threads of the sessions; None means a new pool without a limit.
        """
        self._factory = factory_of(manager)
        self._settings = settings
        runtime = self._factory.runtime
        self._pool = ThreadPool(runtime) if pool is None else pool
        self._counters = Counters(runtime.lock("tally"))
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
        """Whether it was started and has not stopped since, by a call or after failures."""
        return self._run is not None and not self._run.has_stopped_taking

    def start(self) -> None:
        """Open the sessions and start the threads; does nothing while it is running.

        Raises JMSException with the reason why the destination or selector cannot be opened; the
        port is stopped then, and nothing is left open. Raises IllegalStateException inside an
        on_message that has stopped the port.
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
            run = self._run = mode(self._factory, self._settings, self._counters, self._pool)
            try:
                run.start()
            except BaseException:
                self._run = None
                raise

    def stop(self) -> None:
        """Take no more messages, and wait until those already taken are finished.

        A second call does nothing. Inside on_message it does not wait: the port ends after that
        call has returned.
        """
        run = self._run
        if run is not None:
            run.request_stop()
            if not run.is_own_thread:
                run.join()

    def statistics(self) -> Statistics:
        """Return the present state and the counts since the endpoint was created."""
        return self._counters.statistics(self._state)

    def _state(self) -> tuple[int, int, int]:
        """Return the numbers of threads, of connections, and of threads that wait for a message.

        All are 0 before the first start.
        """
        run = self._run
        if run is None:
            return 0, 0, 0
        with self._pool.changed:
            return run.thread_count, run.connection_count, run.receiving_count


class ListenerPort(MessageEndpoint):
    """Receives the messages of a destination and calls on_message for each, in a transaction.

    In non-ASF mode (NON.ASF.RECEIVE.TIMEOUT is not 0) each session has a thread, which repeats:
    begin a transaction, receive, call on_message, commit. In ASF mode one dispatcher finds
    messages, and a session has a thread only while it has work.
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
        """Take a queue or topic, by its name or URI, and the function to call with each message.

        ``manager`` is a queue manager of this process, or a connection factory for another one.
        ``properties`` are the custom properties of the message listener service
        (docs/LISTENERS.md). A property that ends with a port name counts only for the port of that
        ``name``, in any case. ``conversations_per_connection`` is 1 to 10; a transaction lifetime
        of 0 is no limit. ``max_retries`` is how often one message may fail and be delivered again
        before the port stops, None for no limit. ``pool`` supplies the threads of its sessions,
        None for no limit. Raises ValueError or TypeError for an unknown property or a wrong value,
        which it names, and InvalidDestinationException.
        """
        given = properties or {}
        if not name and ports_named(given):
            _LOG.warning(
                "properties for the ports %s reach no port: this one has no name",
                ", ".join(ports_named(given)),
            )
        super().__init__(
            manager,
            PortSettings(
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
    """Listener ports by name, with common custom properties and one thread pool.

    Stop it at the end, or use it as a context manager, which starts and stops it.
    """

    def __init__(
        self,
        manager: QueueManager | ConnectionFactory,
        *,
        properties: Properties | None = None,
        max_threads: int = MAX_THREADS,
        total_tran_lifetime_timeout_s: int = TOTAL_TRAN_LIFETIME_TIMEOUT_S,
    ) -> None:
        """Set the properties that all ports share; docs/LISTENERS.md lists the properties.

        A property that ends with a port name counts for that port alone. The sessions of all ports
        together have at most ``max_threads`` threads. Raises ValueError or TypeError for an unknown
        property or a wrong value, which it names.
        """
        self._factory = factory_of(manager)
        self._properties = dict(properties or {})
        of_listener_port(self._properties)
        self._pool = ThreadPool(self._factory.runtime, check_number("max_threads", max_threads, 1))
        self._total_tran_lifetime_timeout_s = total_tran_lifetime_timeout_s
        self._ports: dict[str, ListenerPort] = {}

    @property
    def ports(self) -> Mapping[str, ListenerPort]:
        """The ports by name, in the order in which they were added; read-only."""
        return MappingProxyType(self._ports)

    @property
    def threads_in_use(self) -> int:
        """The number of sessions of all ports that have a thread now."""
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
        """Create a port and return it, not started; the arguments are those of ListenerPort.

        Raises ValueError for a blank name or the name of another port, in any case, and the errors
        of ListenerPort.
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

        Raises the JMSException of the first port that cannot be started, after stopping those that
        this call has started. Its reason is MQRC_RESOURCE_PROBLEM if the pool has too few threads
        for the sessions of a non-ASF port.
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
        """Stop all ports, one after the other.

        Returns when messages that were already taken are finished.
        """
        for port in self._ports.values():
            port.stop()

    def __enter__(self) -> MessageListenerService:
        """Start all ports and return the service.

        Raises the JMSException of the first port that cannot be started; those started before are
        stopped.
        """
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all ports, and wait for the messages in work."""
        self.stop()


_SELECTOR = "messageSelector"
#: The field of PortSettings and its lowest value; all times are milliseconds.
NUMBERS = {
    "maxPoolDepth": ("max_sessions", 1),
    "nonASFTimeout": ("receive_timeout_ms", 0),
    "poolTimeout": ("unused_timeout_ms", 1),
    "reconnectionRetryCount": ("max_recovery_retries", 0),
    "reconnectionRetryInterval": ("retry_interval_ms", 1),
}
UNUSED = frozenset(
    {"destinationType", "maxMessages", "nonASFRollbackEnabled", "startTimeout", "useJNDI"}
)


class ActivationSpec(MessageEndpoint):
    """Receives messages and calls on_message for each, as :class:`ListenerPort` does.

    Its properties are those of an activation specification.
    """

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

        Defaults are maxPoolDepth 10, nonASFTimeout 0 (ASF), poolTimeout 300000 ms,
        reconnectionRetryCount 5 and reconnectionRetryInterval 300000 ms. Raises ValueError or
        TypeError for an unknown property or a wrong value, and InvalidDestinationException.
        """
        #: Properties that :meth:`of_listener_port` could not translate: name -> reason.
        self.not_translated: Mapping[str, str] = {}
        super().__init__(
            manager,
            PortSettings(
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
        """Return an equivalent of a listener port; the arguments are those of ListenerPort.

        The properties of the port become those of an activation specification. ``not_translated``
        of the result maps the others to the reason why. Raises ValueError or TypeError for an
        unknown property or a wrong value, and InvalidDestinationException.
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
    """Return fields of PortSettings from the properties of an activation specification.

    Raises ValueError or TypeError for an unknown property or a wrong value. A property without
    effect is logged.
    """
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
        elif name in NUMBERS:
            field, lowest = NUMBERS[name]
            found[field] = number_of(name, value, lowest)
        elif name in UNUSED:
            _LOG.warning("%s is accepted and means nothing here", name)
        else:
            known = ", ".join(sorted({_SELECTOR, *NUMBERS, *UNUSED}))
            raise ValueError(f"property {name!r} is not known; known are {known}")
    if found.get("receive_timeout_ms") and "poolTimeout" in properties:
        _LOG.warning("poolTimeout is accepted and ignored: nonASFTimeout is not 0")
    return found
