"""Subscribing: how a session creates, joins, resumes, closes and removes subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mayfly.engine.attributes import (
    ANY_USER,
    API,
    FIXED_USER,
    MANAGED_DESTINATION,
    PRIORITY_AS_PUBLISHED,
    PROVIDED_DESTINATION,
    SUB,
    SubscriptionDefinition,
)
from mayfly.engine.authority import words
from mayfly.engine.authority.checks import SubscriptionCall, UserAuthority
from mayfly.engine.descriptors import Context
from mayfly.engine.finding.next_live import SelectorResults
from mayfly.engine.finding.search import selector_of
from mayfly.engine.handles import Handle
from mayfly.engine.pubsub.administration import (
    create_subscription,
    drop_doomed,
    remove_subscription,
    undo_subscription,
)
from mayfly.engine.pubsub.publish import ask_of_retained, deliver_retained
from mayfly.engine.pubsub.topics import (
    PASSED_ON,
    Subscription,
    SubscriptionHandle,
)
from mayfly.lifetime.times import tenths_of_ms
from mayfly.lifetime.window import check_life_ms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.checks import Identifier, stored_id

if TYPE_CHECKING:
    from mayfly.engine.core import Core
    from mayfly.engine.open_handles import OpenQueues
    from mayfly.verbs.checks import Duration
    from mayfly.verbs.messages import Message


class SubscribeRequest(NamedTuple):
    """The parameters of one subscribe call of a program.

    An empty ``queue`` asks for a managed one. ``correl_id`` None passes on the publisher's
    CorrelId, empty asks for an id of the subscription. With ``life_ms`` None it never expires.
    ``priority`` is PUBPRTY.
    """

    topic: str = ""
    topic_object: str = ""
    name: str = ""
    is_durable: bool = False
    queue: str = ""
    selector: str = ""
    correl_id: Identifier | None = None
    # int or None; a program may give anything: check_life_ms looks.
    life_ms: Any = None
    priority: int = PRIORITY_AS_PUBLISHED
    is_shared: bool = False
    ignores_own: bool = False
    user_data: str = ""
    takes_retained: bool = True
    replaces: bool = False
    on_request: bool = False
    user_is_fixed: bool = False


class Subscriber(Protocol):
    """The part of a session that the functions of this module use."""

    authority: UserAuthority | None
    context: Context

    def open(self, name: str, options: int) -> Handle:
        """Open a queue with MQOO options; raises the errors of MQOPEN."""

    def get(self, queue: str, *, wait_ms: Duration = 0) -> Message | None:
        """Get and remove the next message of a queue; None when none arrives within ``wait_ms``.

        In a transacted session the removal belongs to the unit of work. Raises the errors of MQGET.
        """


class OpenSubscription:
    """A subscription that a session has open; a non-durable one is removed at its last close."""

    def __init__(
        self,
        session: Subscriber,
        opened: OpenQueues,
        hold: SubscriptionHandle,
        handle: Handle | None,
    ) -> None:
        """Represent a subscription that a session has opened.

        ``hold`` is its entry in ``opened``, the open objects of the session. ``handle`` is the open
        managed queue, None when the subscriber has named a queue.
        """
        self._session = session
        self._opened = opened
        self._hold = hold
        #: The subscription itself, with its present attributes.
        self.subscription = hold.subscription
        #: The managed queue, open for input; None where the subscriber has given a queue.
        self.handle = handle

    @property
    def name(self) -> str:
        """The name of the subscription; a non-durable one may have none (empty)."""
        return self.subscription.name

    @property
    def topic(self) -> str:
        """The full topic string, wildcards included."""
        return self.subscription.topic

    @property
    def queue(self) -> str:
        """The queue on which publications arrive, ``QUEUE@MANAGER`` if it is remote."""
        return self.subscription.destination

    @property
    def is_durable(self) -> bool:
        """Whether the subscription outlives its session."""
        return self.subscription.is_durable

    @property
    def expire_at_ms(self) -> int | None:
        """When the subscription expires, in ms since 1970; None for never."""
        return self.subscription.expire_at_ms

    @property
    def is_open(self) -> bool:
        """Whether neither the subscription nor its session was closed, and it has not expired."""
        return self._hold in self.subscription.holds

    def get(self, *, wait_ms: Duration = 0) -> Message | None:
        """Get the next publication, removing it; None when none arrives within ``wait_ms``.

        In a transacted session the removal belongs to the unit of work: a backout gives it back.
        Raises the errors of MQGET, such as MQRC_GET_INHIBITED.
        """
        return self._session.get(self.queue, wait_ms=wait_ms)

    def request_retained(self) -> int:
        """Do MQSUBRQ: put the matching retained publications on its queue; return their number.

        They are put at once, outside any unit of work. Raises MQRC_NO_RETAINED_MSG when none
        matches, and MQRC_HOBJ_ERROR once the subscription is closed.
        """
        core = self._opened.core
        if not self.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"{self.subscription!r} is closed")
        count = deliver_retained(core, self.subscription)
        if not count:
            raise mq_error(rc.MQRC_NO_RETAINED_MSG, f"nothing retained for {self.topic!r}")
        return count

    def close(self, *, remove: bool = False) -> None:
        """Do MQCLOSE; with ``remove`` (MQCO_REMOVE_SUB) a durable subscription is deleted.

        Without ``remove`` a durable one stays. A second call does nothing. Raises
        MQRC_SUBSCRIPTION_IN_USE when others have it open too, MQRC_IDENTITY_MISMATCH and
        MQRC_NOT_AUTHORIZED, each only with ``remove``; it stays open then.
        """
        core, subscription = self._opened.core, self.subscription
        removes = remove and subscription.is_durable and self.is_open
        if removes:
            check_user(self._session, subscription, words.SUB, None)
            if len(subscription.holds) > 1:
                raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, f"{subscription!r} is shared")
        if self.handle is not None and self.handle.is_open:
            self.handle.close()
        if removes:
            remove_subscription(core, subscription)
        self._opened.leave(self._hold)
        drop_doomed(core)


def subscribe(
    session: Subscriber, opened: OpenQueues, request: SubscribeRequest
) -> OpenSubscription:
    """Create a subscription for a session, or join the shared one of the same name; return it open.

    ``opened`` are the open objects of the session. Raises MQRC_SUB_ALREADY_EXISTS when the name
    exists and is neither joined nor replaced. A shared one is joined only with equal topic,
    selector, durability and queue. Also raises MQRC_NOT_AUTHORIZED, MQRC_IDENTITY_MISMATCH, and the
    errors of ``create_subscription`` and MQOPEN.
    """
    check_life_ms(request.life_ms)
    core = opened.core
    _check_authority(session, core, request)
    selector_results = _ask_of_retained(core, request)
    with core.definitions_lock:
        existing = core.registry.subscriptions.find(request.name) if request.name else None
        if existing is not None and request.is_shared and not request.replaces:
            _check_same(core, existing, request)
            check_user(session, existing, words.SUB, c.MQSO_RESUME | c.MQSO_ALTER)
            return _open(session, opened, existing)
        if existing is not None and request.replaces:
            # The old one goes with its messages, as if its user had unsubscribed.
            check_user(session, existing, words.SUB, None)
        owner = opened.connection if request.is_durable and request.ignores_own else None
        definition = _definition(session, request, owner if isinstance(owner, str) else "")
        made = create_subscription(
            core,
            definition,
            is_durable=request.is_durable,
            life_ms=request.life_ms,
            takes_retained=request.takes_retained,
            replaced=existing if request.replaces else None,
            selector_results=selector_results,
        )
        try:
            return _open(session, opened, made)
        except MQError:
            # The one that it has replaced is gone: better this one, not open, than none.
            if existing is None:
                undo_subscription(core, made)
            raise


def _ask_of_retained(core: Core, request: SubscribeRequest) -> SelectorResults | None:
    """Evaluate the selector for retained publications, before the definitions lock is taken.

    Returns None when no retained publications are wanted or no selector is set. Also returns None
    for a wrong request; ``create_subscription`` raises that error later.
    """
    if not request.takes_retained or not request.selector.strip():
        return None
    try:
        return ask_of_retained(core, _topic_of(core, request), selector_of(request.selector))
    except MQError:
        # The making of the subscription raises it, in its order.
        return None


def _check_authority(session: Subscriber, core: Core, request: SubscribeRequest) -> None:
    """Check the user's authority: SUB on the topic, and PUT on a queue that the request names.

    Raises MQRC_NOT_AUTHORIZED. Does nothing for a session without authority checks.
    """
    if session.authority is None:
        return
    topic = _topic_of(core, request)
    call = SubscriptionCall(topic, request.name, _options_of(request))
    session.authority.check_topic(topic, words.SUB, call)
    if request.queue:
        session.authority.check_open(request.queue, c.MQOO_OUTPUT, call)


def _options_of(request: SubscribeRequest) -> int:
    """Return the options MQSO_* by which MQSUB makes such a subscription."""
    given = (
        (request.is_durable, c.MQSO_DURABLE),
        (not request.queue, c.MQSO_MANAGED),
        (not request.takes_retained, c.MQSO_NEW_PUBLICATIONS_ONLY),
        (request.on_request, c.MQSO_PUBLICATIONS_ON_REQUEST),
        (not request.user_is_fixed, c.MQSO_ANY_USERID),
    )
    return c.MQSO_CREATE | sum(option for is_given, option in given if is_given)


def _topic_of(core: Core, request: SubscribeRequest) -> str:
    """Return the full topic string: that of the topic object, followed by the request's topic.

    Raises MQRC_UNKNOWN_OBJECT_NAME when the topic object is not defined.
    """
    with core.engine_lock:
        return core.registry.topics.full_string(request.topic_object, request.topic)


def _check_same(core: Core, existing: Subscription, request: SubscribeRequest) -> None:
    """Raise MQRC_SUB_ALREADY_EXISTS unless ``existing`` is shared and equals the request.

    Topic, selector, durability and queue must be equal; an empty queue in the request fits any.
    """
    wanted = (
        _topic_of(core, request),
        request.selector,
        request.is_durable,
        request.queue or existing.destination,
    )
    text = existing.definition.selector
    found = existing.topic, text, existing.is_durable, existing.destination
    if found != wanted or not existing.is_shared:
        raise mq_error(rc.MQRC_SUB_ALREADY_EXISTS, f"{existing!r} asks for something else")


def _definition(
    session: Subscriber, request: SubscribeRequest, owner: str
) -> SubscriptionDefinition:
    """Return the subscription definition for a request; nothing is stored.

    ``owner`` is the lasting name of the connection whose publications a ``no_local`` subscription
    ignores, or empty. Raises MQRC_SUB_NAME_ERROR for a shared subscription without a name.
    """
    if request.is_shared and not request.name.strip():
        raise mq_error(rc.MQRC_SUB_NAME_ERROR, "a shared subscription has a name")
    life_ms, correl_id = request.life_ms, request.correl_id
    return SubscriptionDefinition(
        SUB,
        request.name,
        topicstr=request.topic,
        topicobj=request.topic_object,
        dest=request.queue,
        destclas=PROVIDED_DESTINATION if request.queue else MANAGED_DESTINATION,
        destcorl=PASSED_ON if correl_id is None else stored_id(correl_id, "correl_id").hex(),
        selector=request.selector,
        pubprty=request.priority,
        subuser=session.context.user_identifier[:12],
        userdata=request.user_data,
        expiry_tenths=c.MQEI_UNLIMITED if life_ms is None else tenths_of_ms(life_ms),
        reqonly=int(request.on_request),
        varuser=FIXED_USER if request.user_is_fixed else ANY_USER,
        made_by=API,
        is_shared=int(request.is_shared),
        ignores_own=int(request.ignores_own),
        is_new_only=int(not request.takes_retained),
        owner=owner,
    )


def resume(session: Subscriber, opened: OpenQueues, name: str) -> OpenSubscription:
    """Open a durable subscription again (MQSO_RESUME) and return it.

    ``opened`` are the open objects of the session. Messages that arrived meanwhile are on its
    queue. Raises MQRC_NO_SUBSCRIPTION when the name is unknown, MQRC_SUBSCRIPTION_IN_USE while a
    session has it open and it is not shared, MQRC_IDENTITY_MISMATCH and MQRC_NOT_AUTHORIZED.
    """
    subscription = opened.core.registry.subscriptions.named(name)
    check_user(session, subscription, words.RESUME, c.MQSO_RESUME)
    return _open(session, opened, subscription)


def check_user(
    session: Subscriber, subscription: Subscription, wanted: int, options: int | None
) -> None:
    """Check that the user of a session may use an existing subscription.

    ``wanted`` is the authority RESUME to open it, or SUB to alter, join, replace or remove it.
    ``options`` are those of MQSUB, None to remove it. Raises MQRC_IDENTITY_MISMATCH when it is
    fixed to another user, and MQRC_NOT_AUTHORIZED without that authority on its topic.
    """
    definition = subscription.definition
    owner, user = definition.subuser, session.context.user_identifier[:12]
    if definition.varuser == FIXED_USER and owner != user:
        raise mq_error(
            rc.MQRC_IDENTITY_MISMATCH, f"{subscription!r} is fixed to user {owner!r}, not {user!r}"
        )
    if session.authority is not None:
        call = SubscriptionCall(subscription.topic, subscription.name, options)
        session.authority.check_topic(subscription.topic, wanted, call)


def _open(session: Subscriber, opened: OpenQueues, subscription: Subscription) -> OpenSubscription:
    """Open a subscription for a session, and its managed queue if it has one.

    ``opened`` are the open objects of the session. Raises MQRC_NO_SUBSCRIPTION,
    MQRC_SUBSCRIPTION_IN_USE or an error of MQOPEN; nothing stays open then.
    """
    hold, handle = opened.hold(subscription), None
    try:
        if opened.requester.is_ended:
            # Another thread closes the session, and may have closed all it held before this.
            raise opened.requester.error()
        if subscription.is_managed:
            options = c.MQOO_INPUT_SHARED | c.MQOO_BROWSE | c.MQOO_INQUIRE
            if session.authority is not None:
                session.authority.grant_ownership(subscription.destination)
            handle = session.open(subscription.destination, options)
    except MQError:
        opened.leave(hold)
        drop_doomed(opened.core)
        raise
    return OpenSubscription(session, opened, hold, handle)
