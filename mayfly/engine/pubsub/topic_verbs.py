"""The native verbs of publish/subscribe, which a session has beside put and get."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from mayfly.engine.attributes import PRIORITY_AS_PUBLISHED
from mayfly.engine.core import Core
from mayfly.engine.delivery import stored_id
from mayfly.engine.descriptors import Context
from mayfly.engine.opened import OpenQueues
from mayfly.engine.pubsub.publish import PublishResult, publish
from mayfly.engine.pubsub.retained import clear_retained
from mayfly.engine.pubsub.subscribing import OpenSubscription, SubscribeRequest, resume, subscribe
from mayfly.engine.pubsub.subscription_administration import delete_subscription
from mayfly.engine.pubsub.topic_strings import check_topic_string
from mayfly.engine.put import PutRequest
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.window import check_life_ms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor

if TYPE_CHECKING:
    from mayfly.engine.session import Session


class TopicVerbs:
    """What a session does with topics; the session gives it its core, context and unit of work."""

    _core: Core
    _opened: OpenQueues
    context: Context

    def publish(
        self,
        topic: str,
        body: bytes,
        *,
        time_to_live_ms: int | None = None,
        delay_ms: int = 0,
        priority: int | None = None,
        persistent: bool | None = None,
        retain: bool = False,
        msg_id: bytes | None = None,
        correl_id: bytes | None = None,
        report: int = c.MQRO_NONE,
        reply_to_q: str = "",
        format_name: str = "",
        warn_if_no_subscribers: bool = False,
        topic_object: str = "",
    ) -> PublishResult:
        """Publish to all who subscribe now, each with a copy and a lifetime of its own.

        ``priority`` and ``persistent`` None are the topic's. ``retain`` keeps it for later
        subscribers; an empty body then ends what was kept. ``topic`` stands behind the string of
        ``topic_object``. With ``warn_if_no_subscribers`` the result's warning says
        MQRC_NO_SUBS_MATCHED when nobody did. Raises as ``publish.publish``.
        """
        check_life_ms(time_to_live_ms)
        unit_of_work = self._unit_in_use()
        request = PutRequest(
            _descriptor(priority, persistent, report, reply_to_q, format_name),
            stored_id(msg_id),
            stored_id(correl_id),
            time_to_live_ms,
            delay_ms,
        )
        if topic_object:
            topic = self._core.registry.topics.full_string(topic_object, topic)
        result = publish(
            self._core,
            topic,
            _bytes_of(body),
            request,
            context=self.context,
            unit_of_work=unit_of_work,
            retains=retain,
            connection=self._opened.connection,
        )
        if warn_if_no_subscribers and not result.matched_count:
            return result._replace(warning=rc.MQRC_NO_SUBS_MATCHED)
        return result

    def subscribe(
        self,
        topic: str = "",
        *,
        name: str = "",
        durable: bool = False,
        queue: str = "",
        selector: str = "",
        time_to_live_ms: int | None = None,
        correl_id: bytes | None = None,
        priority: int = PRIORITY_AS_PUBLISHED,
        shared: bool = False,
        no_local: bool = False,
        user_data: str = "",
        retained: bool = True,
        topic_object: str = "",
    ) -> OpenSubscription:
        """MQSUB: subscribe to a topic string; levels ``+`` and ``#`` are wildcards.

        Copies arrive on ``queue``, or on a managed queue made for it. A durable one has a name and
        outlives the session; another ends with it. ``time_to_live_ms`` is the life of the
        subscription. ``retained`` says whether what is retained comes at once. ``correl_id`` stands
        in all copies, b"" asks for one of its own, None leaves the publisher's. A ``shared`` one
        has a name by which others join it: each copy goes to one of them. ``no_local`` leaves out
        what its own connection publishes. Raises MQRC_SUB_ALREADY_EXISTS and what else
        ``subscribing.subscribe`` does.
        """
        self._unit_in_use()
        request = SubscribeRequest(
            topic,
            topic_object,
            name,
            durable,
            queue,
            selector,
            correl_id,
            time_to_live_ms,
            priority,
            shared,
            no_local,
            user_data,
            retained,
        )
        return subscribe(cast("Session", self), self._opened, request)

    def resume(self, name: str) -> OpenSubscription:
        """Open a durable subscription again; what came meanwhile is on its queue.

        Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE while a session has it open.
        """
        self._unit_in_use()
        return resume(cast("Session", self), self._opened, name)

    def unsubscribe(self, name: str) -> None:
        """Remove a durable subscription and, where it is managed, its queue with what is there.

        Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE while a session has it open.
        """
        self._unit_in_use()
        delete_subscription(self._core, name)

    def clear_retained(self, topic: str) -> bool:
        """End the retained publication of a topic at once; tells whether there was one."""
        self._unit_in_use()
        check_topic_string(topic, wildcards=False)
        with self._core.latch:
            is_cleared = clear_retained(self._core, topic)
        self._core.run_deferred()
        return is_cleared

    def _unit_in_use(self) -> UnitOfWork | None:
        raise NotImplementedError


def _bytes_of(body: object) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise TypeError(f"body must be bytes, not {type(body).__name__}")


@lru_cache(maxsize=1024)
def _descriptor(
    priority: int | None, persistent: bool | None, report: int, reply_to_q: str, format_name: str
) -> Descriptor:
    return Descriptor(
        report=report,
        priority=c.MQPRI_PRIORITY_AS_TOPIC_DEF if priority is None else priority,
        persistence=c.MQPER_PERSISTENCE_AS_TOPIC_DEF if persistent is None else int(persistent),
        reply_to_q=reply_to_q,
        format=format_name,
    )
