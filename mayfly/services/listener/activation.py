"""Activation specifications, the successor of listener ports: the same under other names (L13)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mayfly.jms.destinations import Destination
from mayfly.jms.factory import ConnectionFactory
from mayfly.lifetime.transactions import TOTAL_TRAN_LIFETIME_TIMEOUT_S
from mayfly.queue_manager import QueueManager
from mayfly.services.listener.endpoint import Endpoint
from mayfly.services.listener.migration import translated
from mayfly.services.listener.settings import (
    MOST_CONVERSATIONS,
    OnMessage,
    Properties,
    Settings,
    destination_named,
    number_of,
)

_LOG = logging.getLogger("mayfly.listener")
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
        conversations_per_connection: int = MOST_CONVERSATIONS,
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
        conversations_per_connection: int = MOST_CONVERSATIONS,
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
