"""Reason codes of values that no frame can carry: those that the queue manager gives for them."""

from __future__ import annotations

from typing import Final

from mayfly.contracts.wire_verbs import Verb
from mayfly.mqi import reasons as rc

#: By the name of the field, whatever the verb.
_REASONS: Final[dict[str, int]] = {
    "by_ms": rc.MQRC_OPTIONS_ERROR,
    "context": rc.MQRC_CONTEXT_HANDLE_ERROR,
    "correl_id": rc.MQRC_MD_ERROR,
    "delay_ms": rc.MQRC_OPTIONS_ERROR,
    "deliver_at_ms": rc.MQRC_OPTIONS_ERROR,
    "descriptor": rc.MQRC_MD_ERROR,
    "dynamic_name": rc.MQRC_DYNAMIC_Q_NAME_ERROR,
    "expiry_tenths": rc.MQRC_EXPIRY_ERROR,
    "group_id": rc.MQRC_MD_ERROR,
    "handle": rc.MQRC_HOBJ_ERROR,
    "manager": rc.MQRC_OBJECT_Q_MGR_NAME_ERROR,
    "msg_id": rc.MQRC_MD_ERROR,
    "name": rc.MQRC_OBJECT_NAME_ERROR,
    "options": rc.MQRC_OPTIONS_ERROR,
    "properties": rc.MQRC_PROPERTY_TYPE_ERROR,
    "selector": rc.MQRC_SELECTION_STRING_ERROR,
    "time_to_live_ms": rc.MQRC_EXPIRY_ERROR,
    "topic": rc.MQRC_TOPIC_STRING_ERROR,
    "wait_ms": rc.MQRC_WAIT_INTERVAL_ERROR,
}
_NAMES_OF_SUBSCRIPTIONS: Final = frozenset({Verb.SUBSCRIBE, Verb.TOPIC_JOIN, Verb.TOPIC_REMOVE})


def reason_of(verb: int, field: str) -> int:
    """Return the reason code of a wrong field of a verb, MQRC_UNEXPECTED_ERROR for most."""
    if field == "name" and verb in _NAMES_OF_SUBSCRIPTIONS:
        return rc.MQRC_SUB_NAME_ERROR
    return _REASONS.get(field, rc.MQRC_UNEXPECTED_ERROR)
