"""Proxy subscriptions of neighbour queue managers, and the envelope of publications for them.

A neighbour creates proxy subscriptions here to get publications for its subscribers. A publication
is sent once to each neighbour, even if several of its proxies match. The neighbour makes the copies
for its subscribers on arrival (D25). The envelope is an MQRFH2 header before the data. It names the
topic, the queue managers visited, and whether the publication is retained.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.attributes import PROXY, SUB, SubscriptionDefinition
from mayfly.engine.descriptors import Prepared
from mayfly.engine.pubsub.topics import (
    PASSED_ON,
    Subscription,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQENC_NORMAL, MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
from mayfly.mqi.descriptor import Descriptor, pack_descriptor
from mayfly.mqi.errors import mq_error
from mayfly.mqi.properties import (
    FORMAT,
    UTF_8,
    escape,
    pack_folder,
    pack_header,
    read_header,
)

PUBLICATIONS = "SYSTEM.INTER.QMGR.PUBS"
_NAME_START = "SYSTEM.PROXY"
_FOLDER, _TOPIC, _VISITED = "mqps", "Top", "Via"
_RETAINED, _ONLY_FOR = "Ret", "For"
_FORMAT, _ENCODING, _CCSID, _REPORT = "Fmt", "Enc", "Ccs", "Rep"


class Journey(NamedTuple):
    """The queue managers that a publication has visited, and which subscribers may get it.

    A retained publication can be sent for new subscribers alone. Then ``only_for`` is the topic
    string, with its wildcards, that their subscriptions must have. An empty ``only_for`` allows
    every subscriber.
    """

    visited: tuple[str, ...] = ()
    is_retained: bool = False
    only_for: str = ""


#: That of a publication that begins at this queue manager.
HERE = Journey()


class Arrived(NamedTuple):
    """A publication from a neighbour, taken out of its envelope."""

    topic: str
    journey: Journey
    descriptor: Descriptor
    body: bytes


def proxy_name(neighbour: str, topic: str) -> str:
    """Return the name of a neighbour's proxy subscription: ``SYSTEM.PROXY/QM2/sport/#``."""
    return f"{_NAME_START}/{neighbour}/{topic}"


def publisher_name(neighbour: str) -> str:
    """Return the connection name for a neighbour's publications: ``SYSTEM.PROXY/QM2``.

    Its proxy subscriptions have the same owner and ignore that owner, so the neighbour gets none of
    its publications back.
    """
    return f"{_NAME_START}/{neighbour}"


def proxy_definition(neighbour: str, topic: str) -> SubscriptionDefinition:
    """Return the definition of a neighbour's proxy subscription for a topic string.

    Its destination is the queue SYSTEM.INTER.QMGR.PUBS on the neighbour.
    """
    return SubscriptionDefinition(
        SUB,
        proxy_name(neighbour, topic),
        made_by=PROXY,
        topicstr=topic,
        dest=PUBLICATIONS,
        destqmgr=neighbour,
        destcorl=PASSED_ON,
        ignores_own=1,
        owner=publisher_name(neighbour),
    )


def is_proxy(subscription: Subscription) -> bool:
    """Return True if a subscription was made for a neighbour's subscribers."""
    return subscription.definition.made_by == PROXY


def neighbour_of(subscription: Subscription) -> str:
    """Return the queue manager that a proxy subscription is for (its DESTQMGR).

    For other subscriptions the result is their DESTQMGR, mostly empty.
    """
    return subscription.definition.destqmgr


def enveloped(
    prepared: Prepared, body: bytes, topic: str, journey: Journey
) -> tuple[Prepared, bytes]:
    """Return descriptor and data of a publication for a neighbour, with the MQRFH2 envelope.

    The envelope keeps Format, Encoding, CCSID and Report of the descriptor. ``journey`` already
    includes this queue manager.
    """
    inside = prepared.descriptor
    children = [
        (_TOPIC, topic),
        *((_VISITED, name) for name in journey.visited),
        (_FORMAT, inside.format),
        (_ENCODING, str(inside.encoding)),
        (_CCSID, str(inside.coded_char_set_id)),
        (_REPORT, str(inside.report)),
    ]
    if journey.is_retained:
        children += [(_RETAINED, "1"), (_ONLY_FOR, journey.only_for)]
    elements = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in children)
    # The folder names the format of the data; in the header a reader would take data for a header.
    header = pack_header(pack_folder(f"<{_FOLDER}>{elements}</{_FOLDER}>"), "")
    outside = inside._replace(
        # Subscribers confirm arrival and delivery, not the queues on the way to them.
        report=inside.report & ~MQRO_ACCEPT_UNSUP_IF_XMIT_MASK,
        format=FORMAT,
        encoding=MQENC_NORMAL,
        coded_char_set_id=UTF_8,
    )
    packed = pack_descriptor(outside)
    return prepared._replace(descriptor=outside, packed=packed), header + body


def out_of_envelope(descriptor: Descriptor, body: bytes) -> Arrived:
    """Return a publication from a neighbour, with the descriptor and data its publisher gave it.

    Raises MQRC_RFH_FORMAT_ERROR when the message has no MQRFH2 or an incomplete envelope, and
    MQRC_RFH_ERROR or MQRC_RFH_STRING_ERROR for a damaged header.
    """
    if descriptor.format != FORMAT:
        raise mq_error(rc.MQRC_RFH_FORMAT_ERROR, f"Format {descriptor.format!r} is not {FORMAT!r}")
    header = read_header(descriptor.encoding, descriptor.coded_char_set_id, body)
    children = header.folders.get(_FOLDER, ())
    found = {child.name: child.text for child in children}
    visited = tuple(child.text for child in children if child.name == _VISITED)
    try:
        original = descriptor._replace(
            format=found[_FORMAT],
            encoding=_number(found[_ENCODING]),
            coded_char_set_id=_number(found[_CCSID]),
            report=_number(found[_REPORT]),
        )
        topic = found[_TOPIC]
        if not visited:
            raise KeyError(_VISITED)
    except (KeyError, ValueError) as error:
        raise mq_error(rc.MQRC_RFH_FORMAT_ERROR, f"{_FOLDER} folder {found}: {error}") from None
    journey = Journey(visited, found.get(_RETAINED) == "1", found.get(_ONLY_FOR, ""))
    return Arrived(topic, journey, original, body[header.data_start :])


def _number(text: str) -> int:
    """Parse a decimal text as an MQLONG (32 bits, signed); raises ValueError when it is none."""
    number = int(text)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{text} is no MQLONG")
    return number
