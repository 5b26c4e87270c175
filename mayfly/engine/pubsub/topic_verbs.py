"""The publish/subscribe verbs of a session, and handles of open topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from operator import index
from typing import NamedTuple, SupportsIndex, cast

from mayfly.engine.attributes import PRIORITY_AS_PUBLISHED
from mayfly.engine.authority import words
from mayfly.engine.authority.checks import UserAuthority, alternate_authority
from mayfly.engine.callbacks import Completion
from mayfly.engine.core import Core
from mayfly.engine.descriptors import Context
from mayfly.engine.objects.registry import topic_alias
from mayfly.engine.open_handles import OpenObject, OpenQueues
from mayfly.engine.properties import with_properties
from mayfly.engine.pubsub.administration import delete_subscription
from mayfly.engine.pubsub.proxies import HERE, Journey
from mayfly.engine.pubsub.publish import PublishResult, behind_alias, clear_retained, publish
from mayfly.engine.pubsub.subscribing import (
    OpenSubscription,
    Subscriber,
    SubscribeRequest,
    check_user,
    resume,
    subscribe,
)
from mayfly.engine.put import PutRequest
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.verb_options import PASSES, check_put_options, with_options, with_passed_context
from mayfly.lifetime.times import ms_of_duration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.verbs.checks import Delay, Identifier, Life, bytes_of, stored_id, times_of_put
from mayfly.verbs.messages import Message, PutResult
from mayfly.verbs.properties.folders import properties_of_mapping
from mayfly.verbs.topic_strings import check_topic_string

_FOR_QUEUES = (
    c.MQOO_INPUT_AS_Q_DEF
    | c.MQOO_INPUT_SHARED
    | c.MQOO_INPUT_EXCLUSIVE
    | c.MQOO_BROWSE
    | c.MQOO_INQUIRE
    | c.MQOO_SET
    | c.MQOO_SAVE_ALL_CONTEXT
)
_KNOWN = (
    c.MQOO_OUTPUT
    | c.MQOO_PASS_IDENTITY_CONTEXT
    | c.MQOO_PASS_ALL_CONTEXT
    | c.MQOO_SET_IDENTITY_CONTEXT
    | c.MQOO_SET_ALL_CONTEXT
    | c.MQOO_ALTERNATE_USER_AUTHORITY
    | c.MQOO_FAIL_IF_QUIESCING
    | c.MQOO_BIND_ON_OPEN
    | c.MQOO_BIND_NOT_FIXED
    | c.MQOO_BIND_ON_GROUP
    | c.MQOO_NO_MULTICAST
    | c.MQOO_RESOLVE_LOCAL_TOPIC
)


class TopicVerbs(ABC):
    """The publish/subscribe verbs of a session; class Session inherits from it."""

    core: Core
    _opened: OpenQueues
    context: Context
    unit_of_work: UnitOfWork
    authority: UserAuthority | None

    def publish(
        self,
        topic: str,
        body: bytes,
        *,
        time_to_live_ms: Life = None,
        delay_ms: Delay = 0,
        priority: int | None = None,
        persistent: bool | None = None,
        retain: bool = False,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
        report: int = c.MQRO_NONE,
        reply_to_q: str = "",
        format_name: str = "",
        warn_if_no_subscribers: bool = False,
        topic_object: str = "",
        properties: Mapping[str, object] | None = None,
    ) -> PublishResult:
        """Publish a message to all current subscriptions; each copy expires separately.

        In a transacted session the copies become visible at the commit, else at once. They arrive
        ``delay_ms`` after the call, or at that moment. ``time_to_live_ms`` None means unlimited
        expiry. Both are as in ``Session.put``. ``priority`` and ``persistent`` None mean the
        default of the topic. ``retain`` keeps the publication for later subscribers; an empty body
        then removes the kept one. The topic string of ``topic_object`` is put before ``topic``.
        With ``warn_if_no_subscribers`` the result's warning is MQRC_NO_SUBS_MATCHED when no
        subscription matched. ``properties`` are message properties (docs/MESSAGES.md); the other
        parameters are fields of the MQMD. Raises the errors of ``publish.publish``,
        MQRC_PROPERTY_NAME_ERROR, and MQRC_NOT_AUTHORIZED.
        """
        life_ms, delay_or_end_ms = times_of_put(time_to_live_ms, delay_ms)
        unit_of_work, body = self._unit_in_use(), bytes_of(body)
        descriptor = _descriptor(priority, persistent, report, reply_to_q, format_name)
        if properties:
            given = properties_of_mapping(properties)
            descriptor, body = with_properties(self.core, descriptor, body, given)
        request = PutRequest(
            descriptor,
            stored_id(msg_id, "msg_id"),
            stored_id(correl_id, "correl_id"),
            life_ms,
            delay_or_end_ms,
        )
        if topic_object:
            topic = self.core.registry.topics.full_string(topic_object, topic)
        in_unit = unit_of_work is not None
        result = self.publish_as(topic, body, request, syncpoint=in_unit, retain=retain)
        if warn_if_no_subscribers and not result.matched_count:
            return result._replace(warning=rc.MQRC_NO_SUBS_MATCHED)
        return result

    def publish_as(
        self,
        topic: str,
        body: bytes,
        request: PutRequest,
        *,
        syncpoint: bool,
        retain: bool = False,
        not_own: bool = False,
        only_here: bool = False,
        alias: str = "",
        check: Callable[[str], None] | None = None,
        journey: Journey = HERE,
        completion: Completion | None = None,
    ) -> PublishResult:
        """Do MQPUT to a topic with a descriptor made by the publisher.

        With ``syncpoint`` it is part of the session's unit of work; without, it is final at once.
        ``retain`` keeps the publication for later subscribers. ``not_own`` excludes subscriptions
        of this connection, ``only_here`` excludes other queue managers. ``alias`` is a queue alias
        whose topic replaces ``topic``. ``check`` replaces the check of the session's user authority
        on the topic. ``journey`` lists the queue managers that a neighbour's publication has
        visited. ``completion`` is as in ``Handle.put``. Raises the errors of ``publish.publish``,
        MQRC_PUBSUB_INHIBITED,
        MQRC_Q_DELETED for a deleted alias, and MQRC_NOT_AUTHORIZED.
        """
        self._unit_in_use()
        _check_mode(self.core)
        through = None
        if alias:
            through, topic = behind_alias(self.core.registry, alias)
        if check is None:
            _check_publisher(self.authority, topic)
        else:
            check(topic)
        return publish(
            self.core,
            topic,
            body,
            request,
            context=self.context,
            unit_of_work=self.unit_of_work if syncpoint else None,
            retains=retain,
            connection=self._opened.connection,
            not_own=not_own,
            only_here=only_here,
            alias=through,
            journey=journey,
            completion=completion,
        )

    def leads_to_topic(self, queue: str) -> bool:
        """Return True if a queue name is an alias of a topic, so that puts to it are published.

        False for other queues and unknown names.
        """
        return topic_alias(self.core.registry, queue) is not None

    def open_topic(
        self,
        topic: str,
        options: int,
        *,
        topic_object: str = "",
        alias: str = "",
        alternate_user: str = "",
    ) -> TopicHandle:
        """Do MQOPEN of a topic, or of the queue ``alias`` of a topic; return a publish handle.

        The topic string of ``topic_object`` is put before ``topic``. With
        MQOO_ALTERNATE_USER_AUTHORITY the authority of ``alternate_user`` is checked. Raises
        MQRC_PUBSUB_INHIBITED with PSMODE(DISABLED),
        MQRC_OPTIONS_ERROR, MQRC_OPTION_NOT_VALID_FOR_TYPE for options of queues,
        MQRC_TOPIC_STRING_ERROR, MQRC_UNKNOWN_OBJECT_NAME, MQRC_UNKNOWN_ALIAS_BASE_Q,
        MQRC_NOT_AUTHORIZED (C7), and MQRC_HANDLE_NOT_AVAILABLE beyond MAXHANDS.
        """
        self._unit_in_use()
        _check_options(options)
        _check_mode(self.core)
        core, authority = self.core, self.authority
        if options & c.MQOO_ALTERNATE_USER_AUTHORITY:
            authority = alternate_authority(core, authority, alternate_user)
        if alias:
            _alias, topic = behind_alias(core.registry, alias)
            if authority is not None:
                authority.check_open(alias, options)
        else:
            topic = core.registry.topics.full_string(topic_object, topic)
            check_topic_string(topic, wildcards=False)
        check = partial(_check_publisher, authority)
        check(topic)
        target = PublishTarget(topic, alias, check, self._opened.saved_message)
        return TopicHandle(core, self, target, self._opened.open_object("TOPIC", topic, options))

    def close_topic(self, handle: TopicHandle) -> None:
        """Close a topic handle of this session; closing it again does nothing."""
        self._opened.close_object(handle.opened)

    def belong_to(self, connection: object) -> None:
        """Set the connection of this session, which ``no_local`` subscriptions compare.

        Sessions with equal values are one connection: its ``no_local`` subscriptions ignore its
        publications. A str is a lasting name, such as a JMS client id: a durable ``no_local``
        subscription then ignores these publications even while it is closed.
        """
        self._opened.connection = connection

    def subscribe(
        self,
        topic: str = "",
        *,
        name: str = "",
        durable: bool = False,
        queue: str = "",
        selector: str = "",
        time_to_live_ms: Life = None,
        correl_id: Identifier | None = None,
        priority: int = PRIORITY_AS_PUBLISHED,
        shared: bool = False,
        no_local: bool = False,
        user_data: str = "",
        retained: bool = True,
        topic_object: str = "",
        replace: bool = False,
        on_request: bool = False,
        fixed_user: bool = False,
    ) -> OpenSubscription:
        """Do MQSUB: subscribe to a topic string; levels ``+`` and ``#`` are wildcards.

        The topic string of ``topic_object`` is put before ``topic``. Copies of the publications
        that ``selector`` accepts arrive on ``queue``, or on a managed queue when it is empty;
        ``priority`` is their priority. A durable subscription needs a name and outlives the
        session. Any subscription expires after ``time_to_live_ms``; None means never. With
        ``retained`` it gets the matching retained publications at once. ``correl_id`` is set in all
        copies; b"" asks for a new id, None passes on the publisher's. Several sessions may join a
        ``shared`` one by its name: each copy goes to one of them. ``no_local`` ignores publications
        of the same connection. ``user_data`` is text stored with the subscription (USERDATA).
        ``replace`` replaces a durable one of this name unless it is open. With ``on_request``
        copies arrive only on ``request_retained``. With ``fixed_user`` no other user may resume it.
        Raises MQRC_PUBSUB_INHIBITED, MQRC_SUB_ALREADY_EXISTS, MQRC_NOT_AUTHORIZED and the errors of
        ``subscribing.subscribe``.
        """
        self._unit_in_use()
        _check_mode(self.core)
        request = SubscribeRequest(
            topic=topic,
            topic_object=topic_object,
            name=name,
            is_durable=durable,
            queue=queue,
            selector=selector,
            correl_id=correl_id,
            life_ms=ms_of_duration(time_to_live_ms),
            priority=priority,
            is_shared=shared,
            ignores_own=no_local,
            user_data=user_data,
            takes_retained=retained,
            replaces=replace,
            on_request=on_request,
            user_is_fixed=fixed_user,
        )
        return subscribe(cast("Subscriber", self), self._opened, request)

    def resume(self, name: str) -> OpenSubscription:
        """Open a durable subscription again; messages that arrived meanwhile are on its queue.

        Raises MQRC_NO_SUBSCRIPTION when the name is unknown, MQRC_SUBSCRIPTION_IN_USE while a
        session has it open and it is not shared, MQRC_IDENTITY_MISMATCH, MQRC_NOT_AUTHORIZED and
        MQRC_PUBSUB_INHIBITED.
        """
        self._unit_in_use()
        _check_mode(self.core)
        return resume(cast("Subscriber", self), self._opened, name)

    def unsubscribe(self, name: str) -> None:
        """Remove a durable subscription; its managed queue is deleted with its messages.

        Raises MQRC_NO_SUBSCRIPTION when the name is unknown, MQRC_SUBSCRIPTION_IN_USE while a
        session has it open, MQRC_IDENTITY_MISMATCH and MQRC_NOT_AUTHORIZED.
        """
        self._unit_in_use()
        with self.core.definitions_lock:
            named = self.core.registry.subscriptions.named(name)
            check_user(cast("Subscriber", self), named, words.SUB, None)
            delete_subscription(self.core, name)

    def clear_retained(self, topic: str) -> bool:
        """Remove the retained publication of a topic at once, outside any unit of work.

        Returns True if one existed, else False. Raises MQRC_TOPIC_STRING_ERROR and
        MQRC_NOT_AUTHORIZED.
        """
        self._unit_in_use()
        check_topic_string(topic, wildcards=False)
        if self.authority is not None:
            self.authority.check_topic(topic, words.CLR)
        return clear_retained(self.core, topic)

    @abstractmethod
    def _unit_in_use(self) -> UnitOfWork | None:
        """Return the unit of work for puts under syncpoint, None when verbs take effect at once."""
        ...


def _check_mode(core: Core) -> None:
    """Raise MQRC_PUBSUB_INHIBITED while PSMODE(DISABLED) is set."""
    if core.registry.queue_manager.psmode == c.MQPSM_DISABLED:
        raise mq_error(rc.MQRC_PUBSUB_INHIBITED, f"{core.name} has PSMODE(DISABLED)")


class PublishTarget(NamedTuple):
    """Where a topic handle publishes: a topic string, or a queue alias that may be redefined.

    ``alias`` is empty without one. ``check`` raises MQRC_NOT_AUTHORIZED unless the user may publish
    to a topic string. ``saved_message`` returns the message whose context a queue handle has saved,
    by the number of that handle.
    """

    topic: str
    alias: str
    check: Callable[[str], None]
    saved_message: Callable[[int], Message]


class TopicHandle:
    """An open topic of a session, for publishing; closed by :meth:`close` or with its session."""

    def __init__(
        self, core: Core, verbs: TopicVerbs, target: PublishTarget, opened: OpenObject
    ) -> None:
        """Create the handle of a topic that ``verbs.open_topic`` has opened as ``opened``.

        ``target`` is the topic string or queue alias to publish to, with the check of the user's
        authority.
        """
        self._core = core
        self._verbs = verbs
        self._target = target
        self.opened = opened
        #: MQHOBJ.
        self.number = opened.number

    @property
    def is_open(self) -> bool:
        """Whether neither the handle nor its session has been closed."""
        return self.opened.is_open

    @property
    def topic(self) -> str:
        """The full topic string."""
        return self._target.topic

    def __index__(self) -> int:
        return self.number

    def put(
        self,
        body: bytes,
        request: PutRequest,
        options: int = c.MQPMO_NONE,
        context: SupportsIndex = c.MQHO_NONE,
        *,
        completion: Completion | None = None,
    ) -> PutResult:
        """Do MQPUT to the topic with MQPMO options; the result names no queue.

        ``context`` and ``completion`` are as in ``Handle.put``. The warning is MQRC_NO_SUBS_MATCHED
        when no subscription matched and MQPMO_WARN_IF_NO_SUBS_MATCHED is set. Raises
        MQRC_HOBJ_ERROR for a closed handle, MQRC_NOT_OPEN_FOR_SET_ALL or another
        MQRC_NOT_OPEN_FOR_…, MQRC_OPTIONS_ERROR (P10), and the errors of ``publish.publish``.
        MQPMO_SUPPRESS_REPLYTO hides the reply-to queue; a report then raises
        MQRC_MISSING_REPLY_TO_Q.
        """
        if not self.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"the handle of topic {self.topic!r} is closed")
        check_put_options(options, publishes=True)
        request = with_options(self._core, request, self.opened.options, options)
        if options & PASSES:
            request = with_passed_context(request, self._target.saved_message(index(context)))
        if options & c.MQPMO_SUPPRESS_REPLYTO:
            silent = request.descriptor._replace(reply_to_q="", reply_to_q_mgr="")
            request = request._replace(descriptor=silent)
        result = self._verbs.publish_as(
            self.topic,
            body,
            request,
            syncpoint=bool(options & c.MQPMO_SYNCPOINT),
            retain=bool(options & c.MQPMO_RETAIN),
            not_own=bool(options & c.MQPMO_NOT_OWN_SUBS),
            only_here=bool(options & c.MQPMO_SCOPE_QMGR),
            alias=self._target.alias,
            check=self._target.check,
            completion=completion,
        )
        warning = result.warning
        if options & c.MQPMO_WARN_IF_NO_SUBS_MATCHED and not result.matched_count:
            warning = rc.MQRC_NO_SUBS_MATCHED
        return PutResult(
            result.msg_id,
            request.correl_id,
            result.descriptor,
            result.window,
            warning,
            "",
            self._core.name,
        )

    def close(self, options: int = c.MQCO_NONE) -> None:
        """Do MQCLOSE; ``options`` may be MQCO_NONE or MQCO_QUIESCE.

        Raises MQRC_OPTION_NOT_VALID_FOR_TYPE for any other option, and MQRC_HOBJ_ERROR when the
        handle is closed already.
        """
        if not self.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"the handle of topic {self.topic!r} is closed")
        if options & ~c.MQCO_QUIESCE:
            text = f"close options {options:#x} for a topic"
            raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)
        self._verbs.close_topic(self)


def _check_options(options: int) -> None:
    """Check the MQOO bits: a topic can be opened for output only.

    Raises MQRC_OPTION_NOT_VALID_FOR_TYPE for options of queues. Raises MQRC_OPTIONS_ERROR for
    unknown options, or without MQOO_OUTPUT.
    """
    if options & _FOR_QUEUES:
        text = f"open options {options:#x}: a topic can only be published to"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)
    if options & ~_KNOWN or not options & c.MQOO_OUTPUT:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"open options {options:#x} for a topic")


def _check_publisher(authority: UserAuthority | None, topic: str) -> None:
    """Raise MQRC_NOT_AUTHORIZED unless the user may publish to a topic; None skips the check."""
    if authority is not None:
        authority.check_topic(topic, words.PUB)


@lru_cache(maxsize=1024)
def _descriptor(
    priority: int | None, persistent: bool | None, report: int, reply_to_q: str, format_name: str
) -> Descriptor:
    """Return the MQMD of a publication; None stands for the topic's default."""
    return Descriptor(
        report=report,
        priority=c.MQPRI_PRIORITY_AS_TOPIC_DEF if priority is None else priority,
        persistence=c.MQPER_PERSISTENCE_AS_TOPIC_DEF if persistent is None else int(persistent),
        reply_to_q=reply_to_q,
        format=format_name,
    )
