"""A connection to a queue manager of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mayfly.connection.interface import Asynchronous, Objects
from mayfly.connection.local_calls import LocalCalls, LocalHeld
from mayfly.connection.local_claims import LocalClaims
from mayfly.connection.local_many import LocalMany
from mayfly.connection.local_onward import LocalOnward
from mayfly.connection.local_topics import LocalTopics
from mayfly.connection.objects import AnyHandle, OpenObjects, not_open_here
from mayfly.connection.onward import Held, Many, Onward
from mayfly.connection.operating import Administration, ClaimVerbs, ScheduleVerbs
from mayfly.connection.topics import Topics
from mayfly.connection.values import GetResult, Opened, Property, PutResult, Status
from mayfly.connection.virtual_time import virtual_time_of
from mayfly.engine import (
    GetRequest,
    Handle,
    Match,
    PutRequest,
    Session,
    full_name,
)
from mayfly.engine.face.programs import (
    ANY,
    DEFINITION_KINDS,
    DefinitionHandle,
    TopicHandle,
    check_get_options,
    with_properties,
)
from mayfly.lifetime.window import check_life_ms, life_ms_of_expiry
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.queue_manager import QueueManager

#: MQPUT1 opens no queue whose context could be passed on.
_NOT_FOR_PUT1 = c.MQPMO_ASYNC_RESPONSE | c.MQPMO_PASS_IDENTITY_CONTEXT | c.MQPMO_PASS_ALL_CONTEXT
#: With these alone a publication needs no open topic.
_OF_PLAIN_PUBLISHING = {
    syncpoint | retain
    for syncpoint in (c.MQPMO_NONE, c.MQPMO_SYNCPOINT, c.MQPMO_NO_SYNCPOINT)
    for retain in (c.MQPMO_NONE, c.MQPMO_RETAIN)
}
_SETS_CONTEXT = c.MQPMO_SET_IDENTITY_CONTEXT | c.MQPMO_SET_ALL_CONTEXT


class Holdings(NamedTuple):
    """How many handles of a connection are open, and deliveries not settled."""

    handle_count: int
    delivery_count: int


class LocalConnection:
    """One conversation over a session; see ``interface.Connection``, whose methods these are."""

    def __init__(self, session: Session, manager: QueueManager) -> None:
        """Take a session of a queue manager, which ends with it."""
        core = session.core
        self.name = core.name
        self.now_ms = core.now_ms
        #: The virtual time under which it waits, None where time goes by itself.
        self.virtual_time = virtual_time_of(manager.engine)
        self._objects = objects = OpenObjects(session)
        self.objects: Objects = objects
        topics = LocalTopics(session, objects)
        self.topics: Topics = topics
        calls = LocalCalls(session, objects)
        self.asynchronous: Asynchronous = calls
        self.held: Held = LocalHeld(session, objects)
        self.many: Many = LocalMany(session, objects)
        #: Verbs that move messages that the unit of work has got.
        self.got_messages = LocalOnward(session, objects)
        self.onward: Onward = self.got_messages
        self.runtime = core.runtime
        self.number = calls.number
        self.schedule: ScheduleVerbs = session.schedule
        #: The same, of which a caller can ask for changes at a position alone.
        self.own_schedule = session.schedule
        self.schedule_in_unit: ScheduleVerbs = session.schedule.within(session.unit_of_work)
        self._core, self._session, self._manager = core, session, manager
        self._handles = objects.handles
        #: Verbs with callbacks; the loop of a server also calls their forms that need none.
        self.calls, self._own_topics = calls, topics

    def open(
        self,
        name: str,
        options: int,
        *,
        kind: int = c.MQOT_Q,
        manager: str = "",
        topic: str = "",
        dynamic_name: str = "AMQ.*",
        selector: str | None = None,
        alternate_user: str = "",
    ) -> Opened:
        """MQOPEN."""
        handle = self._open(
            name,
            options,
            kind,
            manager,
            topic=topic,
            dynamic_name=dynamic_name,
            selector=selector,
            alternate_user=alternate_user,
        )
        if isinstance(handle, DefinitionHandle):
            return Opened(self._objects.enter(handle), kind, "", self.name)
        if isinstance(handle, TopicHandle):
            return self._opened_topic(handle)
        return self._opened_queue(handle)

    def _open(
        self,
        name: str,
        options: int,
        kind: int,
        manager: str,
        *,
        topic: str = "",
        dynamic_name: str = "AMQ.*",
        selector: str | None = None,
        alternate_user: str = "",
    ) -> AnyHandle:
        """Open what a name of a kind leads to; it has no number here yet."""
        session = self._session
        if kind == c.MQOT_Q:
            name = full_name(name, manager, self.name)
            if session.leads_to_topic(name):
                return session.open_topic("", options, alias=name, alternate_user=alternate_user)
            return session.open(
                name,
                options,
                dynamic_name=dynamic_name,
                selector=selector,
                alternate_user=alternate_user,
            )
        is_here = manager in ("", self.name)
        if kind == c.MQOT_TOPIC:
            if not is_here:
                said = f"topics of {manager!r} are not known here"
                raise mq_error(rc.MQRC_UNKNOWN_REMOTE_Q_MGR, said)
            return session.open_topic(
                topic, options, topic_object=name, alternate_user=alternate_user
            )
        if kind not in DEFINITION_KINDS:
            said = f"ObjectType {kind} is no queue and no topic"
            raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, said)
        if not is_here:
            said = f"{name} of {manager} is not to be opened here"
            raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
        of_kind = DEFINITION_KINDS[kind]
        return session.open_definition(of_kind, name, options, alternate_user=alternate_user)

    def close_object(self, handle: int, options: int = c.MQCO_NONE) -> int:
        """MQCLOSE."""
        closing = self._handles.get(handle)
        if closing is None:
            raise not_open_here(handle)
        reason = closing.close(options) or rc.MQRC_NONE
        del self._handles[handle]
        return reason

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        properties: Sequence[Property] = (),
        context: int = c.MQHO_NONE,
    ) -> PutResult | None:
        """MQPUT."""
        target = self._handles.get(handle)
        if not isinstance(target, (Handle, TopicHandle)):
            raise self._not_for_output(handle)
        if time_to_live_ms is not None:
            check_life_ms(time_to_live_ms)
        if expiry_tenths != c.MQEI_UNLIMITED:
            refuses_zero = self._core.settings.is_zero_refused
            time_to_live_ms = life_ms_of_expiry(expiry_tenths, refuse_zero=refuses_zero)
        if properties:
            descriptor, body = with_properties(self._core, descriptor, body, properties)
        request = PutRequest(descriptor, msg_id, correl_id, time_to_live_ms, delay_ms)
        if options & c.MQPMO_ASYNC_RESPONSE and isinstance(target, Handle):
            return target.put_async(body, request, options, context)
        return target.put(body, request, options, context)

    def put1(
        self,
        name: str,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        kind: int = c.MQOT_Q,
        manager: str = "",
        topic: str = "",
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
    ) -> PutResult:
        """MQPUT1."""
        if options & _NOT_FOR_PUT1:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"PMO.Options {options:#x} of MQPUT1")
        request = PutRequest(descriptor, msg_id, correl_id, time_to_live_ms, delay_ms)
        if kind == c.MQOT_TOPIC and not name and not manager and options in _OF_PLAIN_PUBLISHING:
            return self._publish(topic, body, request, options)
        opens = c.MQOO_OUTPUT
        if options & _SETS_CONTEXT:
            opens |= c.MQOO_SET_ALL_CONTEXT if options & c.MQPMO_SET_ALL_CONTEXT else 0
            opens |= c.MQOO_SET_IDENTITY_CONTEXT if options & c.MQPMO_SET_IDENTITY_CONTEXT else 0
        handle = self._open(name, opens, kind, manager, topic=topic)
        if not isinstance(handle, (Handle, TopicHandle)):
            handle.close()
            raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"ObjectType {kind} of MQPUT1")
        try:
            return handle.put(body, request, options)
        finally:
            handle.close()

    def _publish(self, topic: str, body: bytes, request: PutRequest, options: int) -> PutResult:
        """Publish without making a handle: the options of this put need none."""
        result = self._session.publish_as(
            topic,
            body,
            request,
            syncpoint=bool(options & c.MQPMO_SYNCPOINT),
            retain=bool(options & c.MQPMO_RETAIN),
        )
        return PutResult(
            result.msg_id,
            request.correl_id,
            result.descriptor,
            result.window,
            result.warning,
            "",
            self.name,
        )

    def get(
        self,
        handle: int,
        options: int = c.MQGMO_NONE,
        *,
        wait_ms: int = 0,
        max_length: int | None = None,
        msg_id: bytes = b"",
        correl_id: bytes = b"",
        group_id: bytes = b"",
        sequence_number: int | None = None,
        offset: int | None = None,
        token: bytes | None = None,
        in_handle: bool = False,
        with_extension: bool = False,
    ) -> GetResult:
        """MQGET."""
        source = self._handles.get(handle)
        if not isinstance(source, Handle):
            raise self._not_for_input(handle)
        match = ANY
        if group_id or sequence_number is not None or offset is not None:
            ids = msg_id or None, correl_id or None, group_id or None
            match = Match(*ids, sequence_number, offset, token=token)
        elif msg_id or correl_id or token is not None:
            match = Match(msg_id or None, correl_id or None, token=token)
        view = source.view(options, has_handle=in_handle)
        request = GetRequest(match, wait_ms, max_length, False, False, view, with_extension)
        return source.get(request, options)

    def unlock(self, handle: int, options: int = c.MQGMO_UNLOCK) -> int:
        """MQGET with MQGMO_UNLOCK."""
        check_get_options(options)
        return self._objects.queue(handle, rc.MQRC_NOT_OPEN_FOR_BROWSE).unlock()

    def status(self) -> Status:
        """MQSTAT."""
        return self._session.status()

    def commit(self) -> None:
        """MQCMIT."""
        self._session.commit()

    def backout(self) -> None:
        """MQBACK."""
        self._session.backout()

    def close(self, *, commit: bool = True) -> None:
        """MQDISC."""
        try:
            self.calls.end()
            self._session.close(commit=commit)
        finally:
            self._handles.clear()
            self._own_topics.end()

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return self._session.is_open

    @property
    def is_broken(self) -> bool:
        """Whether the queue manager is gone."""
        return self._core.is_stopped

    @property
    def socket(self) -> None:
        """None: it is in this process."""
        return None

    @property
    def holdings(self) -> Holdings:
        """How much it holds."""
        return Holdings(len(self._handles), len(self._session.deliveries))

    @property
    def admin(self) -> Administration:
        """The verbs of an operator."""
        self._check_operator()
        return self._manager

    @property
    def claims(self) -> ClaimVerbs:
        """The claims of pipelines."""
        self._check_operator()
        return LocalClaims(self._manager.claims)

    def _check_operator(self) -> None:
        if self._session.authority is not None:
            said = "a user of limited authority administers nothing"
            raise mq_error(rc.MQRC_NOT_AUTHORIZED, said)

    def _opened_queue(self, handle: Handle) -> Opened:
        number, name = handle.number, handle.queue_name
        self._handles[number] = handle
        queue, manager = handle.path.remote or (name, self.name)
        made = name if handle.owns_queue else ""
        kind = 0 if handle.path.remote else handle.queue.definition.definition_type
        return Opened(number, c.MQOT_Q, queue, manager, made, definition_type=kind)

    def _opened_topic(self, handle: TopicHandle) -> Opened:
        number = self._objects.enter(handle)
        return Opened(number, c.MQOT_TOPIC, "", self.name, topic=handle.topic)

    def _not_for_output(self, handle: int) -> Exception:
        if self._handles.get(handle) is None:
            return not_open_here(handle)
        return mq_error(rc.MQRC_NOT_OPEN_FOR_OUTPUT, f"handle {handle} cannot be put to")

    def _not_for_input(self, handle: int) -> Exception:
        if self._handles.get(handle) is None:
            return not_open_here(handle)
        return mq_error(rc.MQRC_NOT_OPEN_FOR_INPUT, f"handle {handle} is no queue")
