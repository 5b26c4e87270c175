"""A client over proton's engine and a blocking socket: each frame is sent when a test says so."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from itertools import count
from typing import Any

from proton import (
    Connection,
    Data,
    Delivery,
    Described,
    Endpoint,
    Link,
    Message,
    Session,
    Terminus,
    Transport,
    symbol,
    ulong,
)

SECONDS = 60.0
TRANSACTIONAL_STATE = 0x34


class Client:
    """One connection; methods return when the server has answered."""

    def __init__(
        self,
        port: int,
        *,
        user: str = "app",
        password: str = "secret",
        container: str = "test",
        hostname: str = "",
        desired: tuple[str, ...] = (),
        mechanism: str = "PLAIN",
        tls: ssl.SSLContext | None = None,
        wrap: Callable[[socket.socket], Any] | None = None,
        idle_timeout_seconds: float = 0,
        max_frame_bytes: int = 16_384,
    ) -> None:
        """Connect and open, with one session; ``wrap`` may put something around the socket."""
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        if wrap is not None:
            self.socket = wrap(self.socket)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
        #: Frames that wait for the next ones.
        self.corked = b""
        self.transport = Transport()
        self.transport.max_frame_size = max_frame_bytes
        self.transport.idle_timeout = idle_timeout_seconds
        self.connection = Connection()
        self.connection.container = container
        self.connection.hostname = hostname or "localhost"
        self.connection.user, self.connection.password = user, password
        self.connection.desired_capabilities = [symbol(one) for one in desired]
        sasl = self.transport.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs(mechanism)
        self.transport.bind(self.connection)
        self.session: Session = self.connection.session()
        self.connection.open()
        self.session.open()
        self._names, self._tags = count(1), count(1)
        try:
            self.until(lambda: self._is_answered(self.connection))
        except BaseException:
            self.cut()
            raise

    # Bytes.

    def push(self) -> None:
        """Send what proton has for the server."""
        self.cork()
        corked, self.corked = self.corked, b""
        if corked:
            self.socket.sendall(corked)

    def cork(self) -> None:
        """Keep the frames that proton has, so that they are sent in one piece with the next."""
        while (waiting := self.transport.pending()) > 0:
            data = self.transport.peek(waiting) or b""
            self.corked += data
            self.transport.pop(len(data))

    def until(self, is_so: Callable[[], object], seconds: float = SECONDS) -> None:
        """Exchange bytes until something is so; raises TimeoutError."""
        self.push()
        self.socket.settimeout(seconds)
        while not is_so():
            data = self.socket.recv(65_536)
            if not data:
                self.transport.close_tail()
                if is_so():
                    return
                raise ConnectionResetError(self.transport.condition)
            while data:
                part = data[: self.transport.capacity()]
                self.transport.push(part)
                data = data[len(part) :]
                self.push()

    def settle_down(self) -> None:
        """Return when the server has handled all that was sent: it answers a new session."""
        session = self.connection.session()
        session.open()
        self.until(lambda: self._is_answered(session))

    def cut(self) -> None:
        """End the bytes, as a client that dies."""
        self.socket.close()

    def close(self) -> None:
        """Close in good order."""
        self.connection.close()
        self.until(lambda: self.connection.state & Endpoint.REMOTE_CLOSED)
        self.cut()

    # Links.

    def sender(
        self,
        address: str | None,
        *,
        capabilities: tuple[str, ...] = (),
        dynamic: bool = False,
        is_settled: bool = False,
        session: Session | None = None,
    ) -> Link:
        """Attach a link on which this client sends, with credit."""
        link = (session or self.session).sender(f"sender-{next(self._names)}")
        if address is not None:
            link.target.address = address
        link.target.dynamic = dynamic
        _symbols(link.target.capabilities, capabilities)
        if is_settled:
            link.snd_settle_mode = Link.SND_SETTLED
        return self._attached(link, lambda: link.credit > 0)

    def receiver(
        self,
        address: str | None,
        *,
        credit: int = 0,
        name: str = "",
        capabilities: tuple[str, ...] = (),
        dynamic: bool = False,
        copies: bool = False,
        selector: str = "",
        no_local: bool = False,
        durable: bool = False,
        is_settled: bool = False,
    ) -> Link:
        """Attach a link on which this client receives, with so much credit."""
        link = self.session.receiver(name or f"receiver-{next(self._names)}")
        if address is not None:
            link.source.address = address
        link.source.dynamic = dynamic
        _symbols(link.source.capabilities, capabilities)
        if copies:
            link.source.distribution_mode = Terminus.DIST_MODE_COPY
        if durable:
            link.source.expiry_policy = Terminus.EXPIRE_NEVER
            link.source.durability = Terminus.DELIVERIES
        if is_settled:
            link.snd_settle_mode = Link.SND_SETTLED
        filters: dict[Any, Any] = {}
        if selector:
            code = symbol("apache.org:selector-filter:string")
            filters[code] = Described(code, selector)
        if no_local:
            code = symbol("apache.org:no-local-filter:list")
            filters[code] = Described(code, [])
        if filters:
            link.source.filter.put_object(filters)
        self._attached(link, lambda: True)
        if credit:
            link.flow(credit)
            self.push()
        return link

    def dynamic(self, direction: str, policy: int | None) -> Link:
        """Attach a link that makes a queue, with the code of a lifetime policy."""
        if direction == "sender":
            link = self.session.sender(f"dynamic-{next(self._names)}")
            terminus = link.target
        else:
            link = self.session.receiver(f"dynamic-{next(self._names)}")
            terminus = link.source
        terminus.dynamic = True
        if policy is not None:
            terminus.properties.put_object(
                {symbol("lifetime-policy"): Described(ulong(policy), [])}
            )
        return self._attached(link, lambda: True)

    def coordinator(self) -> Link:
        """Attach a coordinator of transactions."""
        link = self.session.sender(f"coordinator-{next(self._names)}")
        link.target.type = Terminus.COORDINATOR
        return self._attached(link, lambda: link.credit > 0)

    def error_of(self, link: Link) -> Any:
        """Return the condition with which the server closes a link."""
        self.until(lambda: link.state & Endpoint.REMOTE_CLOSED)
        return link.remote_condition

    def end(self, link: Link, *, detach: bool = False) -> None:
        """Close a link, or detach it."""
        if detach:
            link.detach()
            self.settle_down()
        else:
            link.close()
            self.until(lambda: link.state & Endpoint.REMOTE_CLOSED)

    # Messages.

    def send(self, link: Link, message: Message | bytes, transaction: bytes = b"") -> Delivery:
        """Send one message; return its delivery with the server's outcome."""
        delivery = self.begin(link, message, transaction)
        if link.snd_settle_mode == Link.SND_SETTLED:
            self.settle_down()
        else:
            self.until(lambda: delivery.settled)
        return delivery

    def begin(
        self, link: Link, message: Message | bytes, transaction: bytes = b"", *, push: bool = True
    ) -> Delivery:
        """Send one message, or let it wait for the next write; its outcome is not waited for."""
        delivery = link.delivery(str(next(self._tags)))
        raw = message if isinstance(message, bytes) else bytes(message.encode())
        link.stream(raw)
        if transaction:
            delivery.local.data = [transaction]
            delivery.update(TRANSACTIONAL_STATE)
        link.advance()
        if link.snd_settle_mode == Link.SND_SETTLED:
            delivery.settle()
        if push:
            self.push()
        return delivery

    def receive(self, link: Link, seconds: float = SECONDS) -> tuple[Any, Delivery]:
        """Return the next message, whole."""
        self.until(
            lambda: (d := link.current) is not None and d.readable and not d.partial, seconds
        )
        delivery = link.current
        assert delivery is not None
        raw = link.recv(delivery.pending)
        assert raw is not None
        link.advance()
        message = Message()
        message.decode(bytes(raw))
        return message, delivery

    def drained(self, link: Link, credit: int) -> int:
        """Drain a link; return how many messages came, which are left unread."""
        link.drain(credit)
        self.until(lambda: not link.draining())
        return int(link.queued)

    def settle(self, delivery: Delivery, state: int, **fields: object) -> None:
        """Send an outcome, settled, and wait until the server has it."""
        for name, value in fields.items():
            setattr(delivery.local, name, value)
        delivery.update(state)
        delivery.settle()
        self.settle_down()

    # Transactions.

    def declare(self, coordinator: Link) -> bytes:
        """Begin a transaction; return its id. Raises ConnectionResetError when it is refused."""
        delivery = self._ask(coordinator, Described(ulong(0x31), [None]))
        given = delivery.remote.data
        if not isinstance(given, list):
            raise ConnectionResetError(delivery.remote.condition)
        return bytes(given[0])

    def discharge(self, coordinator: Link, name: bytes, *, fail: bool) -> Delivery:
        """End a transaction; return the server's outcome."""
        return self._ask(coordinator, Described(ulong(0x32), [name, fail]))

    def take_within(self, delivery: Delivery, name: bytes) -> None:
        """Accept a message in a transaction."""
        accepted = Described(ulong(0x24), [])
        delivery.local.data = [name, accepted]
        delivery.update(TRANSACTIONAL_STATE)
        delivery.settle()
        self.settle_down()

    def _ask(self, coordinator: Link, body: Described) -> Delivery:
        delivery = self.begin(coordinator, Message(body=body))
        self.until(lambda: delivery.settled)
        return delivery

    def _attached(self, link: Link, is_ready: Callable[[], object]) -> Link:
        link.open()
        self.until(
            lambda: (
                link.state & Endpoint.REMOTE_CLOSED
                or (self._is_answered(link) and (is_ready() or link.remote_target.type == 0))
            )
        )
        return link

    @staticmethod
    def _is_answered(endpoint: Any) -> bool:
        return not endpoint.state & Endpoint.REMOTE_UNINIT


def _is_whole(delivery: Delivery | None) -> bool:
    return delivery is not None and delivery.readable and not delivery.partial


def _symbols(data: Data, names: tuple[str, ...]) -> None:
    if names:
        data.put_array(False, Data.SYMBOL)
        data.enter()
        for name in names:
            data.put_symbol(symbol(name))
        data.exit()
