"""The memory of idle TLS connections."""

from __future__ import annotations

from typing import Final

#: asyncio gives each TLS connection a buffer of 256 KiB to read into; a record has 16.
_BUFFER_BYTES: Final = 16_384


def lower_tls_buffers() -> None:
    """Let TLS connections of this process have buffers of one record, from now on."""
    from asyncio import sslproto

    sslproto.SSLProtocol.max_size = _BUFFER_BYTES
