"""MQSUB: create, resume or alter a subscription by its name; and the durable ones of JMS.

MQSO options say how. Durable subscriptions of JMS, and temporary topics, have client ids.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mayfly.engine.attributes import ANY_USER, FIXED_USER, PRIORITY_AS_QUEUE
from mayfly.engine.authority import words
from mayfly.engine.authority.checks import SubscriptionCall
from mayfly.engine.authority.records import USER_CHARACTERS
from mayfly.engine.core import Core
from mayfly.engine.counting import counts
from mayfly.engine.delivery import new_message_id
from mayfly.engine.handles import Handle
from mayfly.engine.pubsub.administration import alter_subscription
from mayfly.engine.pubsub.publish import clear_retained
from mayfly.engine.pubsub.subscribing import OpenSubscription, check_user
from mayfly.engine.pubsub.topics import PASSED_ON, Subscription
from mayfly.engine.session import Session
from mayfly.lifetime.times import ms_of_tenths
from mayfly.lifetime.window import MAXIMUM_EXPIRY_TENTHS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.facts import SubscriptionFacts, Value

_WAYS: Final = c.MQSO_CREATE | c.MQSO_RESUME | c.MQSO_ALTER
_USERS: Final = c.MQSO_FIXED_USERID | c.MQSO_ANY_USERID
_WILDCARDS: Final = c.MQSO_WILDCARD_CHAR | c.MQSO_WILDCARD_TOPIC
_READ_AHEADS: Final = c.MQSO_READ_AHEAD | c.MQSO_NO_READ_AHEAD
#: Options that this queue manager does not support, with the reason.
_UNSUPPORTED: Final = {
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


class SubscriptionWanted(NamedTuple):
    """The fields of an MQSD that a program passes to MQSUB.

    An empty ``correl_id`` asks for an id of the subscription; None passes on the publisher's
    CorrelId. ``queue`` is the open queue handle (Hobj) for a subscription that is not managed.
    """

    options: int
    name: str = ""
    topic: str = ""
    topic_object: str = ""
    selector: str = ""
    user_data: str = ""
    correl_id: bytes | None = b""
    expiry_tenths: int = c.MQEI_UNLIMITED
    priority: int = c.MQPRI_PRIORITY_AS_PUBLISHED
    queue: Handle | None = None


def subscribe_as(
    session: Session,
    wanted: SubscriptionWanted,
    *,
    altered: OpenSubscription | None,
    held: Handle | None,
) -> tuple[OpenSubscription, Handle]:
    """Do MQSUB: return the subscription, and the handle of the queue for its publications.

    ``wanted`` has the fields of the MQSD. ``altered`` is this subscription when the caller already
    has it open; ``held`` is the caller's open handle of its queue. Both may be None. After an error
    nothing is created or changed.

    Raises MQRC_OPTIONS_ERROR, MQRC_FUNCTION_NOT_SUPPORTED, MQRC_EXPIRY_ERROR, MQRC_PRIORITY_ERROR,
    MQRC_SUB_NAME_ERROR, MQRC_NO_SUBSCRIPTION, MQRC_SUB_ALREADY_EXISTS, MQRC_SUBSCRIPTION_IN_USE,
    MQRC_IDENTITY_MISMATCH, the MQRC_…_NOT_ALTERABLE, and the errors of Session.subscribe. Raises
    MQRC_HOBJ_ERROR for a queue handle that is closed, of another queue, or not open for input or
    browse. Raises MQRC_INVALID_DESTINATION for a queue that cannot be opened.
    """
    options = wanted.options
    _check_options(options)
    _check_priority(wanted.priority)
    life_ms = _life_ms(wanted.expiry_tenths)
    core = session.core
    with core.definitions_lock:
        existing = core.registry.subscriptions.find(wanted.name) if wanted.name else None
        is_for_existing = bool(options & (c.MQSO_RESUME | c.MQSO_ALTER))
        if is_for_existing and not wanted.name:
            raise mq_error(rc.MQRC_SUB_NAME_ERROR, "SubName is empty; one is resumed by its name")
        if not is_for_existing or (existing is None and options & c.MQSO_CREATE):
            return _create(session, wanted, life_ms)
        if altered is not None and altered.subscription is existing:
            return altered, _reopen(session, wanted, altered, held)
        opened = session.resume(wanted.name)
        try:
            return opened, _reopen(session, wanted, opened, None)
        except MQError:
            opened.close()
            raise


def facts_of(opened: OpenSubscription) -> SubscriptionFacts:
    """Return the present attributes of an open subscription, for the result of MQSUB."""
    subscription = opened.subscription
    definition = subscription.definition
    return SubscriptionFacts(
        subscription.name,
        subscription.topic,
        subscription.destination,
        subscription.is_durable,
        subscription.is_managed,
        definition.varuser == FIXED_USER,
        bool(subscription.on_request),
        subscription.correl_id or b"",
        definition.expiry_tenths,
        subscription.priority,
        definition.userdata,
        definition.selector,
    )


def _check_options(options: int) -> None:
    """Check the MQSO bits of an MQSD.

    Raises MQRC_OPTIONS_ERROR for unknown or contradictory bits, or without CREATE, RESUME and
    ALTER. Raises MQRC_FUNCTION_NOT_SUPPORTED for an option that this queue manager does not
    support.
    """
    wrong = (
        options & ~_KNOWN
        or not options & _WAYS
        or any(options & both == both for both in (_USERS, _WILDCARDS, _READ_AHEADS))
    )
    if wrong:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"SD.Options {options:#x}")
    for option, text in _UNSUPPORTED.items():
        if options & option:
            raise mq_error(rc.MQRC_FUNCTION_NOT_SUPPORTED, text)


def _check_priority(priority: int) -> None:
    """Raise MQRC_PRIORITY_ERROR unless PubPriority is 0 to 9, or AS_PUBLISHED or AS_Q_DEF."""
    if not PRIORITY_AS_QUEUE <= priority <= _HIGHEST_PRIORITY and (
        priority != c.MQPRI_PRIORITY_AS_PUBLISHED
    ):
        raise mq_error(rc.MQRC_PRIORITY_ERROR, f"SD.PubPriority {priority}")


def _life_ms(expiry_tenths: int) -> int | None:
    """Return SubExpiry (tenths of a second) in ms, None for MQEI_UNLIMITED.

    Raises MQRC_EXPIRY_ERROR when the value is out of range.
    """
    if expiry_tenths == c.MQEI_UNLIMITED:
        return None
    if not 0 < expiry_tenths <= MAXIMUM_EXPIRY_TENTHS:
        raise mq_error(
            rc.MQRC_EXPIRY_ERROR,
            f"SD.SubExpiry {expiry_tenths} is not within 1 .. {MAXIMUM_EXPIRY_TENTHS}",
        )
    return ms_of_tenths(expiry_tenths)


def _create(
    session: Session, wanted: SubscriptionWanted, life_ms: int | None
) -> tuple[OpenSubscription, Handle]:
    """Create a subscription as an MQSD says; return it, and a handle of its queue.

    It expires ``life_ms`` from now, None for never. Raises MQRC_HOBJ_ERROR when it is not managed
    and ``wanted.queue`` is not open for input or browse, and the errors of Session.subscribe.
    """
    options, queue = wanted.options, ""
    if not options & c.MQSO_MANAGED:
        queue = _checked(wanted.queue).path.name
    opened = session.subscribe(
        wanted.topic,
        topic_object=wanted.topic_object,
        name=wanted.name,
        durable=bool(options & c.MQSO_DURABLE),
        queue=queue,
        selector=wanted.selector,
        time_to_live_ms=life_ms,
        correl_id=wanted.correl_id,
        priority=wanted.priority,
        user_data=wanted.user_data,
        retained=not options & c.MQSO_NEW_PUBLICATIONS_ONLY,
        on_request=bool(options & c.MQSO_PUBLICATIONS_ON_REQUEST),
        fixed_user=not options & c.MQSO_ANY_USERID,
    )
    return opened, _queue_of(session, opened, wanted.queue)


def _reopen(
    session: Session, wanted: SubscriptionWanted, opened: OpenSubscription, held: Handle | None
) -> Handle:
    """Return a handle of the queue of an existing subscription; with MQSO_ALTER, alter it first.

    The handle is ``wanted.queue``, ``held``, or one newly opened. Raises MQRC_HOBJ_ERROR,
    MQRC_INVALID_DESTINATION, an MQRC_…_NOT_ALTERABLE, and the errors of :func:`_alter`; a newly
    opened handle is then closed.
    """
    given = wanted.queue
    if not wanted.options & c.MQSO_ALTER:
        return _queue_of(session, opened, given)
    subscription = opened.subscription
    _check_unalterable(session, wanted, subscription)
    if given is not None and not subscription.is_managed:
        _alter(session, wanted, subscription, _checked(given).path.name)
        return given
    handle = held or _queue_of(session, opened, None)
    try:
        _alter(session, wanted, subscription, "")
    except MQError:
        if handle is not held:
            handle.close()
        raise
    return handle


def _queue_of(session: Session, opened: OpenSubscription, given: Handle | None) -> Handle:
    """Return a handle of a subscription's queue: of its managed queue, ``given``, or newly opened.

    The managed queue's handle then belongs to the caller and stays open when the subscription is
    closed. Raises MQRC_HOBJ_ERROR when ``given`` is a handle of another queue, and
    MQRC_INVALID_DESTINATION when the queue cannot be opened.
    """
    if opened.subscription.is_managed:
        # From now on it is the caller's, who may get from it when the subscription is closed.
        handle, opened.handle = opened.handle, None
        if handle is not None and handle.is_open:
            return handle
    elif given is not None:
        if session.core.registry.resolve(opened.queue).queue is not _checked(given).queue:
            raise mq_error(
                rc.MQRC_HOBJ_ERROR,
                f"{given.queue_name} is not {opened.queue}, the queue of the subscription",
            )
        return given
    try:
        return session.open(opened.queue, c.MQOO_INPUT_AS_Q_DEF | c.MQOO_BROWSE)
    except MQError as error:
        raise mq_error(rc.MQRC_INVALID_DESTINATION, f"{opened.queue}: {error}") from error


def _checked(given: Handle | None) -> Handle:
    """Return the handle ``given``; raises MQRC_HOBJ_ERROR unless it is open for input or browse."""
    if given is None or not given.is_open or not given.options & _GETTING:
        raise mq_error(
            rc.MQRC_HOBJ_ERROR,
            "a subscription that is not managed needs a queue open for input or browse",
        )
    return given


def _alter(
    session: Session, wanted: SubscriptionWanted, subscription: Subscription, queue: str
) -> None:
    """Change all alterable attributes of a subscription to those of the MQSD.

    SubExpiry counts from now. An empty ``queue`` keeps the destination. Raises MQRC_NOT_AUTHORIZED,
    MQRC_IDENTITY_MISMATCH, and the errors of ``alter_subscription``; then nothing is changed.
    """
    options = wanted.options
    check_user(session, subscription, words.SUB, options)
    if queue and queue != subscription.destination and session.authority is not None:
        call = SubscriptionCall(subscription.topic, subscription.name, options)
        session.authority.check_open(queue, c.MQOO_OUTPUT, call)
    attributes: dict[str, Value] = {
        "DESTCORL": PASSED_ON if wanted.correl_id is None else wanted.correl_id.hex(),
        "EXPIRY": wanted.expiry_tenths,
        "PUBPRTY": wanted.priority,
        "REQONLY": int(bool(options & c.MQSO_PUBLICATIONS_ON_REQUEST)),
        "USERDATA": wanted.user_data,
        "VARUSER": ANY_USER if options & c.MQSO_ANY_USERID else FIXED_USER,
        "SUBUSER": session.context.user_identifier[:12],
    }
    if queue:
        attributes["DEST"] = queue
    alter_subscription(session.core, subscription.name, attributes)


def _check_unalterable(
    session: Session, wanted: SubscriptionWanted, subscription: Subscription
) -> None:
    """Raise an error when the MQSD differs in an attribute that MQSO_ALTER may not change.

    These are MQRC_DURABILITY_NOT_ALTERABLE, MQRC_TOPIC_NOT_ALTERABLE, MQRC_SELECTOR_NOT_ALTERABLE
    and MQRC_DEST_CLASS_NOT_ALTERABLE. An MQSD without a topic accepts any topic.
    """
    core, name, options = session.core, subscription.name, wanted.options
    if bool(options & c.MQSO_DURABLE) != subscription.is_durable:
        raise mq_error(rc.MQRC_DURABILITY_NOT_ALTERABLE, f"subscription {name!r}")
    if wanted.topic or wanted.topic_object:
        with core.engine_lock:
            topic = core.registry.topics.full_string(wanted.topic_object, wanted.topic)
        if topic != subscription.topic:
            raise mq_error(
                rc.MQRC_TOPIC_NOT_ALTERABLE,
                f"subscription {name!r} is to {subscription.topic!r}, not {topic!r}",
            )
    if wanted.selector != subscription.definition.selector:
        raise mq_error(rc.MQRC_SELECTOR_NOT_ALTERABLE, f"subscription {name!r}")
    if bool(options & c.MQSO_MANAGED) != subscription.is_managed:
        raise mq_error(rc.MQRC_DEST_CLASS_NOT_ALTERABLE, f"subscription {name!r}")


def open_durable(
    session: Session, name: str, topic: str, *, selector: str, shared: bool, no_local: bool
) -> OpenSubscription:
    """Open the durable subscription ``name`` for a session; create it when it does not exist.

    ``selector`` is the condition on publications, empty for none. Several sessions may have a
    ``shared`` one open at once. With ``no_local`` it takes no publications of the same connection.
    An existing subscription with another topic, selector or ``no_local`` is removed with its
    messages and created again, if the user has authority to remove it.

    Raises MQRC_SUBSCRIPTION_IN_USE when an unshared subscription, or one to be removed, is open.
    The same error is raised when one to be removed has unacknowledged messages. Raises
    MQRC_SUB_ALREADY_EXISTS when the existing one is shared and ``shared`` is False, or the reverse.
    Also raises the errors of Session.subscribe and Session.resume.
    """
    core, replaces = session.core, False
    _let_settle(core, name)
    with core.definitions_lock:
        existing = core.registry.subscriptions.find(name)
        if existing is not None:
            if existing.is_shared != shared:
                raise mq_error(
                    rc.MQRC_SUB_ALREADY_EXISTS,
                    f"{existing!r} is {'' if existing.is_shared else 'not '}shared",
                )
            found = existing.topic, existing.definition.selector, existing.ignores_own
            replaces = found != (topic, selector, no_local)
            if replaces:
                _check_idle(core, existing)
            elif not shared:
                return session.resume(name)
        return session.subscribe(
            topic,
            name=name,
            durable=True,
            selector=selector,
            shared=shared,
            no_local=no_local,
            replace=replaces,
        )


def remove_idle(session: Session, name: str) -> None:
    """Remove a durable subscription by its name, with the messages on its managed queue.

    Raises MQRC_NO_SUBSCRIPTION when the name is unknown, and MQRC_SUBSCRIPTION_IN_USE while the
    subscription is open or has unacknowledged messages.
    """
    core = session.core
    _let_settle(core, name)
    with core.definitions_lock:
        _check_idle(core, core.registry.subscriptions.named(name))
        session.unsubscribe(name)


def reserve_client_id(session: Session, client_id: str) -> None:
    """Reserve a JMS client id for a session, and set it as the connection name of the session.

    The reservation lasts until the session ends. A repeated call for the same session is allowed.
    Raises MQRC_OBJECT_IN_USE while another open session has the client id.
    """
    core = session.core
    with core.engine_lock:
        holder = core.client_ids.get(client_id)
        if holder is not None and holder is not session and holder.is_open:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"client id {client_id!r} is in use")
        core.client_ids[client_id] = session
    session.belong_to(client_id)


def make_temporary_topic(session: Session) -> str:
    """Return a new, unique topic string, ``TEMP/`` and a hexadecimal id.

    The user of the session may publish and subscribe to it until :func:`delete_temporary_topic`.
    """
    core = session.core
    topic = f"TEMP/{new_message_id(core).hex().upper()}"
    with core.engine_lock:
        core.registry.authority.temporary_topics[topic] = session.context.user_identifier[
            :USER_CHARACTERS
        ]
    return topic


def delete_temporary_topic(core: Core, topic: str) -> None:
    """Remove the user's right to a temporary topic, and its retained publication.

    No authority is checked. An unknown topic is no error.
    """
    with core.engine_lock:
        core.registry.authority.temporary_topics.pop(topic, None)
    clear_retained(core, topic)


def is_subscribed_to(core: Core, topic: str) -> bool:
    """Return True if a session has a subscription open with exactly this topic string.

    A subscription that matches by wildcards alone does not count.
    """
    with core.engine_lock:
        matching = core.registry.subscriptions.matching(topic)
        return any(found.topic == topic and found.holds for found in matching)


def _check_idle(core: Core, subscription: Subscription) -> None:
    """Raise MQRC_SUBSCRIPTION_IN_USE when a subscription is open or has unacknowledged messages."""
    if subscription.holds:
        raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} has a consumer")
    if _is_held(core, subscription):
        raise mq_error(
            rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} has messages that are not acknowledged"
        )


def _let_settle(core: Core, name: str) -> None:
    """Wait until pending acknowledgements of the closed subscription ``name`` are on disk.

    Otherwise the next consumer could get messages that were already acknowledged. Returns at once
    when the subscription does not exist, is open, or has no locked messages.
    """
    found = core.registry.subscriptions.find(name)
    if found is not None and not found.holds and _is_held(core, found):
        core.background.settle()


def _is_held(core: Core, subscription: Subscription) -> bool:
    """Return True if the managed queue of a subscription has locked messages.

    Returns False for a subscription without a managed queue, or when that queue is deleted.
    """
    if not subscription.is_managed:
        return False
    with core.engine_lock:
        queue = core.registry.by_name(subscription.destination)
        return queue is not None and bool(counts(core, queue).locked)
