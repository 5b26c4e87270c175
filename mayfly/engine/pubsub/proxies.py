"""Proxy subscriptions: a neighbour's wish to get what is published here, and how that travels.

A publication leaves for a neighbour once, whatever the number of its proxies that match; the
neighbour makes the copies for its own subscribers when it arrives (D25). On its way an MQRFH2 of
its own stands before it, which says the topic, where it has been and whether it is retained.
"""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.attributes import PROXY, SUB, SubscriptionDefinition
from mayfly.engine.descriptors import Prepared
from mayfly.engine.pubsub.subscriptions import (
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
    """The way of a publication: the queue managers it has been at, and the subscribers it is for.

    One that was retained earlier may be for new subscribers alone: for those to exactly the topic
    string ``only_for``, wildcards included; empty, it is for everybody.
    """

    visited: tuple[str, ...] = ()
    is_retained: bool = False
    only_for: str = ""


#: That of a publication that begins at this queue manager.
HERE = Journey()


class Arrived(NamedTuple):
    """A publication that has come from a neighbour, out of its envelope."""

    topic: str
    journey: Journey
    descriptor: Descriptor
    body: bytes


def proxy_name(neighbour: str, topic: str) -> str:
    """Return the name of a neighbour's proxy for a topic string."""
    return f"{_NAME_START}/{neighbour}/{topic}"


def publisher_name(neighbour: str) -> str:
    """Return as whose a neighbour's publications are made here: it gets none of them back."""
    return f"{_NAME_START}/{neighbour}"


def proxy_definition(neighbour: str, topic: str) -> SubscriptionDefinition:
    """Return the subscription that a neighbour's subscribers have here."""
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
    """Return True if a subscription stands for those of a neighbour."""
    return subscription.definition.made_by == PROXY


def neighbour_of(subscription: Subscription) -> str:
    """Return the neighbour that a proxy subscription is for."""
    return subscription.definition.destqmgr


def enveloped(
    prepared: Prepared, body: bytes, topic: str, journey: Journey
) -> tuple[Prepared, bytes]:
    """Return a publication as it travels to a neighbour from the last of those it has visited."""
    inside = prepared.descriptor
    said = [
        (_TOPIC, topic),
        *((_VISITED, name) for name in journey.visited),
        (_FORMAT, inside.format),
        (_ENCODING, str(inside.encoding)),
        (_CCSID, str(inside.coded_char_set_id)),
        (_REPORT, str(inside.report)),
    ]
    if journey.is_retained:
        said += [(_RETAINED, "1"), (_ONLY_FOR, journey.only_for)]
    elements = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in said)
    # The folder tells the format of the rest: a reader must not take the rest for its header.
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
    """Return the publication in an envelope.

    Raises MQRC_RFH_FORMAT_ERROR when there is none, MQRC_RFH_ERROR, MQRC_RFH_STRING_ERROR.
    """
    if descriptor.format != FORMAT:
        raise mq_error(rc.MQRC_RFH_FORMAT_ERROR, f"Format {descriptor.format!r} is not {FORMAT!r}")
    header = read_header(descriptor.encoding, descriptor.coded_char_set_id, body)
    said = header.folders.get(_FOLDER, ())
    found = {child.name: child.text for child in said}
    visited = tuple(child.text for child in said if child.name == _VISITED)
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
    """Return an MQLONG."""
    number = int(text)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{text} is no MQLONG")
    return number
