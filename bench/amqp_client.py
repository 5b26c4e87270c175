"""A client of AMQP 1.0 for measuring: proton's engine and a blocking socket, the same for all.

Transfers, outcomes and credit are calls of proton's C functions, so that the client takes less time
than the server that it measures.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from itertools import count

import cproton as p
from proton import (
    Collector,
    Connection,
    Delivery,
    Endpoint,
    Link,
    Message,
    Terminus,
    Transport,
    symbol,
)

_SECONDS = 120.0
_READ_BYTES = 256 * 1024
#: Messages under way, where the server gives credit for so many.
WINDOW = 500


class AmqpClient:
    """One connection with one session; methods return when the server has answered."""

    def __init__(self, port: int, user: str, password: str, *, is_tls: bool = False) -> None:
        """Connect with SASL PLAIN; with TLS the certificate is not looked at."""
        self._socket = socket.create_connection(("127.0.0.1", port), _SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if is_tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._socket = context.wrap_socket(self._socket)
        self._transport, self._connection = Transport(), Connection()
        self._collector = Collector()
        self._connection.collect(self._collector)
        self._connection.container = f"bench-{id(self)}"
        self._connection.hostname = "bench"
        self._connection.user, self._connection.password = user, password
        sasl = self._transport.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("PLAIN")
        self._transport.bind(self._connection)
        self._session = self._connection.session()
        self._connection.open()
        self._session.open()
        self._names, self._tags = count(1), count(1)
        self._until(lambda: not self._session.state & Endpoint.REMOTE_UNINIT)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()
        self._until(lambda: self._connection.state & Endpoint.REMOTE_CLOSED)
        self._socket.close()

    def sender(self, address: str) -> Link:
        """Attach a link to send on."""
        link = self._session.sender(f"s{next(self._names)}")
        link.target.address = address
        _as_durable_queue(link.target)
        link.open()
        self._until(lambda: link.credit > 0 or link.state & Endpoint.REMOTE_CLOSED)
        return link

    def receiver(self, address: str) -> Link:
        """Attach a link to receive on, without credit yet."""
        link = self._session.receiver(f"r{next(self._names)}")
        link.source.address = address
        _as_durable_queue(link.source)
        link.open()
        self._until(lambda: not link.state & Endpoint.REMOTE_UNINIT)
        return link

    def put(self, link: Link, messages: Sequence[bytes]) -> None:
        """Send messages, as many at a time as there is credit for, at most WINDOW unsettled."""
        impl, waiting, sent, done = link._impl, len(messages), 0, 0
        while done < waiting:
            while sent < waiting and sent - done < WINDOW and p.pn_link_credit(impl) > 0:
                p.pn_delivery(impl, b"%d" % next(self._tags))
                p.pn_link_send(impl, messages[sent])
                p.pn_link_advance(impl)
                sent += 1
            self._exchange()
            for delivery in self._deliveries():
                if p.pn_delivery_settled(delivery) or p.pn_delivery_updated(delivery):
                    assert p.pn_delivery_remote_state(delivery) == Delivery.ACCEPTED
                    p.pn_delivery_settle(delivery)
                    done += 1

    def take(self, link: Link, number: int, on_message: Callable[[bytes], object]) -> None:
        """Receive so many messages and accept each; ``on_message`` is called with each as it comes.

        Credit is kept between WINDOW and its half until the last: RabbitMQ sends more than its
        client has given credit for now and then, so that exact credit would leave it waiting. The
        link is closed at the end, and what has come beside goes back.
        """
        impl, left = link._impl, number
        p.pn_link_flow(impl, WINDOW)
        while left:
            self._exchange()
            for delivery in self._deliveries():
                if not left:
                    break
                if p.pn_delivery_readable(delivery) and not p.pn_delivery_partial(delivery):
                    _, raw = p.pn_link_recv(impl, p.pn_delivery_pending(delivery))
                    p.pn_link_advance(impl)
                    on_message(bytes(raw))
                    p.pn_delivery_update(delivery, p.PN_ACCEPTED)
                    p.pn_delivery_settle(delivery)
                    left -= 1
            if p.pn_link_credit(impl) <= WINDOW // 2:
                p.pn_link_flow(impl, WINDOW - p.pn_link_credit(impl))
        link.close()
        self._push()

    def take_one(self, link: Link) -> bytes:
        """Wait for one message and accept it; a server does not answer that."""
        impl = link._impl
        p.pn_link_flow(impl, 1)
        raw: bytes | None = None
        while raw is None:
            self._exchange()
            for delivery in self._deliveries():
                if p.pn_delivery_readable(delivery) and not p.pn_delivery_partial(delivery):
                    _, data = p.pn_link_recv(impl, p.pn_delivery_pending(delivery))
                    p.pn_link_advance(impl)
                    p.pn_delivery_update(delivery, p.PN_ACCEPTED)
                    p.pn_delivery_settle(delivery)
                    raw = bytes(data)
        self._push()
        return raw

    def _deliveries(self) -> list[object]:
        collector = self._collector._impl
        found = []
        while event := p.pn_collector_peek(collector):
            if p.pn_event_type(event) == p.PN_DELIVERY:
                found.append(p.pn_event_delivery(event))
            p.pn_collector_pop(collector)
        return found

    def _until(self, is_so: Callable[[], object]) -> None:
        self._push()
        while not is_so():
            self._exchange()
            self._deliveries()

    def _push(self) -> None:
        transport = self._transport
        while (waiting := transport.pending()) > 0:
            data = transport.peek(waiting) or b""
            self._socket.sendall(data)
            transport.pop(len(data))

    def _exchange(self) -> None:
        self._push()
        transport = self._transport
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError(f"the server has gone: {transport.condition}")
        # Behind the server's close there is no capacity: nothing that comes there counts.
        while data and (capacity := transport.capacity()) >= 0:
            part = data[:capacity]
            transport.push(part)
            data = data[len(part) :]
        self._push()


class AmqpQueue:
    """One connection to a durable queue; the address has the port, the user and the password."""

    def __init__(self, address: str, queue: str) -> None:
        """Connect, and attach a link to send on; what receives attaches another."""
        port, user, password = address.split()
        self._client, self._name = AmqpClient(int(port), user, password), queue
        self._sender = self._client.sender(queue)
        self._receiver: Link | None = None

    def put(self, body: bytes) -> None:
        """Put a message; it is durable on return."""
        self._client.put(self._sender, [encoded(body)])

    def get(self) -> bytes:
        """Wait for a message and accept it."""
        if self._receiver is None:
            self._receiver = self._client.receiver(self._name)
        message = Message()
        message.decode(self._client.take_one(self._receiver))
        return bytes(message.body)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def _as_durable_queue(terminus: Terminus) -> None:
    """Say what RabbitMQ and Artemis need to make one."""
    terminus.durability = Terminus.CONFIGURATION
    terminus.capabilities.put_object(symbol("queue"))


def encoded(body: bytes, **fields: object) -> bytes:
    """Return a durable message as bytes; the body comes last."""
    return bytes(Message(body=body, durable=True, inferred=True, **fields).encode())
