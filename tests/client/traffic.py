"""A program: clients that put, move and wait until their connections break; tells each outcome.

``python -m tests.client.traffic mq://10.77.0.1:1414/QM1?channel=CUT first`` puts pairs of messages
on Q1 and moves messages to Q2, in units of work. Two clients of each kind end when their connection
breaks, one of each kind connects again. A line on the standard input ends all of them.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Final

from mayfly.client import Client, connect
from mayfly.client.connection.endpoint import Reconnect
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import LostAnswer, MQError

MOVED_AT_ONCE: Final = 3
_SHORT_MS: Final = 50
_BODY_BYTES: Final = 400
_is_over = threading.Event()
_saying = threading.Lock()


def _say(**fact: object) -> None:
    with _saying:
        print(json.dumps(fact), flush=True)


def _unit(client: Client, kind: str, bodies: list[str], work: Callable[[], None]) -> None:
    """Do one unit of work, and say how it ended: done, backed out or in doubt.

    Raises the MQError that ended it.
    """
    is_sent = False
    try:
        work()
        is_sent = True
        client.commit()
    except LostAnswer as error:
        if is_sent:
            _say(kind=kind, doubt=bodies, reason=error.reason)
        else:
            _say(kind=kind, wrong="a verb under syncpoint is in doubt")
        raise
    if bodies:
        _say(kind=kind, done=bodies)


def _put(client: Client, name: str) -> None:
    number = 0
    while not _is_over.is_set():
        number += 1
        pair = [f"{name}/{number}/{half}".ljust(_BODY_BYTES, ".") for half in range(2)]

        def work(pair: list[str] = pair) -> None:
            for body in pair:
                client.put("Q1", body.encode(), persistent=True)

        _until_known(client, lambda pair=pair, work=work: _unit(client, "put", pair, work))  # type: ignore[misc]  # bound here


def _move(client: Client, _name: str) -> None:
    while not _is_over.is_set():
        moved: list[str] = []

        def work(moved: list[str] = moved) -> None:
            for _ in range(MOVED_AT_ONCE):
                message = client.get("Q1", wait_ms=_SHORT_MS)
                if message is not None:
                    client.put("Q2", message.body, persistent=True)
                    moved.append(message.body.decode())

        _until_known(client, lambda moved=moved, work=work: _unit(client, "move", moved, work))  # type: ignore[misc]  # bound here


def _wait(client: Client, _name: str) -> None:
    client.get("EMPTY", wait_ms=-1)


def _until_known(client: Client, unit: Callable[[], None]) -> None:
    """Do a unit of work; a connection that was made again goes on with the next one."""
    try:
        unit()
    except MQError as error:
        if error.reason == rc.MQRC_BACKED_OUT:
            client.backout()
        elif error.reason != rc.MQRC_CALL_INTERRUPTED:
            raise


def _run(work: Callable[[Client, str], None], url: str, name: str, reconnect: Reconnect) -> None:
    client = connect(url, transacted=True, reconnect=reconnect)
    _say(kind="connected", name=name)
    try:
        work(client, name)
        client.close()
        _say(kind="over", name=name)
    except MQError as error:
        _say(kind="ended", name=name, reason=error.reason, detail=error.detail)


def main(url: str, life: str) -> None:
    """Run all until the standard input says something."""
    threads = []
    for work in (_put, _move):
        for number, reconnect in enumerate((Reconnect.NO, Reconnect.NO, Reconnect.YES)):
            name = f"{life}/{work.__name__}/{number}"
            threads.append(threading.Thread(target=_run, args=(work, url, name, reconnect)))
    waits = (_wait, url, f"{life}/_wait/0", Reconnect.NO)
    waiting = threading.Thread(target=_run, args=waits, daemon=True)
    for thread in (*threads, waiting):
        thread.start()
    sys.stdin.readline()
    _is_over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
