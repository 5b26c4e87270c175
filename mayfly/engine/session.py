"""Session: the connection of a user to a queue manager, with native verbs and a unit of work."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from types import TracebackType
from typing import Self

from mayfly.engine.authority import words
from mayfly.engine.authority.checks import Caller, alternate_authority, authority_of
from mayfly.engine.browse import Cursor
from mayfly.engine.callbacks import Completion
from mayfly.engine.core import Core
from mayfly.engine.delay.schedule import SessionSchedule
from mayfly.engine.descriptors import Context
from mayfly.engine.events.messages import report_failure
from mayfly.engine.finding.search import ANY, Match, selector_of
from mayfly.engine.get import GetRequest, Getter, get, get_many, next_message
from mayfly.engine.handles import Handle, HandleSession
from mayfly.engine.objects.administration import create_dynamic_queue
from mayfly.engine.objects.inquire import DefinitionHandle, open_definition
from mayfly.engine.objects.registry import ResolvedQueue, path_of_put
from mayfly.engine.open_handles import OpenQueues, begin_verb
from mayfly.engine.properties import with_properties
from mayfly.engine.pubsub.topic_verbs import TopicVerbs
from mayfly.engine.put import PutRequest, plain_request, put, put_unique
from mayfly.engine.remote_queues import check_remote_open
from mayfly.engine.settlement import Deliveries
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.engine.verb_options import check_open_options
from mayfly.lifetime.times import ms_of_duration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage, mq_error
from mayfly.verbs.checks import (
    Delay,
    Duration,
    Identifier,
    Life,
    bytes_of,
    check_max_messages,
    stored_id,
    times_of_put,
)
from mayfly.verbs.contracts.outcomes import terminated_by_program
from mayfly.verbs.facts import Status
from mayfly.verbs.messages import Message
from mayfly.verbs.properties.folders import properties_of_mapping
from mayfly.verbs.schedule import IF_EXISTS, REPLACES, check_key, key_id

_numbers = count(1)
_DELETES = c.MQCO_DELETE | c.MQCO_DELETE_PURGE


class Session(TopicVerbs):
    """One connection to a queue manager, with one unit of work.

    One thread uses it at a time, but any thread may close it, which ends its waits. When it is
    transacted, every put and get is part of its unit of work. Leaving the ``with`` block commits;
    leaving it by an exception backs out. Verbs raise MQError with the reason code, except that
    :meth:`get` returns None for an empty queue.
    """

    def __init__(
        self,
        core: Core,
        user: str | None,
        *,
        transacted: bool,
        program: str,
        groups: Sequence[str] | None = (),
        known_as: str = "",
        address: str = "",
        channel: str = "",
        is_foreign_client: bool = False,
    ) -> None:
        """Connect a user to the queue manager; called by ``Engine.session``.

        ``user`` None connects without authority checks; ``known_as`` is then the name in messages
        and ledger. ``transacted`` lets puts and gets wait for a commit. ``groups`` None takes the
        groups that are known of the user. ``address`` and ``channel`` are those of a client.
        ``is_foreign_client`` is True for a program in another process. Raises MQRC_NOT_AUTHORIZED
        for a user without CONNECT.
        """
        #: The engine of the queue manager that it is connected to.
        self.core = core
        caller = Caller(program, address, channel)
        #: The user's rights; None for an administrator: everything.
        self.authority = authority_of(core, user or "", groups, known_as=known_as, caller=caller)
        #: Whether its puts and gets wait for a commit or backout.
        self.is_transacted = transacted
        user = user or known_as
        self.context = Context(user, c.MQAT_UNIX, program, core.name)
        terminated_by = terminated_by_program(user, program)
        self.unit_of_work = UnitOfWork(core, terminated_by)
        self._opened = OpenQueues(core, self.unit_of_work)
        #: The messages that it holds beside its unit of work.
        self.deliveries = Deliveries(core, terminated_by)
        # Dropped without close, it ends like a program that fails: backed out (G9).
        end = partial(_abandon, self._opened, self.deliveries)
        self._abandon = weakref.finalize(self, core.left_behind.sessions.append, end)
        self._abandon.atexit = False
        self.is_open = True
        self._is_foreign_client = is_foreign_client
        if is_foreign_client:
            with core.engine_lock:
                core.foreign_client_count += 1
        #: By it programs and operators name the connection; no other one of the process has it.
        self.number = next(_numbers)
        self.connected_ms = core.now_ms()
        #: Why its verbs fail once it is closed.
        self.end_error = mq_error(rc.MQRC_HCONN_ERROR, "the session is closed")

    def put(
        self,
        queue: str,
        body: bytes,
        *,
        time_to_live_ms: Life = None,
        delay_ms: Delay = 0,
        priority: int | None = None,
        persistent: bool | None = None,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
        report: int = c.MQRO_NONE,
        reply_to_q: str = "",
        msg_type: int = c.MQMT_DATAGRAM,
        format_name: str = "",
        properties: Mapping[str, object] | None = None,
        key: str | None = None,
        if_exists: str = "refuse",
    ) -> bytes:
        """Put a message and return its MsgId, 24 bytes.

        ``msg_id`` and ``correl_id`` are up to 24 bytes, or their hexadecimal digits; without
        ``msg_id`` the message gets a new MsgId. ``queue`` and ``reply_to_q`` may be
        ``QUEUE@MANAGER``, for a queue of another queue manager (C2). ``time_to_live_ms`` None never
        expires; with ``delay_ms`` the message waits on the staging queue first. Both are ms or a
        timedelta; ``delay_ms`` may be the moment of delivery, a datetime with a time zone, and a
        past one delivers at once. ``priority`` and ``persistent`` None are the defaults of the
        queue. ``report``, ``msg_type`` and ``format_name`` are fields of the MQMD, ``properties``
        the message properties by name. In a transacted session the message becomes visible at the
        commit. In any other it is visible on return, and a persistent message is durable.

        A delayed message with a ``key`` is the only one for its queue that waits under it. While
        one waits, ``if_exists`` "refuse" refuses the put with MQRC_OBJECT_ALREADY_EXISTS, and
        "replace" cancels that one in the same unit of work (D34).

        Nothing is put on an error: MQRC_EXPIRY_ERROR (E2, D7), MQRC_UNKNOWN_OBJECT_NAME,
        MQRC_Q_FULL, MQRC_PUT_INHIBITED, MQRC_MSG_TOO_BIG_FOR_Q, MQRC_PROPERTY_NAME_ERROR, and those
        of a wrong descriptor (P1, P8).
        """
        life_ms, delay_or_end_ms = None, 0
        has_times = time_to_live_ms is not None or delay_ms or type(delay_ms) is not int
        if has_times:
            life_ms, delay_or_end_ms = times_of_put(time_to_live_ms, delay_ms)
        if type(body) is not bytes:
            body = bytes_of(body)
        request = plain_request(priority, persistent, report, reply_to_q, msg_type, format_name)
        unique = 0
        if has_times or msg_id or correl_id or key is not None:
            own_id = stored_id(msg_id, "msg_id") if msg_id else b""
            if key is not None:
                check_key(key, if_exists, msg_id)
                own_id, unique = key_id(queue, key), IF_EXISTS[if_exists]
            other_id = stored_id(correl_id, "correl_id") if correl_id else b""
            request = PutRequest(request.descriptor, own_id, other_id, life_ms, delay_or_end_ms)
        if properties:
            given = properties_of_mapping(properties)
            descriptor, body = with_properties(self.core, request.descriptor, body, given)
            request = request._replace(descriptor=descriptor)
        try:
            path = path_of_put(self.core.registry, queue)
        except MQError as error:
            report_failure(self.core, self.context, error, queue)
            raise
        if path is None:
            if self.authority is not None:
                self.authority.check_queue(queue, words.PUT)
            if unique:
                raise mq_error(rc.MQRC_OPTIONS_ERROR, f"key: {queue} is the alias of a topic")
            in_unit = self._usable()
            return self.publish_as("", body, request, syncpoint=in_unit, alias=queue).msg_id
        if self.authority is not None:
            self.authority.check_queue(queue, words.PUT)
        unit = self.unit_of_work if self._usable() else None
        context = self.context
        if unique:
            return put_unique(
                self.core,
                path,
                body,
                request,
                context=context,
                unit_of_work=unit,
                replaces=bool(unique & REPLACES),
            ).msg_id
        return put(self.core, path, body, request, context=context, unit_of_work=unit).msg_id

    def get(
        self,
        queue: str,
        *,
        wait_ms: Duration = 0,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
        selector: str | None = None,
    ) -> Message | None:
        """Take the next matching message, or return None when none came within ``wait_ms``.

        ``wait_ms`` is ms or a timedelta; -1 waits for ever. ``msg_id``, ``correl_id`` and
        ``selector`` None match every message. In a transacted session the get is final at the
        commit, else on return. ``selector`` is a condition like ``"colour = 'red' AND JMSPriority >
        4"``; for many gets with one selector, :meth:`open` a handle, which remembers the refused
        messages. Raises MQRC_SELECTOR_SYNTAX_ERROR, MQRC_GET_INHIBITED, MQRC_UNKNOWN_OBJECT_NAME,
        MQRC_NOT_AUTHORIZED, and MQRC_OBJECT_IN_USE while another session has the queue open for
        exclusive input.
        """
        unit_of_work = self.unit_of_work if self._usable() else None
        core, requester = self.core, self._opened.requester
        try:
            # As _path_to_get does, without a call.
            path = core.registry.resolve(queue)
            if self.authority is not None:
                self.authority.check_queue(queue, words.GET)
            if path.queue.exclusive_holder is not None:
                self._check_exclusive(path)
            if not wait_ms and msg_id is None and correl_id is None and selector is None:
                return next_message(core, path, unit_of_work, requester)
            request = GetRequest(_match(msg_id, correl_id, selector), ms_of_duration(wait_ms))
            return get(core, path, request, unit_of_work, requester).message
        except NoMessage:
            return None
        except MQError as error:
            report_failure(core, self.context, error, queue)
            raise

    def get_many(self, queue: str, max_messages: int, *, wait_ms: Duration = 0) -> list[Message]:
        """Take up to ``max_messages`` messages in get order; only the first one is waited for.

        Returns [] when none came within ``wait_ms``. Without a unit of work one transaction takes
        them all. Raises the errors of :meth:`get`.
        """
        check_max_messages(max_messages)
        unit_of_work = self.unit_of_work if self._usable() else None
        path = self._path_to_get(queue)
        request, requester = GetRequest(wait_ms=ms_of_duration(wait_ms)), self._opened.requester
        getter = Getter(self.core, path, request, unit_of_work, requester)
        return get_many(self.core, getter, max_messages, unit_of_work)

    def browse(
        self,
        queue: str,
        *,
        msg_id: Identifier | None = None,
        correl_id: Identifier | None = None,
        selector: str | None = None,
    ) -> Iterator[Message]:
        """Yield the matching messages of a queue in get order.

        The parameters are those of :meth:`get`. Each message is read when the caller needs it. They
        stay on the queue. The errors of :meth:`get` are raised at the next message, not at the
        call.
        """
        self._usable()
        path = self.core.registry.resolve(queue)
        if self.authority is not None:
            self.authority.check_queue(queue, words.BROWSE)
        cursor = Cursor(self.core, path, self._opened.requester)
        request = GetRequest(_match(msg_id, correl_id, selector))
        while self._usable() is not None:
            try:
                result = cursor.browse(request)
            except NoMessage:
                return
            yield result.message

    @property
    def schedule(self) -> SessionSchedule:
        """An object to list, show, cancel, reschedule and release the delayed messages."""
        terminated_by = self._opened.requester.terminated_by
        return SessionSchedule(self.core, terminated_by, self._unit_in_use, self.authority)

    def _unit_in_use(self) -> UnitOfWork | None:
        """Return the unit of work if transacted, else None; raises MQRC_HCONN_ERROR."""
        return self.unit_of_work if self._usable() else None

    def commit(self, completion: Completion | None = None) -> None:
        """Commit the unit of work: puts become visible, gets final.

        Raises MQRC_BACKED_OUT after a failed asynchronous put, MQRC_STORAGE_MEDIUM_FULL (all is
        undone), and MQRC_CONNECTION_BROKEN (outcome unknown). With a ``completion`` nothing is
        durable on return: the caller runs the transaction that the completion has then.
        """
        self._usable()
        self.unit_of_work.commit(completion)

    def backout(self) -> None:
        """Back out the unit of work: its puts are undone, its gets return to their queues.

        The backout counts of the returned messages are raised by 1.
        """
        self._usable()
        self.unit_of_work.backout()

    def status(self) -> Status:
        """Return counts and first error of the asynchronous puts since the last call (MQSTAT, P13).

        The counts begin anew.
        """
        self._usable()
        return self._opened.async_puts.take()

    def open(
        self,
        name: str,
        options: int,
        *,
        dynamic_name: str = "AMQ.*",
        selector: str | None = None,
        alternate_user: str = "",
    ) -> Handle:
        """Open a queue (MQOPEN) and return its handle; a model queue makes a dynamic queue.

        ``options`` are MQOO_*, ``selector`` is OD.SelectionString. ``dynamic_name`` is the name of
        the dynamic queue; a ``*`` at its end is replaced by a unique text. With
        MQOO_ALTERNATE_USER_AUTHORITY the authority of ``alternate_user`` counts. Raises
        MQRC_OPTIONS_ERROR, MQRC_UNKNOWN_OBJECT_NAME, MQRC_NOT_AUTHORIZED (C7), MQRC_OBJECT_IN_USE
        (C4), MQRC_HANDLE_NOT_AVAILABLE (MAXHANDS), MQRC_DYNAMIC_Q_NAME_ERROR,
        MQRC_SELECTOR_SYNTAX_ERROR, MQRC_SELECTION_STRING_ERROR, MQRC_SELECTOR_ALWAYS_FALSE.
        """
        self._usable()
        core = self.core
        check_open_options(name, options)
        compiled = selector_of(selector)
        self._opened.check_capacity()
        authority = self.authority
        if options & c.MQOO_ALTERNATE_USER_AUTHORITY:
            authority = alternate_authority(core, authority, alternate_user)
        if authority is not None:
            authority.check_open(name, options)
        owners = () if authority is None else (authority.user,)
        created = create_dynamic_queue(core, name, dynamic_name, owners)
        try:
            with core.engine_lock:
                path = core.registry.resolve_target(name if created is None else created)
                if path.remote is not None:
                    check_remote_open(name, options)
                owns_queue = created is not None
                opened = self._opened.open(path.queue, options, owns_queue=owns_queue)
        except MQError as error:
            report_failure(core, self.context, error, name)
            raise
        core.committer.run_deferred()
        if self._opened.requester.is_ended:
            # Another thread closes the session, and may have closed all handles before this one.
            self._opened.close(opened)
            raise self._opened.requester.error()
        # A handle keeps its session; the other way round it could only be collected, not dropped.
        owner = HandleSession(
            self.context, self.unit_of_work, self.close_handle, self._opened, authority
        )
        return Handle(core, path, opened, owner, selector=compiled)

    def open_definition(
        self, kind: str, name: str, options: int, *, alternate_user: str = ""
    ) -> DefinitionHandle:
        """Open a process or the queue manager (MQOPEN) to inquire or set its attributes.

        ``kind`` is PROCESS or QMGR. With MQOO_ALTERNATE_USER_AUTHORITY the authority of
        ``alternate_user`` counts. Raises MQRC_OPTIONS_ERROR, MQRC_OPTION_NOT_VALID_FOR_TYPE,
        MQRC_UNKNOWN_OBJECT_NAME, MQRC_NOT_AUTHORIZED, MQRC_HANDLE_NOT_AVAILABLE.
        """
        self._usable()
        authority = self.authority
        if options & c.MQOO_ALTERNATE_USER_AUTHORITY:
            authority = alternate_authority(self.core, authority, alternate_user)
        return open_definition(self._opened, authority, kind, name, options)

    def close_handle(self, handle: Handle, options: int = c.MQCO_NONE) -> None:
        """Close a handle (MQCLOSE).

        MQCO_DELETE and MQCO_DELETE_PURGE delete a permanent dynamic queue (C9). Gets that wait on
        other threads end with MQRC_HOBJ_ERROR. The handle stays open on an error:
        MQRC_NOT_AUTHORIZED, MQRC_OPTIONS_ERROR, MQRC_OPTION_NOT_VALID_FOR_TYPE, MQRC_Q_NOT_EMPTY.
        """
        if options & _DELETES and self.authority is not None:
            self.authority.check_queue(handle.queue_name, words.DLT, None)
        self._opened.close(handle.opened, options)

    def close(self, *, commit: bool = True) -> None:
        """Disconnect: commit the open unit of work (MQDISC), or back it out (G9).

        Messages that are held separately (``deliveries``) and not acknowledged go back to their
        queues, backout counts raised. Gets that wait on other threads end with MQRC_HCONN_ERROR. A
        second call does nothing.
        """
        if not self.is_open:
            return
        try:
            if self.core.is_stopped:
                return
            self._opened.end_waits(self.end_error, is_backed_out=not commit)
            try:
                self.deliveries.end()
            finally:
                self._end_unit(commit=commit)
        finally:
            self.is_open = False
            self._abandon.detach()
            if self._is_foreign_client:
                with self.core.engine_lock:
                    self.core.foreign_client_count -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit or, after an exception, back out; then disconnect."""
        self.close(commit=kind is None)

    def beside(
        self, unit_of_work: UnitOfWork | None = None, *, as_manager: bool = False
    ) -> Session:
        """Return another transacted session of the same user and program.

        Its unit of work is ``unit_of_work``, or a new one for None. ``as_manager`` gives it the
        authority of the queue manager in place of the user's. The connections that operators see do
        not have it.
        """
        user, _kind, program, _manager = self.context
        session = Session(self.core, None, transacted=True, program=program, known_as=user)
        session.authority = None if as_manager else self.authority
        if unit_of_work is not None:
            session.unit_of_work = unit_of_work
        return session

    def _end_unit(self, *, commit: bool) -> None:
        """Commit or back out the unit of work, then close all handles and subscriptions."""
        try:
            if commit:
                self.unit_of_work.commit()
            else:
                self.unit_of_work.backout()
        finally:
            self._opened.close_all()

    def _usable(self) -> bool:
        """Begin a verb: return True if the session is transacted.

        Raises MQRC_HCONN_ERROR when closed, MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
        """
        if not self.is_open:
            raise mq_error(self.end_error.reason, self.end_error.detail)
        begin_verb(self.core)
        return self.is_transacted

    def _path_to_get(self, name: str) -> ResolvedQueue:
        """Return the resolved queue of a name, for a get.

        Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_NOT_AUTHORIZED, and MQRC_OBJECT_IN_USE for exclusive
        input elsewhere.
        """
        try:
            path = self.core.registry.resolve(name)
        except MQError as error:
            report_failure(self.core, self.context, error, name)
            raise
        if self.authority is not None:
            self.authority.check_queue(name, words.GET)
        if path.queue.exclusive_holder is not None:
            self._check_exclusive(path)
        return path

    def _check_exclusive(self, path: ResolvedQueue) -> None:
        """Raise MQRC_OBJECT_IN_USE if another session has the queue open for exclusive input."""
        if path.queue.exclusive_holder not in self._opened:
            raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{path.queue.name} is open for exclusive input")


def _abandon(opened: OpenQueues, deliveries: Deliveries) -> None:
    """Back out a session that its program has dropped without a close."""
    try:
        opened.abandon()
    finally:
        deliveries.end()


def _match(msg_id: Identifier | None, correl_id: Identifier | None, selector: str | None) -> Match:
    """Return match options for MsgId, CorrelId and selector; None for any of them matches all.

    Raises the error of a wrong id or selector.
    """
    match = ANY
    if msg_id is not None or correl_id is not None:
        match = Match(
            stored_id(msg_id, "msg_id") or None, stored_id(correl_id, "correl_id") or None
        )
    compiled = selector_of(selector)
    return match if compiled is None else match.narrowed(compiled)
