"""A client that writes each frame itself: proton would not send what a test wants to be wrong."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, uint, ulong

from mayfly.servers.amqp.entrance import SASL_HEADER

OPEN, BEGIN, ATTACH, FLOW, TRANSFER = 0x10, 0x11, 0x12, 0x13, 0x14
DISPOSITION, DETACH, END, CLOSE = 0x15, 0x16, 0x17, 0x18
ACCEPTED, REJECTED, SOURCE, TARGET, COORDINATOR = 0x24, 0x25, 0x28, 0x29, 0x30
_AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
_SECONDS = 60.0


class Frame(NamedTuple):
    """A frame of the server, None for fields that it leaves out."""

    channel: int
    code: int
    fields: list[Any]
    payload: bytes

    def field(self, number: int) -> Any:
        return self.fields[number] if number < len(self.fields) else None

    @property
    def condition(self) -> str:
        """The condition of an end, a close, or a detach."""
        error = self.field(2 if self.code == DETACH else 0)
        return "" if error is None else str(error.value[0])

    @property
    def outcome(self) -> Described:
        """The state of a disposition."""
        state = self.field(4)
        assert isinstance(state, Described)
        return state


def _kept(value: Any) -> Any:
    """Return a value with bytes of its own: those of proton are gone with the next frame."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, Described):
        return Described(value.descriptor, _kept(value.value))
    if isinstance(value, list):
        return [_kept(each) for each in value]
    if isinstance(value, dict):
        return {_kept(key): _kept(each) for key, each in value.items()}
    return value


def performative(code: int, fields: Sequence[object]) -> bytes:
    data = Data()
    data.put_object(Described(ulong(code), list(fields)))
    return bytes(data.encode())


class Frames:
    """One connection, from SASL on; ``read`` returns the server's frames one by one."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _SECONDS)
        self._bytes = b""
        self._is_open = False
        init = performative(0x41, [symbol("PLAIN"), b"\0app\0secret", None])
        self._socket.sendall(SASL_HEADER + _framed(init, 0, kind=1))
        assert self._exactly(8) == SASL_HEADER
        # Mechanisms, and the outcome.
        self.read()
        assert self.read().field(0) == 0
        self._socket.sendall(_AMQP_HEADER)
        assert self._exactly(8) == _AMQP_HEADER

    def send(self, code: int, *fields: object, channel: int = 0, payload: bytes = b"") -> None:
        self.write(frame(code, *fields, channel=channel, payload=payload))

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, *wanted: int) -> Frame:
        """Return the next frame, of these codes where they are given; others are passed over."""
        while True:
            size = int.from_bytes(self._exactly(4), "big")
            rest = self._exactly(size - 4)
            if size == 8:
                continue
            data = Data()
            length = data.decode(rest[4:])
            data.rewind()
            data.next()
            found = data.get_py_described()
            fields = Frame(
                int.from_bytes(rest[2:4], "big"),
                int(found.descriptor),
                list(_kept(found.value)),
                rest[4 + length :],
            )
            if not wanted or fields.code in wanted:
                return fields

    def begin(self, channel: int = 0) -> None:
        """Begin a session; open the connection before the first."""
        if not self._is_open:
            self._is_open = True
            self.send(OPEN, "raw", "localhost")
            self.read(OPEN)
        self.send(BEGIN, None, uint(0), uint(1_000), uint(1_000), channel=channel)
        self.read(BEGIN)

    def attach(
        self,
        handle: int,
        *,
        sends: bool = True,
        address: str = "Q1",
        second: bool = False,
        outcomes: Sequence[str] = (),
        default_outcome: object = None,
        target: object = None,
    ) -> Frame:
        """Attach a link by its handle; return the attach of the server."""
        source: list[Any] = [None] * 11
        if not sends:
            source[0] = address
        source[8] = default_outcome
        if outcomes:
            source[9] = Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, outcomes))
        goal = target or Described(ulong(TARGET), [address if sends else None])
        self.send(
            ATTACH,
            f"link-{handle}",
            uint(handle),
            not sends,
            None,
            ubyte(1) if second else None,
            Described(ulong(SOURCE), source),
            goal,
            None,
            None,
            uint(0) if sends else None,
        )
        return self.read(ATTACH)

    def link_flow(self, handle: int) -> tuple[int, int]:
        """Return delivery-count and link-credit of the next flow of a link of the server."""
        while (flow := self.read(FLOW)).field(4) != handle:
            pass
        assert not flow.field(9)
        return int(flow.field(5)), int(flow.field(6))

    def transfer(
        self,
        handle: int,
        number: int,
        payload: bytes,
        *,
        settled: bool | None = None,
        more: bool | None = None,
        state: object = None,
    ) -> None:
        """Send a transfer with a delivery-id, whose tag is ``tag`` and that number."""
        self.send(
            TRANSFER,
            uint(handle),
            uint(number),
            b"tag%d" % number,
            None,
            settled,
            more,
            None,
            state,
            payload=payload,
        )

    def is_over(self) -> bool:
        """Return True if the server has closed the socket."""
        try:
            return not self._socket.recv(1)
        except ConnectionResetError:
            return True

    def cut(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        while len(self._bytes) < count:
            read = self._socket.recv(65_536)
            assert read, "the server has closed the socket"
            self._bytes += read
        found, self._bytes = self._bytes[:count], self._bytes[count:]
        return found


def frame(code: int, *fields: object, channel: int = 0, payload: bytes = b"") -> bytes:
    """Return one frame of AMQP."""
    return _framed(performative(code, fields) + payload, channel)


def _framed(body: bytes, channel: int, kind: int = 0) -> bytes:
    head = (len(body) + 8).to_bytes(4, "big") + bytes([2, kind])
    return head + channel.to_bytes(2, "big") + body
