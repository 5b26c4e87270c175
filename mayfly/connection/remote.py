"""A connection to a queue manager that another process serves (docs/WIRE.md)."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from operator import index

from mayfly.connection.choose import Sharing
from mayfly.connection.endpoint import Address, AnyAddress, Endpoint
from mayfly.connection.interface import Asynchronous, Objects
from mayfly.connection.local_puts import PutTarget
from mayfly.connection.onward import Held, Many, Onward
from mayfly.connection.operating import Administration, ClaimVerbs, ScheduleVerbs
from mayfly.connection.remote_calls import RemoteCalls, RemoteHeld, RemoteMany, RemoteOnward
from mayfly.connection.remote_conversation import Conversation
from mayfly.connection.remote_link import Link
from mayfly.connection.remote_objects import RemoteObjects, RemoteTopics
from mayfly.connection.remote_operating import RemoteAdministration, RemoteClaims, RemoteSchedule
from mayfly.connection.remote_puts import UnansweredPuts
from mayfly.connection.remote_sharing import Way, shared_links
from mayfly.connection.remote_stream import opened
from mayfly.connection.topics import Topics
from mayfly.connection.values import GetResult, Opened, Property, PutResult, Status
from mayfly.connection.virtual_time import VirtualTime, virtual_time_here
from mayfly.contracts.wire_fields import packed_descriptor
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import ConnectionBroken, MQError, mq_error
from mayfly.runtime import Runtime
from mayfly.runtime.virtual_clock import this_process
from mayfly.verbs import requests as ask
from mayfly.verbs.rows import put_of, result_of, rows_of_properties

#: After an error with one of these reasons, the next address of the list is tried.
_TRY_NEXT = frozenset(
    {
        rc.MQRC_Q_MGR_NOT_AVAILABLE,
        rc.MQRC_HOST_NOT_AVAILABLE,
        rc.MQRC_Q_MGR_NAME_ERROR,
        rc.MQRC_Q_MGR_QUIESCING,
        rc.MQRC_Q_MGR_STOPPING,
        rc.MQRC_CONNECTION_BROKEN,
    }
)


def connect(
    endpoint: Endpoint,
    user: str = "",
    password: str = "",
    *,
    application: str = "",
    sharing: Sharing | None = None,
) -> RemoteConnection:
    """Connect to the queue manager of an endpoint, whose addresses are tried in order.

    ``application`` becomes PutApplName. ``sharing`` None shares sockets with all of the process, as
    far as the endpoint does. Raises MQRC_Q_MGR_NOT_AVAILABLE where nobody listens,
    or somebody of another protocol or version does, MQRC_HOST_NOT_AVAILABLE,
    MQRC_Q_MGR_NAME_ERROR, MQRC_UNKNOWN_CHANNEL_NAME, MQRC_CHANNEL_NOT_AVAILABLE,
    MQRC_SSL_INITIALIZATION_ERROR, MQRC_NOT_AUTHORIZED. Of several addresses the last one says why.
    """
    failure: MQError | None = None
    for address in endpoint.addresses:
        try:
            return _connected_to(address, endpoint, (user, password), application, sharing)
        except MQError as error:
            if error.reason not in _TRY_NEXT:
                raise
            failure = error
    if failure is None:
        raise mq_error(rc.MQRC_HOST_NOT_AVAILABLE, "the endpoint has no address")
    raise failure


def _connected_to(
    address: AnyAddress,
    endpoint: Endpoint,
    who: tuple[str, str],
    application: str,
    sharing: Sharing | None,
) -> RemoteConnection:
    """Connect over a socket that others share, if there is one with room, else over a new one."""
    way, group = None, None
    if sharing is not None:
        group, most = sharing.group, min(sharing.most, endpoint.share_conversations)
        endpoint = endpoint._replace(share_conversations=most)
    if isinstance(address, Address) and endpoint.share_conversations > 1:
        way = Way(address, endpoint._replace(addresses=()), *who, group)
        conversation = shared_links().place(way)
        if conversation is not None:
            link = conversation.link
            try:
                return _connected(conversation, endpoint, who, application)
            except MQError as error:
                conversation.leave()
                # It was about to end, or the server has not yet forgotten one that has ended.
                if not link.is_over and error.reason != rc.MQRC_CHANNEL_NOT_AVAILABLE:
                    raise
            except BaseException:
                conversation.leave()
                raise
    runtime = Runtime()
    link = Link(opened(endpoint, address, runtime), address, runtime)
    try:
        made = _connected(Conversation(link), endpoint, who, application)
    except BaseException:
        link.close()
        raise
    if way is not None:
        shared_links().add(way, link)
    return made


def _connected(
    conversation: Conversation, endpoint: Endpoint, who: tuple[str, str], application: str
) -> RemoteConnection:
    user, password = who
    # A user or program name from the environment may contain bytes that are no text.
    named = [each.encode(errors="replace").decode() for each in (user, application)]
    said = endpoint.channel, endpoint.queue_manager, named[0], password, named[1]
    terms = conversation.call(ask.Connect(*said, endpoint.heartbeat_s * SECOND_MS, this_process()))
    if terms.process == this_process():
        conversation.virtual_time = virtual_time_here(terms.queue_manager, terms.number)
    most_members = min(terms.share_conversations, endpoint.share_conversations)
    conversation.link.let_in(terms.heartbeat_ms, most_members)
    most_bytes = min(terms.max_message_bytes, endpoint.max_message_bytes)
    return RemoteConnection(conversation, terms.queue_manager, terms.number, most_bytes)


class RemoteConnection:
    """One conversation over a link; see ``interface.Connection``, whose methods these are."""

    def __init__(
        self, conversation: Conversation, name: str, number: int, max_message_bytes: int
    ) -> None:
        """Take a conversation that was let in."""
        self.name, self.number = name, number
        self._conversation = conversation
        self._call = conversation.call
        self._puts = UnansweredPuts(conversation, max_message_bytes)
        self.objects: Objects = RemoteObjects(conversation)
        self.topics: Topics = RemoteTopics(conversation)
        self.asynchronous: Asynchronous = RemoteCalls(conversation, self._puts)
        self.schedule: ScheduleVerbs = RemoteSchedule(conversation)
        self.schedule_in_unit: ScheduleVerbs = RemoteSchedule(conversation, in_unit=True)
        self.held: Held = RemoteHeld(conversation)
        self.many: Many = RemoteMany(conversation)
        self.onward: Onward = RemoteOnward(conversation)
        self.runtime = conversation.link.runtime
        self._admin = RemoteAdministration(conversation)
        self._finish = weakref.finalize(self, conversation.drop)
        self._finish.atexit = False

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
        opened = self._call(
            ask.Open(name, options, kind, manager, topic, dynamic_name, selector, alternate_user)
        )
        self._conversation.open_handles[opened.handle] = opened.kind
        return opened

    def close_object(self, handle: int, options: int = c.MQCO_NONE) -> int:
        """MQCLOSE."""
        reason = self._call(ask.CloseObject(index(handle), options))
        self._conversation.open_handles.pop(handle, None)
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
        self._puts.check_length(body)
        rows = rows_of_properties(properties) if properties else []
        if options & c.MQPMO_ASYNC_RESPONSE:
            target = PutTarget(index(handle), descriptor, options, index(context))
            if self._puts.is_one(target):
                return self._puts.send(
                    target,
                    ask.NewMessageRow(
                        body, msg_id, correl_id, expiry_tenths, time_to_live_ms, delay_ms, rows
                    ),
                )
        request = ask.Put(
            index(handle),
            body,
            packed_descriptor(descriptor),
            options,
            msg_id,
            correl_id,
            expiry_tenths,
            time_to_live_ms,
            delay_ms,
            rows,
            index(context),
        )
        return put_of(self._call(request))

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
        self._puts.check_length(body)
        request = ask.Put1(
            name,
            body,
            packed_descriptor(descriptor),
            options,
            kind,
            manager,
            topic,
            msg_id,
            correl_id,
            time_to_live_ms,
            delay_ms,
        )
        result = put_of(self._call(request))
        assert result is not None
        return result

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
        request = ask.Get(
            index(handle),
            options,
            wait_ms,
            max_length,
            msg_id,
            correl_id,
            group_id,
            sequence_number,
            offset,
            token,
            in_handle,
            with_extension,
        )
        return result_of(self._call(request))

    def unlock(self, handle: int, options: int = c.MQGMO_UNLOCK) -> int:
        """MQGET with MQGMO_UNLOCK."""
        return self._call(ask.Unlock(index(handle), options))

    def status(self) -> Status:
        """MQSTAT; raises what was wrong with an asynchronous put."""
        failure = self._puts.end()
        if failure is not None:
            raise failure
        return self._call(ask.AskStatus())

    def commit(self) -> None:
        """MQCMIT."""
        self._puts.check_before_commit()
        self._call(ask.Commit())

    def backout(self) -> None:
        """MQBACK."""
        self._call(ask.Backout())

    def close(self, *, commit: bool = True) -> None:
        """MQDISC."""
        conversation = self._conversation
        if conversation.is_closed:
            return
        self._finish.detach()
        try:
            if not conversation.link.is_over:
                if commit:
                    self._puts.check_before_commit()
                self._call(ask.Disconnect(commit))
        except ConnectionBroken:
            # A unit of work whose connection is gone is backed out: only a commit has failed.
            if commit:
                raise
        finally:
            conversation.close()

    @property
    def virtual_time(self) -> VirtualTime | None:
        """The virtual clock of a server in this process, None for any other."""
        return self._conversation.virtual_time

    def now_ms(self) -> int:
        """Return the queue manager's time."""
        return self._call(ask.Now())

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return not self._conversation.is_closed

    @property
    def is_broken(self) -> bool:
        """Whether the server is gone."""
        self._conversation.link.check()
        return self._conversation.link.is_over and not self._conversation.is_closed

    @property
    def socket(self) -> int:
        """The number of its socket, 0 when it is gone."""
        link = self._conversation.link
        return 0 if link.is_over or self._conversation.is_closed else link.number

    @property
    def admin(self) -> Administration:
        """The verbs of an operator; the server refuses a user with limited authority."""
        return self._admin

    @property
    def claims(self) -> ClaimVerbs:
        """The claims of pipelines."""
        return RemoteClaims(self._conversation)
