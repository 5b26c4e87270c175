"""Requests of other queue managers, which come over a link and are carried out here.

A request may come twice, or late. The number of its exchange then says that it is over, and nothing
is changed.
"""

from __future__ import annotations

from typing import Protocol, cast

from mayfly.mqi.reasons import MQRC_UNKNOWN_OBJECT_NAME
from mayfly.services.everyplace import requests
from mayfly.services.everyplace.directory import Directory
from mayfly.services.everyplace.errors import EveryplaceError
from mayfly.services.everyplace.exchanges import Exchange
from mayfly.services.everyplace.fields import MessageFields
from mayfly.services.everyplace.peers import Peers
from mayfly.services.everyplace.requests import R, Request


class Receiver(Protocol):
    """The queue manager that a request has reached."""

    name: str
    peers: Peers
    directory: Directory

    def delete_queue(self, queue: str, queue_manager: str | None = None) -> None:
        """Delete a queue."""


def carry_out(receiver: Receiver, exchange: Exchange, request: Request[R]) -> R:
    """Carry out a request and return the answer.

    A request that was done before is not done again: its answer is None then.
    """
    return cast(R, _carry_out(receiver, exchange, request))


def _carry_out(receiver: Receiver, exchange: Exchange, request: object) -> object:
    if receiver.peers.is_over(exchange):
        return None
    match request:
        case requests.HoldMessage(queue, message):
            _hold(receiver, exchange, queue, message)
        case requests.LetIn(queue):
            _let_in(receiver, exchange, queue)
        case requests.Withdraw(queue):
            _withdraw(receiver, exchange, queue)
        case requests.Offer(queue):
            return _offer(receiver, exchange, queue)
        case requests.Stored(queue):
            _remove_stored(receiver, exchange, queue)
        case requests.Call(queue):
            receiver.peers.finish(exchange)
            return _call(receiver, queue, request)
    return None


def _call(receiver: Receiver, name: str, call: object) -> object:
    queue = receiver.directory.local_queue(name)
    match call:
        case requests.Add(_, message, confirm_id):
            queue.add(message.copy(), confirm_id)
        case requests.ConfirmPut(_, uid):
            queue.confirm_put(uid)
        case requests.Take(_, confirm_id):
            return queue.take(confirm_id)
        case requests.ConfirmGet(_, uid):
            queue.confirm_get(uid)
        case requests.Undo(_, confirm_id):
            return queue.undo(confirm_id)
        case requests.Delete(_, uid):
            queue.delete(uid)
        case requests.Browse():
            return queue.browse()
        case requests.Size():
            return queue.size()
        case requests.DeleteQueue():
            receiver.delete_queue(queue.name, receiver.name)
    return None


def _hold(receiver: Receiver, exchange: Exchange, queue: str, message: MessageFields) -> None:
    target = receiver.directory.local_queue(queue)
    # The activation of the queue may have met the end of this exchange.
    if not receiver.peers.is_over(exchange) and target.of_exchange(exchange) is None:
        target.add(message.copy(), exchange=exchange)


def _let_in(receiver: Receiver, exchange: Exchange, queue: str) -> None:
    """Let the message in, if it is still held; expired meanwhile, it is not (M6)."""
    # Activation may write expiries first: the end of the exchange is noted behind them.
    target = receiver.directory.local_queue(queue)
    receiver.peers.finish(exchange)
    held = target.of_exchange(exchange)
    if held is not None:
        target.let_in(held)


def _withdraw(receiver: Receiver, exchange: Exchange, queue: str) -> None:
    """Forget a message that expired at its sender, as nobody will confirm it.

    One with an end of its own stays until this side meets it (M13), and one that is expired here by
    the interval of this queue meets its rule. Where there is no queue, nothing has come.
    """
    target = receiver.directory.local_queue(queue) if receiver.directory.has(queue) else None
    receiver.peers.finish(exchange)
    held = None if target is None else target.of_exchange(exchange)
    if target is None or held is None or held.message.expire_time is not None:
        return
    if not target.expire_if_due(held):
        target.remove(held)


def _offer(receiver: Receiver, exchange: Exchange, queue: str) -> MessageFields | None:
    """Lock and return the next message that is kept; the same when it is asked again."""
    kept = receiver.directory.kept_for(exchange.beginner, queue)
    if receiver.peers.is_over(exchange):
        # Its message has expired: the activation has met it just now.
        return None
    if not kept:
        raise EveryplaceError(
            MQRC_UNKNOWN_OBJECT_NAME,
            f"{receiver.name} keeps nothing for {queue!r} of {exchange.beginner}",
        )
    for each in kept:
        if (held := each.of_exchange(exchange)) is not None:
            return held.message.copy()
    taken = kept[0].hold_back(lambda: exchange)
    if taken is None:
        receiver.peers.finish(exchange)
        return None
    return taken[1].message.copy()


def _remove_stored(receiver: Receiver, exchange: Exchange, queue: str) -> None:
    # Activation may write expiries first: the end of the exchange is noted behind them.
    kept = receiver.directory.kept_for(exchange.beginner, queue)
    receiver.peers.finish(exchange)
    for each in kept:
        if (held := each.of_exchange(exchange)) is not None:
            each.remove(held)
