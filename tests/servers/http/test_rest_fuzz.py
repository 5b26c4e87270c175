"""Requests of chance to IBM's REST API: each is answered, and none is a failure of the server."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from random import Random
from urllib.parse import quote

import pytest

from mayfly import QueueManager
from tests.examples import first_of
from tests.servers.http.asking import Asked, application_of, ask

_COUNT = 700
_VALUES = (
    "",
    "0",
    "-1",
    "unlimited",
    "99999999900",
    "ID:" + "00" * 24,
    "ID:zz",
    "0a" * 24,
    "asDestination",
    "persistent",
    "Q1@QM2",
    "@",
    "a;1;integer",
    'a;"\\"";string',
    "a;;string",
    "a;1;integer,",
    "usr.a;1;integer",
    "mcd.Msd;1;string",
    "a.b;1;integer,a;2;integer",
    "nan;NaN;double",
    "inf;1e999;float",
    "1" * 400,
    "text/plain;charset=\xe9",
    "Basic YTpi",
    "Basic \xe9",
    "\xff'",
)
_HEADERS = (
    "ibm-mq-md-expiry",
    "ibm-mq-md-persistence",
    "ibm-mq-md-priority",
    "ibm-mq-md-correlationId",
    "ibm-mq-md-replyTo",
    "ibm-mq-usr",
    "mayfly-delivery-delay",
    "mayfly-key",
    "mayfly-if-exists",
    "content-type",
    "content-length",
    "cookie",
    "authorization",
)
_SEGMENTS = ("messaging", "qmgr", "QM1", "queue", "topic", "a%2Fb", "%00", "%FF", "%zz", "..", "")
_NOT_IN_HEADERS = re.compile(b"[\x00-\x08\x0a-\x1f\x7f]")
#: 501 and 503 say of a message, and of the queue manager, why there is no answer.
_WELL_KNOWN = frozenset((200, 201, 204, 400, 401, 403, 404, 405, 406, 413, 415, 501, 503))


def some_text(chance: Random) -> str:
    """Return text of any character that a header can have."""
    return "".join(chr(chance.randrange(32, 256)) for _ in range(chance.randrange(30)))


def some_value(chance: Random) -> str:
    """Return a value that means something somewhere, or none."""
    return chance.choice((chance.choice(_VALUES), some_text(chance)))


def some_path(chance: Random) -> str:
    """Return a path below IBM's, usually one that leads somewhere."""
    kind, base = chance.random(), f"/ibmmq/rest/v{chance.choice('1234')}"
    if kind < 0.6:
        queue = chance.choice(("Q1", "Q1", "A%2FB", "S" * 60))
        last = chance.choice(("message", "message", "messagelist"))
        return f"{base}/messaging/qmgr/QM1/queue/{queue}/{last}"
    if kind < 0.75:
        return f"{base}/messaging/qmgr/QM1/topic/{quote(some_text(chance))}/message"
    if kind < 0.85:
        return f"{base}/login"
    return "/".join((base, *chance.choices(_SEGMENTS, k=chance.randrange(8))))


def some_request(chance: Random) -> Asked:
    """Return a request, often one that is almost right."""
    names = chance.choices(_HEADERS, k=chance.randrange(5))
    headers = [(n.lower().encode(), some_value(chance).encode("latin-1")) for n in names]
    if chance.random() < 0.9:
        headers.append((b"ibm-mq-rest-csrf-token", b""))
    if "content-type" not in names and chance.random() < 0.9:
        headers.append((b"content-type", b"text/plain"))
    keys = chance.choices(("limit", "messageId", "correlationId", "x"), k=chance.choice((0, 0, 1)))
    return Asked(
        chance.choice(("GET", "POST", "POST", "DELETE", "PUT", "HEAD")),
        some_path(chance),
        "&".join(f"{key}={quote(some_value(chance))}" for key in keys),
        headers,
        chance.choice((b"", b"x", b"\xff", b'{"username":"a","password":"b"}')),
    )


@pytest.mark.parametrize("seed", first_of(1, *range(3)))
def test_whatever_is_asked_is_answered(queue_manager: QueueManager, seed: int) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL('A/B')").ok
    app, chance = application_of(queue_manager), Random(seed)
    statuses: Counter[int] = Counter()

    async def ask_all() -> None:
        for _ in range(_COUNT):
            asked = some_request(chance)
            start, body = await ask(app, asked)
            status = int(start["status"])
            statuses[status] += 1
            assert status in _WELL_KNOWN, asked
            headers = dict(start["headers"])
            assert not any(_NOT_IN_HEADERS.search(value) for value in headers.values()), asked
            if status >= 400:
                [error] = json.loads(body["body"])["error"]
                assert re.fullmatch(r"MQWB\d{4}E", error["msgId"]), asked

    asyncio.run(ask_all())
    # Chance reaches the inside as well.
    assert min(statuses[status] for status in (200, 201, 204, 400, 404)) > 0
