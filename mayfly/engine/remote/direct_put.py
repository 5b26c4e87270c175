"""The checks of a program's put on a transmission queue itself (K3-K6).

Messages that the queue manager puts there itself are whole already.
"""

from __future__ import annotations

from mayfly.engine.remote.wrapping import TRANSMISSION_FORMAT
from mayfly.engine.settings import Settings
from mayfly.lifetime.times import tenths_of_ms
from mayfly.lifetime.transmission import EXPIRY_END, embedded_expiry
from mayfly.lifetime.window import life_ms_of_expiry
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQEI_UNLIMITED
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.mqi.layout import is_big_endian
from mayfly.mqi.structures import XQH


def check_direct_put(
    settings: Settings, descriptor: Descriptor, body: bytes, life_ms: int | None
) -> None:
    """Check format, header and both lifetimes as the program gave them, before any cap.

    Raises MQRC_XQH_ERROR when the format is not MQXMIT, the data do not begin with an MQXQH (K3),
    or are too short for the embedded Expiry (K5); MQRC_EXPIRY_ERROR when that is not valid (K4) or
    in conflict with the outer one (K6). The settings ``xqh.*`` say which of it is asked for.
    """
    big_endian = is_big_endian(descriptor.encoding)
    if settings.enforces_xqh:
        if descriptor.format != TRANSMISSION_FORMAT:
            said = f"Format {descriptor.format!r} on a transmission queue is not MQXMIT"
            raise mq_error(rc.MQRC_XQH_ERROR, said)
        XQH.unpack(body, big_endian=big_endian)
    if descriptor.format != TRANSMISSION_FORMAT:
        return
    if len(body) < EXPIRY_END:
        if settings.checks_embedded:
            said = f"{len(body)} bytes are too short for an embedded Expiry"
            raise mq_error(rc.MQRC_XQH_ERROR, said)
        return
    embedded = embedded_expiry(body, big_endian=big_endian)
    if settings.checks_embedded:
        life_ms_of_expiry(
            embedded,
            enforce_maximum=settings.is_maximum_enforced,
            refuse_zero=settings.is_zero_refused,
        )
    _check_conflict(settings.expiry_conflict, embedded, life_ms)


def _check_conflict(rule: str, embedded: int, life_ms: int | None) -> None:
    outer = MQEI_UNLIMITED if life_ms is None else tenths_of_ms(life_ms)
    one_is_unlimited = (embedded == MQEI_UNLIMITED) != (outer == MQEI_UNLIMITED)
    if (rule == "consistent" and one_is_unlimited) or (rule == "reject" and embedded != outer):
        said = f"Expiry {outer}, but {embedded} in the MQXQH (xqh.expiry_conflict={rule})"
        raise mq_error(rc.MQRC_EXPIRY_ERROR, said)
