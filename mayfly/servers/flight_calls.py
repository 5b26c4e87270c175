"""The form of a verb of the Flight server: its input, its answer, its refusal.

A module of verbs knows the queue manager and no column format: it gives rows and takes record
batches of a schema that ``flight.py`` has checked. There it is entered into a table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from mayfly.queue_manager import QueueManager
from mayfly.store.ledger import Ledger
from mayfly.verbs.contracts.bulk import kinds_of
from mayfly.verbs.contracts.reasons import BAD_REQUEST

#: One page of an answer; the verb's ``to_batch`` makes a record batch of it.
Page = Any
#: The arguments of a call, without ``manager``, ``protocol`` and ``max_bytes``.
Request = dict[str, Any]
RowT = TypeVar("RowT", bound=NamedTuple)


class ServedManager(Protocol):
    """A queue manager as far as the server uses it; a verb may use more of it."""

    @property
    def name(self) -> str:
        """The name of the queue manager."""

    @property
    def ledger(self) -> Ledger:
        """Its ledger."""


class CallRefused(Exception):
    """A call that cannot be done; ``reason`` is for programs, as in pipeline/bulk/errors.py."""

    def __init__(self, reason: str, text: str) -> None:
        """Say in ``text`` what is wrong, with the values concerned."""
        super().__init__(text)
        self.reason = reason
        self.text = text


class TicketVerb(NamedTuple):
    """A verb that gives rows of a schema.

    ``open`` checks the request at once and returns the pages, each read when it is sent. It must
    hold no lock or read between two pages: the client may be slow.
    """

    schema: pa.Schema
    open: Callable[[ServedManager, Request], Iterator[Page]]
    to_batch: Callable[[Page, ServedManager], pa.RecordBatch]


class ActionVerb(NamedTuple):
    """A verb that is answered by one JSON object, or a list of them."""

    description: str
    run: Callable[[ServedManager, Request], Any]


class PutVerb(NamedTuple):
    """A verb that takes record batches of a schema and is answered by one JSON object.

    The batches come as they are read from the client; the event is set when the server stops.
    """

    schema: pa.Schema
    run: Callable[[ServedManager, Request, Iterator[pa.RecordBatch], threading.Event], Any]


def with_queues(manager: ServedManager) -> QueueManager:
    """Return a queue manager that is served with its queues; raises CallRefused."""
    if not isinstance(manager, QueueManager):
        raise CallRefused(BAD_REQUEST, f"{manager.name} is served without its queues")
    return manager


def request_of(kind: type[RowT], request: Request) -> RowT:
    """Return a request as the row of its contract; raises CallRefused as :func:`fields_of`."""
    return kind(*fields_of(request, **kinds_of(kind)))


def fields_of(request: Request, **kinds: type | tuple[type, ...]) -> tuple[Any, ...]:
    """Return the values of a request by name; raises CallRefused.

    All are required, and there are no others; whole numbers have 64 bits.
    """
    if request.keys() != kinds.keys():
        raise CallRefused(BAD_REQUEST, f"asked for {sorted(request)}, known: {sorted(kinds)}")
    for name, kind in kinds.items():
        value = request[name]
        allowed = kind if isinstance(kind, tuple) else (kind,)
        # To Python a flag is a number as well.
        is_flag = isinstance(value, bool) and bool not in allowed
        is_too_large = isinstance(value, int) and not -(2**63) <= value < 2**63
        if not isinstance(value, allowed) or is_flag or is_too_large:
            raise CallRefused(BAD_REQUEST, f"{name} cannot be {value!r}")
    return tuple(request[name] for name in kinds)
