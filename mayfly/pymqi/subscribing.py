"""MQSUB on an SD: it is read, a subscription made, resumed or altered, and the SD filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.pymqi.opening import text_of
from mayfly.pymqi.variable_strings import return_string, string_in
from mayfly.verbs.checks import stored_id
from mayfly.verbs.facts import SubscriptionFacts
from mayfly.verbs.requests import Subscribed

if TYPE_CHECKING:
    from mayfly.pymqi.structures import SD
from mayfly.pymqi.variable_strings import Fields

_USERS: Final = c.MQSO_FIXED_USERID | c.MQSO_ANY_USERID
_NO_ID: Final = bytes(24)


def subscribe(
    connection: Connection, sd: SD, queue: int, *, altered: Subscribed | None, held: int
) -> Subscribed:
    """MQSUB; returns the subscription, with the handle that its publications are got with.

    ``queue`` is the handle of one for a subscription that is not managed. ``altered`` is one that
    the caller has open and may alter while it is, ``held`` the handle of its queue; MQHO_NONE (0)
    is no handle. Raises MQRC_SD_ERROR and the reasons of ``Topics.subscribe``.
    """
    fields = vars(sd)
    options = fields["Options"]
    if fields["StrucId"] != c.MQSD_STRUC_ID or fields["Version"] != c.MQSD_VERSION_1:
        said = f"StrucId {fields['StrucId']!r}, Version {fields['Version']}"
        raise mq_error(rc.MQRC_SD_ERROR, said)
    correl_id: bytes | None = b""
    if options & c.MQSO_SET_CORREL_ID:
        correl_id = stored_id(fields["SubCorrelId"]) or None
    subscribed = connection.topics.subscribe(
        options,
        name=string_in(fields, "SubName", rc.MQRC_SUB_NAME_ERROR),
        topic=string_in(fields, "ObjectString", rc.MQRC_TOPIC_STRING_ERROR),
        topic_object=text_of(fields["ObjectName"]),
        queue=queue,
        selector=string_in(fields, "SelectionString", rc.MQRC_SELECTION_STRING_ERROR),
        user_data=string_in(fields, "SubUserData", rc.MQRC_SUB_USER_DATA_ERROR),
        correl_id=correl_id,
        expiry_tenths=fields["SubExpiry"],
        priority=fields["PubPriority"],
        altered=0 if altered is None else altered.number,
        held=held,
    )
    _fill_in(fields, subscribed.facts)
    return subscribed


def _fill_in(fields: Fields, facts: SubscriptionFacts) -> None:
    """Say in the SD what the subscription is like now."""
    options = fields["Options"] & ~(_USERS | c.MQSO_DURABLE | c.MQSO_MANAGED)
    options |= c.MQSO_DURABLE * facts.is_durable | c.MQSO_MANAGED * facts.is_managed
    options |= c.MQSO_FIXED_USERID if facts.user_is_fixed else c.MQSO_ANY_USERID
    if facts.on_request:
        options |= c.MQSO_PUBLICATIONS_ON_REQUEST
    fields["Options"] = options
    fields["SubCorrelId"] = facts.correl_id or _NO_ID
    fields["SubExpiry"] = facts.expiry_tenths
    fields["PubPriority"] = facts.priority
    return_string(fields, "SubUserData", facts.user_data)
    return_string(fields, "SelectionString", facts.selector)
    return_string(fields, "ResObjectString", facts.topic)
