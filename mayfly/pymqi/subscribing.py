"""MQSUB on an SD: it is checked, a subscription made, resumed or altered, and the SD filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mayfly.engine.attributes.attribute import Value
from mayfly.engine.attributes.of_topics import ANY_USER, FIXED_USER, PRIORITY_AS_QUEUE
from mayfly.engine.delivery import stored_id
from mayfly.engine.handles import Handle
from mayfly.engine.pubsub.subscribing import OpenSubscription
from mayfly.engine.pubsub.subscription_administration import alter_subscription
from mayfly.engine.pubsub.subscriptions import PASSED_ON, Subscription
from mayfly.lifetime.times import ms_of_tenths
from mayfly.lifetime.window import MAXIMUM_EXPIRY_TENTHS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi.opening import text_of
from mayfly.pymqi.variable_strings import return_string, string_in

if TYPE_CHECKING:
    from mayfly.engine.core import Core
    from mayfly.engine.session import Session
    from mayfly.pymqi.structures import SD, Fields

_WAYS: Final = c.MQSO_CREATE | c.MQSO_RESUME | c.MQSO_ALTER
_USERS: Final = c.MQSO_FIXED_USERID | c.MQSO_ANY_USERID
_WILDCARDS: Final = c.MQSO_WILDCARD_CHAR | c.MQSO_WILDCARD_TOPIC
_READ_AHEADS: Final = c.MQSO_READ_AHEAD | c.MQSO_NO_READ_AHEAD
#: What is asked for by an option that this queue manager has not got.
_LACKING: Final = {
    c.MQSO_WILDCARD_CHAR: "MQSO_WILDCARD_CHAR: wildcards stand for levels here",
    c.MQSO_GROUP_SUB: "MQSO_GROUP_SUB: each subscription gets its own copy here",
    c.MQSO_SET_IDENTITY_CONTEXT: "MQSO_SET_IDENTITY_CONTEXT: copies have the publisher's here",
}
_KNOWN: Final = (
    _WAYS
    | _USERS
    | _WILDCARDS
    | _READ_AHEADS
    | c.MQSO_DURABLE
    | c.MQSO_MANAGED
    | c.MQSO_GROUP_SUB
    | c.MQSO_NO_MULTICAST
    | c.MQSO_SET_CORREL_ID
    | c.MQSO_SET_IDENTITY_CONTEXT
    | c.MQSO_NEW_PUBLICATIONS_ONLY
    | c.MQSO_PUBLICATIONS_ON_REQUEST
    | c.MQSO_SCOPE_QMGR
    | c.MQSO_FAIL_IF_QUIESCING
    | c.MQSO_ALTERNATE_USER_AUTHORITY
)
_GETTING: Final = (
    c.MQOO_INPUT_AS_Q_DEF | c.MQOO_INPUT_SHARED | c.MQOO_INPUT_EXCLUSIVE | c.MQOO_BROWSE
)
_HIGHEST_PRIORITY: Final = 9
_NO_ID: Final = bytes(24)


class _Wish(NamedTuple):
    """What an SD asks for, checked."""

    options: int
    name: str
    topic: str
    topic_object: str
    selector: str
    user_data: str
    correl_id: bytes | None
    expiry_tenths: int
    life_ms: int | None
    priority: int


def subscribe(
    session: Session,
    core: Core,
    sd: SD,
    given: Handle | None,
    *,
    current: OpenSubscription | None,
    held: Handle | None,
) -> tuple[OpenSubscription, Handle]:
    """MQSUB; returns the subscription and the handle that its publications are got with.

    ``given`` is the queue for a subscription that is not managed. ``current`` is one that the
    caller has open and may alter while it is, ``held`` the open handle of its queue. Raises
    MQRC_SD_ERROR, MQRC_OPTIONS_ERROR, MQRC_FUNCTION_NOT_SUPPORTED, MQRC_EXPIRY_ERROR for SubExpiry,
    MQRC_PRIORITY_ERROR for PubPriority, MQRC_HOBJ_ERROR for a queue not open for input or browse or
    not its own, MQRC_SUB_NAME_ERROR, MQRC_NO_SUBSCRIPTION, MQRC_SUB_ALREADY_EXISTS,
    MQRC_SUBSCRIPTION_IN_USE, MQRC_IDENTITY_MISMATCH, the MQRC_…_NOT_ALTERABLE,
    MQRC_INVALID_DESTINATION when the queue cannot be opened, and the reasons of Session.subscribe.
    Nothing is made or changed then.
    """
    fields = vars(sd)
    wish = _wish(fields)
    with core.administration:
        existing = core.registry.subscriptions.find(wish.name) if wish.name else None
        is_for_existing = bool(wish.options & (c.MQSO_RESUME | c.MQSO_ALTER))
        if is_for_existing and not wish.name:
            raise mq_error(rc.MQRC_SUB_NAME_ERROR, "SubName is empty; one is resumed by its name")
        if not is_for_existing or (existing is None and wish.options & c.MQSO_CREATE):
            opened, handle = _create(session, core, wish, given)
        elif current is not None and current.subscription is existing:
            opened, handle = current, _reopen(session, core, wish, current, given, held)
        else:
            opened, handle = _resume(session, core, wish, given)
    _fill_in(fields, opened.subscription)
    return opened, handle


def _wish(fields: Fields) -> _Wish:
    options = fields["Options"]
    if fields["StrucId"] != c.MQSD_STRUC_ID or fields["Version"] != c.MQSD_VERSION_1:
        said = f"StrucId {fields['StrucId']!r}, Version {fields['Version']}"
        raise mq_error(rc.MQRC_SD_ERROR, said)
    _check_options(options)
    priority = fields["PubPriority"]
    if not PRIORITY_AS_QUEUE <= priority <= _HIGHEST_PRIORITY and (
        priority != c.MQPRI_PRIORITY_AS_PUBLISHED
    ):
        raise mq_error(rc.MQRC_PRIORITY_ERROR, f"SD.PubPriority {priority}")
    correl_id: bytes | None = b""
    if options & c.MQSO_SET_CORREL_ID:
        correl_id = stored_id(fields["SubCorrelId"]) or None
    return _Wish(
        options,
        string_in(fields, "SubName", rc.MQRC_SUB_NAME_ERROR),
        string_in(fields, "ObjectString", rc.MQRC_TOPIC_STRING_ERROR),
        text_of(fields["ObjectName"]),
        string_in(fields, "SelectionString", rc.MQRC_SELECTION_STRING_ERROR),
        string_in(fields, "SubUserData", rc.MQRC_SUB_USER_DATA_ERROR),
        correl_id,
        fields["SubExpiry"],
        _life_ms(fields["SubExpiry"]),
        priority,
    )


def _life_ms(expiry_tenths: int) -> int | None:
    if expiry_tenths == c.MQEI_UNLIMITED:
        return None
    if not 0 < expiry_tenths <= MAXIMUM_EXPIRY_TENTHS:
        said = f"SD.SubExpiry {expiry_tenths} is not within 1 .. {MAXIMUM_EXPIRY_TENTHS}"
        raise mq_error(rc.MQRC_EXPIRY_ERROR, said)
    return ms_of_tenths(expiry_tenths)


def _check_options(options: int) -> None:
    wrong = (
        options & ~_KNOWN
        or not options & _WAYS
        or any(options & both == both for both in (_USERS, _WILDCARDS, _READ_AHEADS))
    )
    if wrong:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"SD.Options {options:#x}")
    for option, said in _LACKING.items():
        if options & option:
            raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, said)


def _create(
    session: Session, core: Core, wish: _Wish, given: Handle | None
) -> tuple[OpenSubscription, Handle]:
    options, queue = wish.options, ""
    if not options & c.MQSO_MANAGED:
        queue = _checked(given).path.name
    opened = session.subscribe(
        wish.topic,
        topic_object=wish.topic_object,
        name=wish.name,
        durable=bool(options & c.MQSO_DURABLE),
        queue=queue,
        selector=wish.selector,
        time_to_live_ms=wish.life_ms,
        correl_id=wish.correl_id,
        priority=wish.priority,
        user_data=wish.user_data,
        retained=not options & c.MQSO_NEW_PUBLICATIONS_ONLY,
        on_request=bool(options & c.MQSO_PUBLICATIONS_ON_REQUEST),
        fixed_user=not options & c.MQSO_ANY_USERID,
    )
    return opened, _queue_of(session, core, opened, given)


def _resume(
    session: Session, core: Core, wish: _Wish, given: Handle | None
) -> tuple[OpenSubscription, Handle]:
    opened = session.resume(wish.name)
    try:
        return opened, _reopen(session, core, wish, opened, given, None)
    except MQError:
        opened.close()
        raise


def _reopen(
    session: Session,
    core: Core,
    wish: _Wish,
    opened: OpenSubscription,
    given: Handle | None,
    held: Handle | None,
) -> Handle:
    """Return the handle of the queue of an existing subscription, which is altered if wished."""
    if not wish.options & c.MQSO_ALTER:
        return _queue_of(session, core, opened, given)
    subscription = opened.subscription
    _check_unalterable(core, wish, subscription)
    if given is not None and not subscription.is_managed:
        _alter(core, session, wish, subscription, _checked(given).path.name)
        return given
    handle = held or _queue_of(session, core, opened, None)
    try:
        _alter(core, session, wish, subscription, "")
    except MQError:
        if handle is not held:
            handle.close()
        raise
    return handle


def _queue_of(
    session: Session, core: Core, opened: OpenSubscription, given: Handle | None
) -> Handle:
    """Return the handle of a subscription's queue: the managed one, the one given, or a new one."""
    if opened.subscription.is_managed:
        # From now on it is the caller's, who may get from it when the subscription is closed.
        handle, opened.handle = opened.handle, None
        if handle is not None and handle.is_open:
            return handle
    elif given is not None:
        if core.registry.resolve(opened.queue).queue is not _checked(given).queue:
            said = f"{given.queue_name} is not {opened.queue}, the queue of the subscription"
            raise mq_error(rc.MQRC_HOBJ_ERROR, said)
        return given
    try:
        return session.open(opened.queue, c.MQOO_INPUT_AS_Q_DEF | c.MQOO_BROWSE)
    except MQError as error:
        raise mq_error(rc.MQRC_INVALID_DESTINATION, f"{opened.queue}: {error}") from error


def _checked(given: Handle | None) -> Handle:
    if given is None or not given.is_open or not given.options & _GETTING:
        said = "a subscription that is not managed needs a queue open for input or browse"
        raise mq_error(rc.MQRC_HOBJ_ERROR, said)
    return given


def _alter(
    core: Core, session: Session, wish: _Wish, subscription: Subscription, queue: str
) -> None:
    """Change what MQSO_ALTER may change to what the SD says; SubExpiry begins again."""
    options = wish.options
    attributes: dict[str, Value] = {
        "DESTCORL": PASSED_ON if wish.correl_id is None else wish.correl_id.hex(),
        "EXPIRY": wish.expiry_tenths,
        "PUBPRTY": wish.priority,
        "REQONLY": int(bool(options & c.MQSO_PUBLICATIONS_ON_REQUEST)),
        "USERDATA": wish.user_data,
        "VARUSER": ANY_USER if options & c.MQSO_ANY_USERID else FIXED_USER,
        "SUBUSER": session.context.user_identifier[:12],
    }
    if queue:
        attributes["DEST"] = queue
    alter_subscription(core, subscription.name, attributes)


def _check_unalterable(core: Core, wish: _Wish, subscription: Subscription) -> None:
    name = subscription.name
    if bool(wish.options & c.MQSO_DURABLE) != subscription.is_durable:
        raise mq_error(rc.MQRC_DURABILITY_NOT_ALTERABLE, f"subscription {name!r}")
    if wish.topic or wish.topic_object:
        with core.latch:
            topic = core.registry.topics.full_string(wish.topic_object, wish.topic)
        if topic != subscription.topic:
            said = f"subscription {name!r} is to {subscription.topic!r}, not {topic!r}"
            raise mq_error(rc.MQRC_TOPIC_NOT_ALTERABLE, said)
    if wish.selector != subscription.definition.selector:
        raise mq_error(rc.MQRC_SELECTOR_NOT_ALTERABLE, f"subscription {name!r}")
    if bool(wish.options & c.MQSO_MANAGED) != subscription.is_managed:
        raise mq_error(rc.MQRC_DEST_CLASS_NOT_ALTERABLE, f"subscription {name!r}")


def _fill_in(fields: Fields, subscription: Subscription) -> None:
    """Say in the SD what the subscription is like now."""
    definition = subscription.definition
    options = fields["Options"] & ~(_USERS | c.MQSO_DURABLE | c.MQSO_MANAGED)
    options |= c.MQSO_DURABLE * subscription.is_durable | c.MQSO_MANAGED * subscription.is_managed
    is_fixed = definition.varuser == FIXED_USER
    options |= c.MQSO_FIXED_USERID if is_fixed else c.MQSO_ANY_USERID
    if subscription.on_request:
        options |= c.MQSO_PUBLICATIONS_ON_REQUEST
    fields["Options"] = options
    fields["SubCorrelId"] = subscription.correl_id or _NO_ID
    fields["SubExpiry"] = definition.expiry_tenths
    fields["PubPriority"] = subscription.priority
    return_string(fields, "SubUserData", definition.userdata)
    return_string(fields, "SelectionString", definition.selector)
    return_string(fields, "ResObjectString", subscription.topic)
