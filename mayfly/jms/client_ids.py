"""Who is connected under which client id: at any time one connection of a queue manager."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary, WeakValueDictionary

from mayfly.engine import Manager
from mayfly.jms.errors import InvalidClientIDException
from mayfly.jms.roles import OwningConnection

_lock = threading.Lock()
#: A connection that was dropped without being closed holds its client id no longer.
_in_use: WeakKeyDictionary[Manager, WeakValueDictionary[str, OwningConnection]] = (
    WeakKeyDictionary()
)


def checked(client_id: object) -> str:
    """Return a client id; raises InvalidClientIDException for what is no text, empty or blank."""
    if not isinstance(client_id, str) or not client_id.strip():
        raise InvalidClientIDException(f"client id {client_id!r} is empty or no text")
    return client_id


def claim(connection: OwningConnection, client_id: str) -> None:
    """Take a client id for a connection; raises InvalidClientIDException when another has it."""
    manager = connection.manager
    with _lock:
        in_use = _in_use.setdefault(manager, WeakValueDictionary())
        if in_use.get(client_id) is not None:
            raise InvalidClientIDException(
                f"client id {client_id!r} is in use by another connection to {manager.name}"
            )
        in_use[client_id] = connection


def release(connection: OwningConnection, client_id: str) -> None:
    """Give a client id back."""
    with _lock:
        in_use = _in_use.get(connection.manager)
        if in_use is not None and in_use.get(client_id) is connection:
            del in_use[client_id]
