"""The error by which a client of AMQP learns where its queue manager is: a redirect (2.8.16)."""

from __future__ import annotations

from typing import Final

from proton import symbol

from mayfly.servers.amqp.errors import FORCED, AmqpError
from mayfly.servers.managers import ManagerTable

_REDIRECT: Final = "amqp:connection:redirect"
_LISTENER: Final = "amqp"


def redirect_of(managers: ManagerTable, name: str) -> AmqpError | None:
    """Return the error for clients of a queue manager that is not open here; None for an open one.

    Without a known address of its owner the condition is amqp:connection:forced.
    """
    absence = managers.absence(name, _LISTENER)
    if absence is None:
        return None
    owner = managers.owner_of(name)
    place = None if owner is None else owner.address(_LISTENER)
    if place is None:
        return AmqpError(FORCED, absence.detail)
    info = {"hostname": place.host, "network-host": place.host, "port": place.port}
    return AmqpError(_REDIRECT, absence.detail, {symbol(key): info[key] for key in info})
