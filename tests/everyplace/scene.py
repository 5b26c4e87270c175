"""Helpers of the tests of Everyplace queues: rules that remember, messages, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mayfly.everyplace import (
    MSG_EXPIRE_TIME,
    EveryplaceError,
    EveryplaceQueueManager,
    MessageFields,
    QueueEntry,
    QueueRule,
)
from mayfly.lifetime.everyplace import Timepiece
from mayfly.services.everyplace.links import Peers
from mayfly.services.everyplace.queues import QueuedMessage

START_MS = 1_700_000_000_000
#: Where a sync costs nothing: only a machine that loses its power would need it.
_MEMORY = Path("/dev/shm")


class Remembering(QueueRule):
    """Remembers what expired: text, entry, and the size of the queue seen from inside."""

    def __init__(self) -> None:
        self.expired: list[str] = []
        self.entries: list[QueueEntry] = []

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> bool:
        self.expired.append(text_of(message))
        self.entries.append(entry)
        return False


def text(
    clock: Timepiece,
    said: str = "x",
    *,
    relative_ms: int | None = None,
    at_ms: int | None = None,
) -> MessageFields:
    """Create a message now, with an end of its own if one is given."""
    message = MessageFields(clock=clock)
    message.put_ascii("MsgData", said)
    if relative_ms is not None:
        message.put_int(MSG_EXPIRE_TIME, relative_ms)
    if at_ms is not None:
        message.put_long(MSG_EXPIRE_TIME, at_ms)
    return message


def text_of(message: MessageFields | None) -> str:
    """Return what a message says; "-" for none."""
    return "-" if message is None else message.get_ascii("MsgData")


def take(manager: EveryplaceQueueManager, queue: str = "Q") -> str:
    """Get a message and return what it says."""
    return text_of(manager.get_message(queue))


def seen(manager: EveryplaceQueueManager, queue: str = "Q") -> list[str]:
    """Browse and return what the messages say."""
    return [text_of(message) for message in manager.browse_messages(queue)]


def refused(reason: int, call: Callable[[], object]) -> str:
    """Call what must be refused for a reason; return what the error says."""
    with pytest.raises(EveryplaceError) as caught:
        call()
    assert caught.value.reason == reason
    return str(caught.value)


@contextmanager
def quick_folder() -> Iterator[Path]:
    """Give a folder for queue managers that do much, and take it away again."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        yield Path(folder)


def picture(manager: EveryplaceQueueManager, *partners: str) -> list[object]:
    """Return all that a queue manager must not forget."""
    definitions, peers = manager.definitions, manager.peers
    held = [
        (queue.name, queue.partner, one.message.uid, one.message.fields(), *_standing(one))
        for queue in definitions.message_queues()
        for one in queue.in_order()
    ]
    limits = [(queue.name, queue.partner, queue.limits()) for queue in definitions.message_queues()]
    homes = [
        (home.partner, home.asked, home.stored)
        for _, home in sorted(definitions.home_servers.items())
    ]
    begun = [peers.begun_with(each) for each in partners]
    numbers = [(each.next_number, each.lowest_open()) for each in begun]
    over = [_over(peers, each) for each in partners]
    return [peers.era, sorted(held, key=repr), sorted(limits, key=repr), homes, numbers, over]


def _over(peers: Peers, partner: str) -> tuple[object, ...]:
    try:
        finished = peers.finished[partner]
    except KeyError:
        return ()
    return finished.era, finished.below, finished.numbers


def _standing(held: QueuedMessage) -> tuple[object, ...]:
    return (
        held.state,
        held.confirm_id,
        held.exchange,
        held.is_acknowledged,
        held.place,
        held.arrived_ms,
    )


def reopened(manager: EveryplaceQueueManager, folder: Path) -> EveryplaceQueueManager:
    """Close a queue manager, open its folder, and check that nothing was forgotten or made up."""
    partners = ("A", "B", "C")
    before = picture(manager, *partners)
    manager.close()
    again = EveryplaceQueueManager(manager.name, manager.clock, folder)
    assert picture(again, *partners) == before
    return again


def fail_commit(manager: EveryplaceQueueManager, number: int) -> None:
    """Let a queue manager end at its so manieth commit from now on, 0 for the next one."""
    assert manager.journal is not None
    commits = iter(range(number + 1))

    def may_not() -> bool:
        return next(commits, number) == number

    manager.journal.connection.set_commit_hook(may_not)
