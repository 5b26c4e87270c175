"""Copies of a delayed publication: they wait whatever their queues would say to them now.

A copy that its queue refuses at the send may be welcome when its delivery time has come, and nobody
may get it before: the queue is asked then (D19, D31). Only the staging queue can refuse it now.
"""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.delay.staging import CAP_AT_RELEASE, Delayed, staged_row, staging_path
from mayfly.engine.delivery import OutgoingMessage
from mayfly.engine.objects.registry import Path
from mayfly.engine.pubsub.copies import prepared_for
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.engine.unit_of_work import UncommittedPut
from mayfly.lifetime.window import Window, window_at_put
from mayfly.mqi.errors import MQError


def staged_copy(
    core: Core, subscription: Subscription, topic: str, publication: OutgoingMessage
) -> UncommittedPut:
    """Return the copy of a publication that waits for a subscription.

    Its window is that of the publication, shortened by the caps of the queue. Where they leave it
    no life at its delivery time they are looked at again then. Raises as ``staging_path``.
    """
    assert core.engine_lock.is_held()
    prepared, window, ids, body = publication
    path = _path_now(core, subscription)
    waits_for_cap = False
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


def _path_now(core: Core, subscription: Subscription) -> Path | None:
    """Return where the copies of a subscription go, None when that leads nowhere now."""
    try:
        return core.registry.resolve_target(subscription.destination)
    except MQError:
        return None


def window_on(path: Path, window: Window) -> Window:
    """Return the window of a copy on its queue as that is now.

    Raises MQRC_EXPIRY_ERROR where the caps leave it no life at its delivery time (D31).
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
