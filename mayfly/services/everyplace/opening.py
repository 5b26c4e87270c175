"""The opening of a folder: queues, messages and exchanges as they were at the close or kill."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import apsw

from mayfly.mqi.errors import StoreDamaged
from mayfly.services.everyplace.directory import AnyQueue, Directory
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.exchanges import Exchange, Finished
from mayfly.services.everyplace.held import Held, QueueAttributes
from mayfly.services.everyplace.journal import Journal
from mayfly.services.everyplace.mq_body import fields_of_row
from mayfly.services.everyplace.pulling import HomeServerQueue
from mayfly.services.everyplace.queues import MessageQueue
from mayfly.services.everyplace.records import ASYNCHRONOUS, LOCAL, exchange_of
from mayfly.services.everyplace.remote import SynchronousQueue
from mayfly.services.everyplace.rules import MessageState
from mayfly.services.everyplace.site import Site
from mayfly.services.everyplace.transmission import AsynchronousQueue


def era_of(journal: Journal) -> int:
    """Return what tells the queue manager of a folder from others of its name."""
    [(era,)] = journal.connection.execute("SELECT era FROM manager").fetchall()
    assert isinstance(era, int)
    return era


def take_back(site: Site, directory: Directory, journal: Journal) -> None:
    """Give a new queue manager what its folder holds; raises StoreDamaged and closes it."""
    try:
        with journal:
            _Reader(site, directory, journal).read()
    except (apsw.Error, ValueError, TypeError, KeyError, EveryplaceError) as error:
        journal.close()
        folder = journal.folder
        raise StoreDamaged(f"{folder} holds what nobody writes: {error!r}", folder) from error


class _Reader:
    def __init__(self, site: Site, directory: Directory, journal: Journal) -> None:
        self._site = site
        self._directory = directory
        self._journal = journal
        self._queues: dict[tuple[str, str], AnyQueue] = {}
        #: Numbers of exchanges begun here that have not ended, by partner.
        self._open: dict[str, list[int]] = defaultdict(list)

    def read(self) -> None:
        peers = self._site.peers
        finished = {row[0]: Finished(*row[1:]) for row in self._rows("finished")}
        for beginner, number in self._rows("finished_number"):
            finished[beginner].numbers.add(number)
        peers.take_back(dict(self._rows("begun")), finished)
        self._read_queues()
        self._read_messages()
        self._read_homes()
        for queue, partner, text in self._rows("withdrawn"):
            target = self._queues[queue, partner]
            assert isinstance(target, AsynchronousQueue)
            exchange = exchange_of(text)
            self._go_on(exchange)
            target.take_back_withdrawn(exchange)
        for partner, numbers in self._open.items():
            peers.begun_with(partner).go_on(numbers)

    def _read_queues(self) -> None:
        for name, partner, kind, attributes, rule in self._rows("queue"):
            queue = self._queue(name, partner, kind, json.loads(attributes))
            queue.awaited_rule = rule
            self._queues[name, partner] = queue
            self._directory.take_back(queue)

    def _queue(self, name: str, partner: str, kind: str, limits: dict[str, Any]) -> AnyQueue:
        if kind == LOCAL:
            return MessageQueue(self._site, name, QueueAttributes(**limits), None)
        if kind == ASYNCHRONOUS:
            attributes = QueueAttributes(**limits)
            return AsynchronousQueue(self._site, name, partner, attributes, None)
        return SynchronousQueue(self._site, name, partner, None)

    def _read_messages(self) -> None:
        for row in self._rows("message ORDER BY rank, place"):
            row_id, name, partner, body, arrived_ms, state, confirm_id, text, *rest = row
            is_acknowledged, *place = rest
            exchange = None if text is None else exchange_of(text)
            held = Held(
                fields_of_row(body),
                arrived_ms,
                MessageState(state),
                confirm_id,
                exchange,
                bool(is_acknowledged),
                (place[0], place[1]),
                row_id,
            )
            queue = self._queues[name, partner]
            assert isinstance(queue, MessageQueue)
            queue.take_back(held)
            self._journal.take_back(row_id)
            if exchange is not None:
                self._go_on(exchange)

    def _read_homes(self) -> None:
        for name, partner, asked, stored in self._rows("home"):
            home = HomeServerQueue(self._site, name, partner)
            home.asked = None if asked is None else exchange_of(asked)
            home.stored = [Exchange(*told) for told in json.loads(stored)]
            for exchange in (home.asked, *home.stored):
                if exchange is not None:
                    self._go_on(exchange)
            self._directory.take_back_home(home)

    def _go_on(self, exchange: Exchange) -> None:
        if exchange.beginner == self._site.name:
            self._open[exchange.partner].append(exchange.number)

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._journal.connection.execute(f"SELECT * FROM {table}").fetchall()
