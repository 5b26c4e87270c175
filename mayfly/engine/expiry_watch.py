"""Those who watch expiries hear of each message whose expiry was met, once that is durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeAlias

from mayfly.engine.core import Core
from mayfly.engine.delay.staged_row import original_row
from mayfly.engine.queues import LocalQueue
from mayfly.engine.remote.wrapping import embedded_or_none
from mayfly.engine.transaction import Transaction
from mayfly.mqi.descriptor import pack_descriptor, unpack_descriptor
from mayfly.store.units import StoredMessage
from mayfly.verbs.messages import Message


class Expired(NamedTuple):
    """A message whose expiry was met: ``message.seen_ms`` is the moment.

    ``queue`` is the one that it was on, or waited to reach: ``QUEUE@MANAGER`` for one that was on
    its way to another queue manager. The message is as its sender has put it.
    """

    queue: str
    message: Message
    #: The event that has met it, a word of the ledger (``MetBy``).
    met_by: str | None


OnExpiry: TypeAlias = Callable[[Expired], object]


def watch_expiry(core: Core, on_expiry: OnExpiry) -> Callable[[], None]:
    """Call a function with each message whose expiry is met from now on; returns what ends that.

    It is called outside of all locks, as callbacks of verbs are, and must not block.
    """
    watchers = core.on_expiry
    with core.engine_lock:
        watchers.append(on_expiry)

    def end() -> None:
        with core.engine_lock:
            if on_expiry in watchers:
                watchers.remove(on_expiry)

    return end


def tell_expired(
    core: Core,
    transaction: Transaction,
    found: Iterable[tuple[LocalQueue, StoredMessage]],
    now_ms: int,
    met_by: str | None,
) -> None:
    """Let watchers hear of expired messages when the transaction that ends them takes effect."""
    assert core.engine_lock.is_held()
    told = [_expired(queue, row, now_ms, met_by) for queue, row in found]

    def effect() -> None:
        for watcher in core.on_expiry:
            core.callbacks.waiting.extend(partial(watcher, expired) for expired in told)

    transaction.effects.append(effect)


def _expired(queue: LocalQueue, row: StoredMessage, now_ms: int, met_by: str | None) -> Expired:
    name = queue.name
    if queue.is_staging:
        name, row = row.target or name, original_row(row)
    elif queue.transmits:
        embedded = embedded_or_none(row.body, unpack_descriptor(row.descriptor))
        if embedded is not None:
            name = f"{embedded.remote.queue}@{embedded.remote.manager}"
            row = row._replace(
                msg_id=embedded.msg_id,
                correl_id=embedded.correl_id,
                descriptor=pack_descriptor(embedded.descriptor),
                body=embedded.body,
            )
    return Expired(name, Message(name, row, now_ms, row.body), met_by)
