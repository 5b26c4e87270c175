"""The answer to a client of AMQP at a place where the queue manager is not: where it is.

Any mechanism of SASL is let in, for nothing is done for the client but that its connection is
closed with the error ``amqp:connection:redirect`` (2.8.16 of AMQP 1.0).
"""

from __future__ import annotations

import asyncio
from typing import Final

from mayfly.servers.addresses import ListenAddress
from mayfly.servers.amqp.entrance import (
    ANONYMOUS,
    PLAIN,
    SASL_HEADER,
    read_sasl_init,
    sasl_mechanisms,
    sasl_outcome,
)
from mayfly.servers.amqp.errors import FORCED, FRAMING_ERROR, AmqpError
from mayfly.servers.amqp.frames import close_with, refusing_open

_REDIRECT: Final = "amqp:connection:redirect"
_HEADER_BYTES: Final = 8
#: A client that nobody knows may not fill the memory.
_FRAME_BYTES_MAX: Final = 65_536


async def redirect(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    queue_manager: str,
    why: str,
    place: ListenAddress | None,
) -> None:
    """Refuse a client, and tell it where else to connect; ``why`` is a text for it.

    Without a known ``place`` the error is amqp:connection:forced. Raises OSError, and
    asyncio.IncompleteReadError or AmqpError for a client that speaks something else.
    """
    header = await reader.readexactly(_HEADER_BYTES)
    if header == SASL_HEADER:
        writer.write(sasl_mechanisms([PLAIN, ANONYMOUS]))
        frame = await _frame(reader)
        read_sasl_init(frame)
        writer.write(sasl_outcome(is_admitted=True))
        await reader.readexactly(_HEADER_BYTES)
    # The open of the client, which some send before they read that of the server.
    writer.write(refusing_open(queue_manager))
    await _frame(reader)
    info = None
    if place is not None:
        info = {"hostname": place.host, "network-host": place.host, "port": place.port}
    writer.write(close_with(AmqpError(FORCED if place is None else _REDIRECT, why, info)))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Read one frame of a client, whole; raises AmqpError for one that is too large."""
    head = await reader.readexactly(_HEADER_BYTES)
    size = int.from_bytes(head[:4], "big")
    if size > _FRAME_BYTES_MAX:
        raise AmqpError(FRAMING_ERROR, f"a frame has {size} bytes, at most {_FRAME_BYTES_MAX}")
    return head + await reader.readexactly(max(size - _HEADER_BYTES, 0))
