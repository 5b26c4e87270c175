"""The kernel of a replay: walks through the events of one queue in order of time.

Within a millisecond expiries come first, then deliveries, then gets; equal deliveries and equal
gets keep the put order. The functions here run unchanged as Python, over lists, and compiled by
numba, over int64 arrays, with the same results. The rules are those of `lifetime.window`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mayfly.lifetime.columns import NONE, Ints
from mayfly.lifetime.moments import is_due, is_expired

#: An int64 array where numba runs, a list where Python does: each is slow for the other.
Numbers: TypeAlias = Any

#: The deadline of a message that has none: later than any moment there is.
NEVER_MS = 2**63 - 1
#: Below this, starting numba takes longer than it saves.
_COMPILED_FROM_COUNT = 200_000
_NOBODY = -1


class ReplayedMessages(NamedTuple):
    """The messages of one queue in put order, as columns, and the linked lists in which they wait.

    ``line`` is the number of a message's list: its key times ``level_count`` plus its level; level
    0 is taken first. ``by_delivery`` lists accepted messages in order of delivery.
    """

    deliver_at_ms: Numbers
    expire_at_ms: Numbers
    line: Numbers
    by_delivery: Numbers
    level_count: int
    first: Numbers
    last: Numbers
    next: Numbers


class Gets(NamedTuple):
    """The gets of one queue as columns: moment and key of each; ``by_time`` lists them by time.

    A get waits up to ``timeout_ms``, in the linked list of its key.
    """

    get_ms: Numbers
    key: Numbers
    by_time: Numbers
    timeout_ms: int
    first: Numbers
    last: Numbers
    next: Numbers


class Consumers(NamedTuple):
    """A heap with the moment at which each consumer becomes free, and the work time per message."""

    free_ms: Numbers
    service_ms: int


class Found(NamedTuple):
    """For each message the moment of its get, and how long the receiver had waited, in ms.

    Both are NONE without a get.
    """

    taken_ms: Numbers
    waited_ms: Numbers


def serve_gets(messages: ReplayedMessages, gets: Gets, found: Found) -> None:
    """Give each get the first message of its key, at once or during its wait.

    A key stands for a correlation id. ``found`` receives the time and the wait for each message
    got.
    """
    arrival_count, get_count = len(messages.by_delivery), len(gets.by_time)
    arrival, turn = 0, 0
    while arrival < arrival_count or turn < get_count:
        is_delivery = arrival < arrival_count
        if is_delivery and turn < get_count:
            due_ms = messages.deliver_at_ms[messages.by_delivery[arrival]]
            is_delivery = is_due(due_ms, gets.get_ms[gets.by_time[turn]])
        if is_delivery:
            _deliver(messages.by_delivery[arrival], messages, gets, found)
            arrival += 1
        else:
            _ask(gets.by_time[turn], messages, gets, found)
            turn += 1


def serve_consumers(messages: ReplayedMessages, consumers: Consumers, found: Found) -> None:
    """Give each free consumer the first message, until all messages are got or expired.

    ``found`` receives the time and the wait for each message got.
    """
    arrival_count = len(messages.by_delivery)
    arrival, waiting = 0, 0
    now_ms = consumers.free_ms[0]
    while arrival < arrival_count or waiting > 0:
        free_ms = consumers.free_ms[0]
        # The next consumer may be free since long ago; the waiting message has come only now.
        now_ms = max(now_ms, free_ms)
        if waiting == 0:
            now_ms = max(now_ms, messages.deliver_at_ms[messages.by_delivery[arrival]])
        while arrival < arrival_count:
            message = messages.by_delivery[arrival]
            if not is_due(messages.deliver_at_ms[message], now_ms):
                break
            _append(messages.line[message], message, messages.first, messages.last, messages.next)
            arrival += 1
            waiting += 1
        message = _first_of(0, messages)
        waiting -= 1
        if not is_expired(messages.expire_at_ms[message], now_ms):
            found.taken_ms[message] = now_ms
            found.waited_ms[message] = now_ms - free_ms
            replace_first(consumers.free_ms, len(consumers.free_ms), now_ms + consumers.service_ms)


def _deliver(message: int, messages: ReplayedMessages, gets: Gets, found: Found) -> None:
    """Give a message that becomes available to the get waiting longest, or let the message wait.

    A message that has expired by then is skipped. ``found`` receives the time if it is got.
    """
    now_ms = messages.deliver_at_ms[message]
    if is_expired(messages.expire_at_ms[message], now_ms):
        return
    key = messages.line[message] // messages.level_count
    getter = gets.first[key]
    # A message that is there at the very end of a wait wins.
    while getter != _NOBODY and gets.get_ms[getter] + gets.timeout_ms < now_ms:
        getter = gets.next[getter]
    if getter == _NOBODY:
        gets.first[key] = _NOBODY
        _append(messages.line[message], message, messages.first, messages.last, messages.next)
    else:
        gets.first[key] = gets.next[getter]
        found.taken_ms[message] = now_ms
        found.waited_ms[message] = now_ms - gets.get_ms[getter]


def _ask(getter: int, messages: ReplayedMessages, gets: Gets, found: Found) -> None:
    """Give a get the first unexpired message of its key (correlation id), or let the get wait.

    ``found`` receives the time if a message is got.
    """
    now_ms = gets.get_ms[getter]
    key = gets.key[getter]
    message = _first_of(key, messages)
    # Gets come in the order of time: a message expired now has expired for all later gets.
    while message != _NOBODY and is_expired(messages.expire_at_ms[message], now_ms):
        message = _first_of(key, messages)
    if message != _NOBODY:
        found.taken_ms[message] = now_ms
        found.waited_ms[message] = 0
    elif gets.timeout_ms > 0:
        _append(key, getter, gets.first, gets.last, gets.next)


def _append(line: int, who: int, first: Numbers, last: Numbers, following: Numbers) -> None:
    """Append number ``who`` of a message, or of a get, to the linked list number ``line``.

    ``first`` and ``last`` have the ends of each list, ``following`` has the next entry after each.
    """
    following[who] = _NOBODY
    if first[line] == _NOBODY:
        first[line] = who
    else:
        following[last[line]] = who
    last[line] = who


def _first_of(key: int, messages: ReplayedMessages) -> int:
    """Remove and return the first waiting message of a key; _NOBODY if none waits.

    Level 0, the highest priority, comes first.
    """
    begin = key * messages.level_count
    for line in range(begin, begin + messages.level_count):
        message: int = messages.first[line]
        if message != _NOBODY:
            messages.first[line] = messages.next[message]
            return message
    return _NOBODY


def replace_first(heap: Numbers, count: int, value: int) -> None:
    """Replace the root of a heap, the lowest of its ``count`` numbers, by ``value``."""
    place, below = 0, 1
    while below < count:
        if below + 1 < count and heap[below + 1] < heap[below]:
            below += 1
        if value <= heap[below]:
            break
        heap[place] = heap[below]
        place = below
        below = 2 * place + 1
    heap[place] = value


class ReplayKernel(NamedTuple):
    """The two serve functions, plain or compiled, and the function that converts their columns."""

    serve_gets: Callable[[ReplayedMessages, Gets, Found], None]
    serve_consumers: Callable[[ReplayedMessages, Consumers, Found], None]
    column: Callable[[Ints], Numbers]


PLAIN = ReplayKernel(serve_gets, serve_consumers, lambda column: column.tolist())


@functools.cache
def compiled() -> ReplayKernel:
    """Return the replay functions compiled by numba, cached on disk.

    Raises ModuleNotFoundError without numba.
    """
    compile_ = compiler_with(is_due, is_expired, _deliver, _ask, _append, _first_of, replace_first)
    return ReplayKernel(compile_(serve_gets), compile_(serve_consumers), np.ascontiguousarray)


def compiler_with(*called: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return numba's compiler, for functions that call no others than ``called``.

    Raises ModuleNotFoundError without numba.
    """
    numba = importlib.import_module("numba")
    register = importlib.import_module("numba.extending").register_jitable
    # numba compiles these very functions; they stay what they are for Python.
    for function in called:
        register(function)
    # Nothing is allocated here: without reference counts on every array it is ten times as fast.
    compiler: Callable[[Callable[..., Any]], Any] = numba.njit(cache=True, nogil=True, _nrt=False)
    return compiler


def is_worth_compiling(step_count: int) -> bool:
    """Return True if numba is there, and takes less time to start than it saves.

    ``step_count`` is the number of steps to compute.
    """
    return step_count >= _COMPILED_FROM_COUNT and importlib.util.find_spec("numba") is not None


def kernel_for(row_count: int) -> ReplayKernel:
    """Return the replay functions as Python or compiled by numba, whichever is faster.

    The results are the same. Without numba it is Python.
    """
    return compiled() if is_worth_compiling(row_count) else PLAIN


def blank(count: int) -> Ints:
    """Return an array of ``count`` numbers that are all NONE, which means "no value"."""
    return np.full(count, NONE, dtype=np.int64)
