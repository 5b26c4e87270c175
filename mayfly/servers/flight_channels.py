"""The Flight verbs of channels: a sender in another process calls its receiver here."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pyarrow as pa

from mayfly.bulk.channels import packed_parcels
from mayfly.channel import LinkDown, Opening, Parcel
from mayfly.channel.channels import channels_of
from mayfly.channel.incoming import IncomingLinks
from mayfly.contracts import channels as wire
from mayfly.contracts.reasons import BAD_REQUEST
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.servers.flight_calls import (
    CallRefused,
    Request,
    ServedManager,
    fields_of,
    with_queues,
)

_ID_BYTES = 24

Answer = dict[str, Any]


def _answering(call: Callable[..., Any]) -> Callable[..., Answer]:
    """Give a verb the links of its queue manager, and what becomes of it the form that travels."""

    @wraps(call)
    def run(manager: ServedManager, *asked: Any) -> Answer:
        try:
            return {wire.ANSWER: call(channels_of(with_queues(manager).engine).incoming, *asked)}
        except LinkDown as error:
            return {wire.DOWN: str(error)}
        except MQError as error:
            return {wire.REFUSED: error.reason, wire.TEXT: error.detail}

    return run


@_answering
def ping(links: IncomingLinks, request: Request) -> None:
    """Return whether a channel receives; the call is also a sign of life of its sender."""
    links.ping(*fields_of(request, link=str, channel=str))


@_answering
def begin(links: IncomingLinks, request: Request) -> Answer:
    """Begin to receive; answers with the link and how the receiver stands."""
    protocol, said = fields_of(request, protocol=int, opening=list)
    if protocol != wire.VERSION:
        spoken = wire.VERSION
        raise CallRefused(BAD_REQUEST, f"protocol {protocol} is not spoken here: {spoken}")
    opening = _opening(said)
    name, standing = links.begin(opening)
    return {wire.LINK: name, **standing._asdict()}


@_answering
def send(
    links: IncomingLinks,
    request: Request,
    batches: Iterator[pa.RecordBatch],
    _stopping: threading.Event,
) -> int | None:
    """Put or keep the messages of a batch, all of which must have come."""
    begun_ms = links.now_ms()
    link, is_kept, parcel_count = fields_of(request, link=str, is_kept=bool, parcel_count=int)
    parcels = [_parcel(row) for batch in batches for row in packed_parcels(batch)]
    if len(parcels) != parcel_count:
        raise LinkDown(f"{len(parcels)} of {parcel_count} messages have come")
    if is_kept:
        # The receiver's clock counts how long they took to come in: a large batch on a thin line.
        return links.hand_over(link, parcels, links.now_ms() - begun_ms)
    return links.send(link, parcels)


@_answering
def go_on(links: IncomingLinks, request: Request) -> int | None:
    """Put what is kept, or could not be put."""
    link, transit_ms = fields_of(request, link=str, transit_ms=int)
    return links.go_on(link, max(transit_ms, 0))


@_answering
def confirm(links: IncomingLinks, request: Request) -> None:
    """Commit a batch."""
    link, luw, sequence = fields_of(request, link=str, luw=str, sequence=int)
    links.confirm(link, luw, sequence)


@_answering
def end(links: IncomingLinks, request: Request) -> None:
    """End a link."""
    links.end(*fields_of(request, link=str))


def _opening(said: list[Any]) -> Opening:
    match said:
        case [
            str(),
            str(),
            int(sequence),
            int(batch_size),
            int(),
            bool(),
            int(heartbeat_s),
            str(),
        ] if min(sequence, heartbeat_s) >= 0 and batch_size > 0:
            return Opening(*said)
    raise CallRefused(BAD_REQUEST, f"{said} is no opening")


def _parcel(packed: wire.PackedParcel) -> Parcel:
    """Return a message as it is put; raises CallRefused when it is none."""
    try:
        descriptor = unpack_descriptor(packed.descriptor)
    except (AssertionError, struct.error, IndexError, TypeError, ValueError) as error:
        raise CallRefused(BAD_REQUEST, f"a descriptor cannot be read: {error!r}") from error
    ids = packed.msg_id, packed.correl_id
    if any(len(one) != _ID_BYTES for one in ids) or (packed.life_ms or 0) < 0:
        raise CallRefused(BAD_REQUEST, f"ids {ids} with life {packed.life_ms} ms are no message's")
    return Parcel(**{**packed._asdict(), "descriptor": descriptor})
