"""The fields of a subscriber's copy that differ: priority, persistence, topic string."""

from __future__ import annotations

from mayfly.engine.attributes.of_topics import PRIORITY_AS_PUBLISHED, PRIORITY_AS_QUEUE
from mayfly.engine.core import Core
from mayfly.engine.descriptors import Prepared
from mayfly.engine.disposal import as_given
from mayfly.engine.objects.registry import Path
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.mqi.constants import MQPER_NOT_PERSISTENT
from mayfly.store.units import StoredMessage


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


def copy_row(row: StoredMessage, topic: str) -> StoredMessage:
    """Return the row of a publication with its topic string beside it."""
    return StoredMessage(*row[:12], topic, capped_by=row.capped_by)
