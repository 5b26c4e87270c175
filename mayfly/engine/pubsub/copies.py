"""A subscriber's copy: its fields that differ, priority, persistence, topic string; and its row."""

from __future__ import annotations

from typing import Any

from mayfly.engine.attributes.of_topics import PRIORITY_AS_PUBLISHED, PRIORITY_AS_QUEUE
from mayfly.engine.core import Core
from mayfly.engine.delivery import Ids, new_row
from mayfly.engine.descriptors import Prepared
from mayfly.engine.disposal import as_given
from mayfly.engine.objects.registry import Path
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.lifetime.window import Window
from mayfly.mqi.constants import MQPER_NOT_PERSISTENT
from mayfly.store.units import StoredMessage, stored_message


def prepared_for(
    core: Core, subscription: Subscription, path: Path, publication: Prepared
) -> Prepared:
    """Return a publication's descriptor as a subscriber gets it.

    PUBPRTY gives the priority. A copy for a temporary queue is not persistent, whatever the
    publication is: it cannot outlive its queue.
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
    return as_given(core, descriptor)


class CopyRows:
    """Makes the rows of all copies of one publication, under the lock."""

    def __init__(self, core: Core, topic: str, msg_id: bytes) -> None:
        """Begin with none."""
        self._core, self._topic, self._msg_id = core, topic, msg_id
        #: A copy of the same content as the last one has the same values behind the key.
        self._last_content: tuple[Prepared, Window, bytes, bytes] | None = None
        self._last_values: tuple[Any, ...] = ()

    def row(
        self, path: Path, prepared: Prepared, window: Window, correl_id: bytes, body: bytes
    ) -> StoredMessage:
        """Return the row of a copy; most differ from the last one in their key alone."""
        content = prepared, window, correl_id, body
        if path.remote is None and content == self._last_content:
            number = path.queue.home.store.sequence.next()
            key = path.slots[prepared.order_priority] | number
            return stored_message((key, *self._last_values))
        message = prepared, window, Ids(self._msg_id, correl_id), body
        row = copy_row(new_row(self._core, path, message), self._topic)
        if path.remote is None:
            self._last_content, self._last_values = content, row[1:]
        return row


def copy_row(row: StoredMessage, topic: str) -> StoredMessage:
    """Return the row of a publication with its topic string beside it."""
    return row._replace(topic=topic)
