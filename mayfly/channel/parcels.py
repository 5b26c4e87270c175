"""Messages of a transmission queue as they travel: out of the MQXQH, with what is left to live."""

from __future__ import annotations

from mayfly.engine.face.transit import out_of_transit, seen_in_transit
from mayfly.lifetime.reports import Original
from mayfly.lifetime.transmission import shorter_life_ms
from mayfly.lifetime.window import remaining_ms
from mayfly.mqi.constants import MQPER_PERSISTENT
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.channels import Parcel


def parcel_of(row: StoredMessage, now_ms: int, *, is_fast_channel: bool) -> Parcel:
    """Return a message as it is sent now; ``life_ms`` 0 when its life has elapsed (E26).

    Of the lives outside and inside the MQXQH the shorter one counts. Raises as ``out_of_transit``.
    """
    embedded = out_of_transit(row, now_ms)
    is_fast = is_fast_channel and unpack_descriptor(row.descriptor).persistence != MQPER_PERSISTENT
    return Parcel(
        embedded.remote.queue,
        embedded.remote.manager,
        embedded.descriptor,
        embedded.msg_id,
        embedded.correl_id,
        shorter_life_ms(remaining_ms(row.expire_at_ms, now_ms), embedded.expiry_tenths),
        embedded.body,
        is_fast,
    )


def original_of(parcel: Parcel) -> Original:
    """Return a parcel as the original of a report."""
    return Original(parcel.descriptor, parcel.msg_id, parcel.correl_id, parcel.body, parcel.life_ms)


def as_it_stands(row: StoredMessage, now_ms: int, queue: str) -> Parcel:
    """Return a message that no channel can move, as it stands on its transmission queue.

    The Expiry in its MQXQH, if it has one, is what is left (E24).
    """
    row = seen_in_transit(row, now_ms)
    return Parcel(
        queue,
        "",
        unpack_descriptor(row.descriptor),
        row.msg_id,
        row.correl_id or bytes(24),
        remaining_ms(row.expire_at_ms, now_ms),
        row.body,
        False,
    )
