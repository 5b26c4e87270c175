"""AMQP frames are sent at once: none waits until the client has acknowledged the one before."""

from __future__ import annotations

import socket

from mayfly.servers.amqp.connection import AmqpServer


def test_frames_are_sent_at_once(server: AmqpServer, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)):
        while not (peers := list(server.open_connections)) or (wire := peers[0].wire) is None:
            pass
        accepted = wire.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
