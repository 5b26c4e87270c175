"""Copies of a publication for its subscribers: their descriptors, rows, and delayed copies."""

from __future__ import annotations

from typing import Any

from mayfly.engine.attributes import PRIORITY_AS_PUBLISHED, PRIORITY_AS_QUEUE
from mayfly.engine.core import Core
from mayfly.engine.delay.staging import CAP_AT_RELEASE, Delayed, staged_row, staging_path
from mayfly.engine.delivery import MessageIds, OutgoingMessage, new_row
from mayfly.engine.descriptors import Prepared
from mayfly.engine.disposal import prepared_with_own_context
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.engine.unit_of_work import UncommittedPut
from mayfly.lifetime.window import Window, window_at_put
from mayfly.mqi.constants import MQPER_NOT_PERSISTENT
from mayfly.mqi.errors import MQError
from mayfly.store.units import StoredMessage, stored_message


def prepared_for(
    core: Core, subscription: Subscription, path: ResolvedQueue, publication: Prepared
) -> Prepared:
    """Return the checked descriptor of a publication, changed for one subscriber's copy.

    PUBPRTY of the subscription sets the priority. A copy on a temporary dynamic queue becomes
    non-persistent, as that queue is lost at a restart. Without a difference, ``publication`` itself
    is returned.
    """
    priority = publication.descriptor.priority
    if subscription.priority == PRIORITY_AS_QUEUE:
        priority = path.default_priority
    elif subscription.priority != PRIORITY_AS_PUBLISHED:
        priority = subscription.priority
    makes_volatile = path.is_temporary and publication.persistent
    if priority == publication.descriptor.priority and not makes_volatile:
        return publication
    descriptor = publication.descriptor._replace(priority=priority)
    if makes_volatile:
        descriptor = descriptor._replace(persistence=MQPER_NOT_PERSISTENT)
    return prepared_with_own_context(core, descriptor)


class CopyRows:
    """Builds the store rows for the copies of one publication; use it under the engine lock."""

    def __init__(self, core: Core, topic: str, msg_id: bytes) -> None:
        """Prepare for copies of one publication, which all have this topic and MsgId."""
        self._core, self._topic, self._msg_id = core, topic, msg_id
        #: A copy of the same content as the last one has the same values behind the key.
        self._last_content: tuple[Prepared, Window, bytes, bytes] | None = None
        self._last_values: tuple[Any, ...] = ()

    def row(
        self, path: ResolvedQueue, prepared: Prepared, window: Window, correl_id: bytes, body: bytes
    ) -> StoredMessage:
        """Return a new row, with a new key, for one copy on the queue that ``path`` leads to.

        The values after the key are reused from the previous row when descriptor, window, CorrelId
        and body are equal. On a transmission queue the row is always built anew.
        """
        content = prepared, window, correl_id, body
        if path.remote is None and content == self._last_content:
            number = path.queue.owner.store.sequence.next()
            key = path.slots[prepared.order_priority] | number
            return stored_message((key, *self._last_values))
        message = prepared, window, MessageIds(self._msg_id, correl_id), body
        row = new_row(self._core, path, message)._replace(topic=self._topic)
        if path.remote is None:
            self._last_content, self._last_values = content, row[1:]
        return row


def staged_copy(
    core: Core, subscription: Subscription, topic: str, publication: OutgoingMessage
) -> UncommittedPut:
    """Return a put to the staging queue for one subscriber's copy of a delayed publication.

    Nothing is stored yet. The expiry limits (CAPEXPRY) of the target queue shorten the copy's time
    to live. A limit that ends before the delivery time is applied at the delivery instead. A target
    queue that cannot be resolved now is no error. Raises MQRC_UNKNOWN_OBJECT_NAME,
    MQRC_PUT_INHIBITED, MQRC_Q_FULL and the other errors of ``staging_path`` for the staging queue.
    The caller holds the engine lock.
    """
    assert core.engine_lock.is_held()
    prepared, window, ids, body = publication
    waits_for_cap = False
    path: ResolvedQueue | None
    try:
        path = core.registry.resolve_target(subscription.destination)
    except MQError:
        # It may lead somewhere when the delay is over.
        path = None
    if path is not None:
        prepared = prepared_for(core, subscription, path, prepared)
        try:
            window = window_on(path, window)
        except MQError:
            waits_for_cap = True
    staging = staging_path(core, len(body)).queue
    row = staged_row(core, path, Delayed(prepared, window, ids.msg_id, ids.correl_id, body))
    row = row._replace(target=subscription.destination, sub_id=subscription.sub_id, topic=topic)
    if waits_for_cap:
        row = row._replace(ttl_from_release=CAP_AT_RELEASE)
    return UncommittedPut(staging, row, prepared.persistent)


def window_on(path: ResolvedQueue, window: Window) -> Window:
    """Return the window (put, delivery and expiry time) of a copy, limited by its queue's CAPEXPRY.

    Without a limit or TTLFROM(RELEASE) on the queue, ``window`` is returned unchanged. Raises
    MQRC_EXPIRY_ERROR when the limit lets the copy expire before its delivery time (D31).
    """
    if path.cap_ms is None and not path.ttl_from_release:
        return window
    put_ms, deliver_at_ms, expire_at_ms, earlier_cap = window
    left_ms = None if expire_at_ms is None else expire_at_ms - put_ms
    found = window_at_put(
        put_ms,
        left_ms,
        deliver_at_ms - put_ms,
        path.cap_ms,
        from_release=path.ttl_from_release,
        capped_by=path.capped_by,
    )
    return found if found.capped_by is not None else found._replace(capped_by=earlier_cap)
