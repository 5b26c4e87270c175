"""An open topic: the handle of MQOPEN for a topic, or for an alias of one, and its puts."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import TYPE_CHECKING, NamedTuple, Protocol, SupportsIndex

from mayfly.engine.callbacks import Completion
from mayfly.engine.open_handles import OpenObject
from mayfly.engine.pubsub.publish import PublishResult
from mayfly.engine.put import PutRequest
from mayfly.engine.verb_options import PASSES, check_put_options, passed_on, with_options
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.messages import Message, PutResult

if TYPE_CHECKING:
    from mayfly.engine.core import Core

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


class Target(NamedTuple):
    """Where publications go: a topic string, or an alias, which may lead elsewhere later on.

    ``check`` asks for authority to publish to a topic string, of the user who counts;
    ``saved_message`` is what a handle has saved for a put that passes context on.
    """

    topic: str
    alias: str
    check: Callable[[str], None]
    saved_message: Callable[[int], Message]


class Publisher(Protocol):
    """The session of a handle: it publishes, and forgets a handle that is closed."""

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
        completion: Completion | None = None,
    ) -> PublishResult:
        """Publish with a descriptor."""

    def close_topic(self, handle: TopicHandle) -> None:
        """Close a handle."""


class TopicHandle:
    """One open topic of one session; closed by :meth:`close` or with its session."""

    def __init__(self, core: Core, verbs: Publisher, target: Target, opened: OpenObject) -> None:
        """Take what was opened; ``TopicVerbs.open_topic`` does."""
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
        """The topic string that was opened."""
        return self._target.topic

    def __index__(self) -> int:
        """Return the number of the handle, MQHOBJ."""
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
        """MQPUT to the topic, with MQPMO options; the queue of the result is empty.

        ``context`` and ``completion`` are as in ``Handle.put``.
        Warns of MQRC_NO_SUBS_MATCHED if MQPMO_WARN_IF_NO_SUBS_MATCHED asks for it. Raises
        MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_SET_ALL and its like, MQRC_OPTIONS_ERROR (P10),
        MQRC_MISSING_REPLY_TO_Q for a report without the reply-to queue that
        MQPMO_SUPPRESS_REPLYTO keeps back, and the reasons of ``publish.publish``.
        """
        if not self.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"the handle of topic {self.topic!r} is closed")
        check_put_options(options, publishes=True)
        request = with_options(self._core, request, self.opened.options, options)
        if options & PASSES:
            request = passed_on(request, self._target.saved_message(index(context)))
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
        """MQCLOSE; raises MQRC_HOBJ_ERROR, MQRC_OPTION_NOT_VALID_FOR_TYPE for any option."""
        if not self.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"the handle of topic {self.topic!r} is closed")
        if options & ~c.MQCO_QUIESCE:
            said = f"close options {options:#x} for a topic"
            raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
        self._verbs.close_topic(self)


def check_topic_options(options: int) -> None:
    """Raise MQRC_OPTION_NOT_VALID_FOR_TYPE for MQOO bits of queues, MQRC_OPTIONS_ERROR for others.

    A topic is opened for output and nothing else.
    """
    if options & _FOR_QUEUES:
        said = f"open options {options:#x}: a topic can only be published to"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
    if options & ~_KNOWN or not options & c.MQOO_OUTPUT:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"open options {options:#x} for a topic")
