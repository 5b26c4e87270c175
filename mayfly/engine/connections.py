"""The connections of a queue manager as an operator sees and stops them."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.engine import Engine
from mayfly.engine.open_handles import HandleView
from mayfly.engine.session import Session
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


class ConnectionView(NamedTuple):
    """One open connection as an operator sees it.

    ``connected_ms`` and ``unit_of_work_ms`` are the times of its connect and of the begin of its
    unit of work, in ms since 1970; the second is None without a unit of work.
    """

    number: int
    user: str
    application: str
    connected_ms: int
    unit_of_work_ms: int | None
    handles: tuple[HandleView, ...]
    #: The ids (SUBID) of the subscriptions that it has open.
    subscriptions: frozenset[str]


def view_connections(manager: Engine) -> list[ConnectionView]:
    """Return the open connections, oldest first.

    Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
    """
    with manager.engine_lock:
        manager.check_running()
        sessions = sorted(_open_sessions(manager), key=lambda session: session.number)
        return [
            ConnectionView(
                session.number,
                session.context.user_identifier,
                session.context.put_appl_name,
                session.connected_ms,
                session.unit_of_work.began_ms,
                tuple(session._opened.views()),
                session._opened.held_subscriptions(),
            )
            for session in sessions
        ]


def is_disk_full(manager: Engine) -> bool:
    """Return True while puts are refused because the disk is full.

    Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
    """
    manager.check_running()
    return manager.store.is_full


def stop_connection(manager: Engine, number: int) -> bool:
    """Stop a connection and back out its unit of work; return False if the number is unknown.

    Its waiting gets and later verbs fail with MQRC_CONNECTION_BROKEN.
    """
    manager.check_running()
    with manager.engine_lock:
        found = next((each for each in _open_sessions(manager) if each.number == number), None)
        if found is not None:
            text = f"connection {number} was stopped by an operator"
            found.end_error = mq_error(rc.MQRC_CONNECTION_BROKEN, text)
    if found is None:
        return False
    found.close(commit=False)
    return True


def _open_sessions(manager: Engine) -> list[Session]:
    """Return the sessions that are open, in no order; needs the engine lock."""
    assert manager.engine_lock.is_held()
    return [session for session in list(manager.sessions) if session.is_open]
