"""Notification of the service manager that has started a server, by the protocol of systemd.

The protocol is one datagram to the socket that NOTIFY_SOCKET names (sd_notify(3)).
"""

from __future__ import annotations

import os
import socket


def notify(*states: str) -> None:
    """Send states such as ``READY=1``; without NOTIFY_SOCKET nothing is sent.

    A service manager that does not listen any more is no error: there is nobody to tell.
    """
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # An address that begins with @ is in the abstract name space.
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
            told.sendto("\n".join(states).encode(), address)
    except OSError:
        return
