"""Programs that put and get while servers and databases fail: ``KIND SEED HOME``.

``HOME/places.json`` says where they connect to. Each writes a journal, of two lines for each unit
of work: what it is to commit, and how that ended. They end in good order when ``HOME/stop`` is
there. Every body begins with a word that no other message has.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import mayfly
from mayfly.client.client import Client
from mayfly.client.connection.endpoint import Address, Endpoint, Reconnect
from mayfly.client.connection.remote import connect
from mayfly.mqi import constants as c
from mayfly.mqi.errors import LostAnswer, MQError
from mayfly.runtime import SystemClock
from tests.replica.accounts import OK, REFUSED, UNKNOWN, Got, Put, Unit

USER, PASSWORD, TOKEN = "app", "an hour is nothing", "a token that both servers have"
#: Those of HTTP have texts. The pinned program puts to the last one.
QUEUES = ("Q1", "Q2", "AMQP", "HTTP", "PINNED")
REPLIES = "REPLIES"
_REPORT = c.MQRO_EXPIRATION_WITH_FULL_DATA
_CLOCK, _PAUSE = SystemClock(), threading.Event()


class Places(NamedTuple):
    """Where programs find the two servers: behind relays, and without them."""

    mq: list[tuple[str, int]]
    amqp: list[tuple[str, int]]
    http: list[tuple[str, int]]
    #: By the name of a server, not relayed.
    pinned: dict[str, tuple[str, int]]


class Program:
    """What all kinds have: messages that are planned, a journal, and the end."""

    def __init__(self, name: str, home: Path) -> None:
        self.chance, self._name, self._numbers = random.Random(name), name, count()
        self.home, self.places = home, Places(**json.loads((home / "places.json").read_text()))
        journal = home / "journals" / name
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def goes_on(self) -> bool:
        return not (self.home / "stop").exists()

    def plan(self, *, asks: bool) -> Put:
        """Return a message that is new; with ``asks`` it may expire, and asks for a report."""
        delay_ms = self.chance.choice((0, 0, 0, self.chance.randrange(1, 6_000)))
        life_ms = delay_ms + self.chance.randrange(50, 4_000) if asks else 0
        return Put(f"{self._name}-{next(self._numbers)}", delay_ms, life_ms, asks)

    def body(self, put: Put) -> bytes:
        return b"%s %s" % (put.name.encode(), b"x" * self.chance.choice((10, 100, 1_000)))

    def units(self, *messages: Put) -> Unit:
        return Unit(puts=list(messages), first_ms=_CLOCK.now_ms())

    def settle(self, unit: Unit, settle: Callable[[], object]) -> None:
        """Let a unit of work take effect, and write how that ended; raises its MQError."""
        number = self.begin(unit)
        try:
            settle()
        except LostAnswer:
            self.end(number, UNKNOWN)
            raise
        except MQError as error:
            self.end(number, REFUSED, str(error))
            raise
        self.end(number, OK)

    def begin(self, unit: Unit) -> int:
        """Write what is to take effect; return its number in the journal."""
        number = next(self._numbers)
        unit.last_ms = _CLOCK.now_ms()
        self._write({"unit": number, **unit.stored()})
        return number

    def end(self, number: int, outcome: str, why: str = "") -> None:
        self._write({"unit": number, "outcome": outcome, "at_ms": _CLOCK.now_ms(), "why": why})

    def _write(self, line: object) -> None:
        os.write(self._journal, (json.dumps(line) + "\n").encode())


def got(messages: list[Any], began_ms: int) -> list[Got]:
    now_ms = _CLOCK.now_ms()
    return [Got(name_of(each.body), began_ms, now_ms) for each in messages]


def name_of(body: bytes) -> str:
    return body.split(b" ")[0].decode()


def put_one(client: Any, put: Put, body: bytes, queue: str) -> Any:
    """Put a planned message by a client, or begin to: one of coroutines returns an awaitable."""
    return client.put(
        queue,
        body,
        persistent=True,
        delay_ms=put.delay_ms,
        time_to_live_ms=put.life_ms or None,
        report=_REPORT if put.asks else c.MQRO_NONE,
        reply_to_q=REPLIES,
        format_name="MQSTR" if queue == "HTTP" else "",
    )


def native(program: Program) -> None:
    """Units of work of many puts and gets; the hosts of one URL are tried after each loss."""
    hosts = ",".join(f"{host}:{port}" for host, port in program.places.mq)
    while program.goes_on():
        try:
            client = mayfly.connect(
                f"mq://{hosts}/QM1", user=USER, password=PASSWORD, transacted=True
            )
        except MQError:
            _PAUSE.wait(0.1)
            continue
        with suppress(MQError):
            while program.goes_on():
                native_unit(program, client)
        with suppress(MQError):
            client.close(commit=False)


def native_unit(program: Program, client: Client) -> None:
    chance = program.chance
    bulk = [program.plan(asks=False) for _ in range(chance.randrange(150))]
    delay_ms = chance.choice((0, 0, chance.randrange(3_000)))
    bulk = [each._replace(delay_ms=delay_ms) for each in bulk]
    single = [program.plan(asks=True) for _ in range(chance.randrange(12))]
    unit = program.units(*bulk, *single)
    try:
        if bulk:
            client.put_many(
                chance.choice(("Q1", "Q2")),
                [program.body(each) for each in bulk],
                delay_ms=delay_ms,
                persistent=True,
            )
        for each in single:
            put_one(client, each, program.body(each), chance.choice(QUEUES[:4]))
        for queue in chance.sample(QUEUES, 3):
            began_ms = _CLOCK.now_ms()
            unit.gets += got(client.get_many(queue, 150), began_ms)
        if chance.random() < 0.05:
            client.backout()
            program.end(program.begin(unit), REFUSED, "backed out")
            return
    except MQError as error:
        program.end(program.begin(unit), REFUSED, str(error))
        raise
    program.settle(unit, client.commit)


async def coroutines(program: Program) -> None:
    """Puts that share a commit, and gets by a unit of work, on connections that reconnect."""
    hosts = ",".join(f"{host}:{port}" for host, port in program.places.mq)
    opened = partial(
        mayfly.aio.connect,
        f"mq://{hosts}/QM1",
        user=USER,
        password=PASSWORD,
        reconnect=Reconnect.YES,
    )
    while program.goes_on():
        with suppress(MQError):
            async with opened() as plain, opened(transacted=True) as unit:
                while program.goes_on():
                    await asyncio.gather(*(coroutine_put(program, plain) for _ in range(60)))
                    with suppress(MQError):
                        await coroutine_gets(program, unit)
        await asyncio.sleep(0.1)


async def coroutine_put(program: Program, client: Any) -> None:
    put = program.plan(asks=program.chance.random() < 0.3)
    number = program.begin(program.units(put))
    try:
        await put_one(client, put, program.body(put), program.chance.choice(("Q1", "Q2")))
    except LostAnswer:
        program.end(number, UNKNOWN)
    except MQError as error:
        program.end(number, REFUSED, str(error))
    else:
        program.end(number, OK)


async def coroutine_gets(program: Program, client: Any) -> None:
    unit = program.units()
    for queue in ("Q1", "Q2"):
        began_ms = _CLOCK.now_ms()
        unit.gets += got(await client.get_many(queue, 100, wait_ms=20), began_ms)
    number = program.begin(unit)
    try:
        await client.commit()
    except LostAnswer:
        program.end(number, UNKNOWN)
    except MQError as error:
        program.end(number, REFUSED, str(error))
    else:
        program.end(number, OK)


def amqp(program: Program) -> None:
    """Transactions and single messages of AMQP; the other host is tried after each loss."""
    from tests.servers.amqp.client import Client as AmqpClient

    while program.goes_on():
        for _host, port in program.places.amqp:
            with suppress(OSError):
                client = AmqpClient(port, user=USER, password=PASSWORD)
                try:
                    amqp_units(program, client)
                finally:
                    client.cut()
        _PAUSE.wait(0.1)


def amqp_units(program: Program, client: Any) -> None:
    from proton import Delivery, Described, Endpoint, Message, symbol, ulong

    from tests.servers.amqp.client import TRANSACTIONAL_STATE

    sender, coordinator = client.sender("AMQP"), client.coordinator()
    receiver, credited_ms = client.receiver("AMQP"), 0
    if receiver.state & Endpoint.REMOTE_CLOSED or sender.state & Endpoint.REMOTE_CLOSED:
        raise ConnectionResetError(f"{sender.remote_condition} {receiver.remote_condition}")

    def message(put: Put) -> Any:
        delay = {symbol("x-opt-delivery-delay"): put.delay_ms} if put.delay_ms else None
        body = program.body(put)
        return Message(
            body=body,
            inferred=True,
            durable=True,
            ttl=put.life_ms / 1_000,
            annotations=delay,
        )

    def plan() -> Put:
        # It cannot ask for a report: nobody misses one that has expired.
        return program.plan(asks=program.chance.random() < 0.2)._replace(asks=False)

    def send(link: Any, message: Any, name: bytes = b"") -> Any:
        """Return the delivery, settled; raises OSError where its link is closed instead."""
        delivery = client.begin(link, message, name)
        client.until(lambda: delivery.settled or link.state & Endpoint.REMOTE_CLOSED)
        if not delivery.settled:
            raise ConnectionResetError(str(link.remote_condition))
        return delivery

    def end(number: int, ask: Callable[[], Any]) -> None:
        try:
            answer = ask()
        except OSError:
            program.end(number, UNKNOWN)
            raise
        is_accepted = answer.remote_state == Delivery.ACCEPTED
        program.end(number, OK if is_accepted else REFUSED, str(answer.remote.condition))

    while program.goes_on():
        for _ in range(program.chance.randrange(8)):
            put = plan()
            number = program.begin(program.units(put))
            end(number, partial(send, sender, message(put)))
        name = client.declare(coordinator)
        unit = program.units(*(plan() for _ in range(program.chance.randrange(10))))
        try:
            for put in unit.puts:
                if send(sender, message(put), name).remote_state == Delivery.REJECTED:
                    raise ConnectionResetError("a put of the transaction is refused")
            for _ in range(20):
                if not credited_ms:
                    credited_ms = _CLOCK.now_ms()
                    receiver.flow(1)
                try:
                    found, delivery = client.receive(receiver, 0.02)
                except TimeoutError:
                    break
                unit.gets.append(Got(name_of(bytes(found.body)), credited_ms, _CLOCK.now_ms()))
                credited_ms = 0
                delivery.local.data = [name, Described(ulong(0x24), [])]
                delivery.update(TRANSACTIONAL_STATE)
                delivery.settle()
        except OSError as error:
            program.end(program.begin(unit), REFUSED, str(error))
            raise
        discharge = Message(body=Described(ulong(0x32), [name, False]))
        end(program.begin(unit), partial(send, coordinator, discharge))


class Http:
    """A client of HTTP, which goes where a standby says that the owner is."""

    def __init__(self, program: Program) -> None:
        self._program, self._next = program, 0
        self._connection: HTTPConnection | None = None
        self._headers = {
            "Authorization": f"Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}",
            "ibm-mq-rest-csrf-token": "",
            "Content-Type": "text/plain;charset=utf-8",
        }

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, HTTPResponse | None, bytes]:
        """Return status, response and body; 0 and None when nothing was asked. Raises OSError."""
        if self._connection is None:
            self._next = (self._next + 1) % 2
            host, port = self._program.places.http[self._next]
            self._connection = HTTPConnection(host, port, timeout=10)
        connection = self._connection
        try:
            if connection.sock is None:
                connection.connect()
        except OSError:
            self._connection = None
            return 0, None, b""
        base = "/ibmmq/rest/v3/messaging/qmgr/QM1/queue/HTTP/message"
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, base + path, body, self._headers | sent)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            connection.close()
            self._connection = None
            raise ConnectionResetError(str(error)) from error
        if answer.status == 503:
            connection.close()
            self._connection = None
            with suppress(ValueError):
                if address := json.loads(content).get("address"):
                    host, port = address.rsplit(":", 1)
                    self._connection = HTTPConnection(host, int(port), timeout=10)
        return answer.status, answer, content


def http(program: Program) -> None:
    """Puts and gets one by one, by HTTP; a get is of a message that was looked at before."""
    client = Http(program)
    while program.goes_on():
        try:
            http_unit(program, client)
        except OSError:
            _PAUSE.wait(0.05)


def http_unit(program: Program, client: Http) -> None:
    put = program.plan(asks=program.chance.random() < 0.2)
    headers = {"ibm_mq_md_persistence": "persistent"}
    if put.life_ms:
        headers |= {
            "ibm_mq_md_expiry": str(put.life_ms),
            "ibm_mq_md_replyTo": REPLIES,
            "mayfly_report": "expiration-with-full-data",
        }
    if put.delay_ms:
        headers["mayfly_delivery_delay"] = str(put.delay_ms)
    unit = program.units(put)
    unit_of_http(program, unit, client, "POST", "", program.body(put), **headers)
    unit = program.units()
    status, answer, content = client.ask("GET", "")
    if answer is not None and status == 200:
        number = answer.headers["ibm-mq-md-messageId"]
        unit.gets = [Got(name_of(content), unit.first_ms, _CLOCK.now_ms())]
        unit_of_http(program, unit, client, "DELETE", f"?messageId={number}")
    elif status in (0, 503):
        _PAUSE.wait(0.05)


def unit_of_http(
    program: Program,
    unit: Unit,
    client: Http,
    method: str,
    path: str,
    body: bytes | None = None,
    **headers: str,
) -> None:
    number = program.begin(unit)
    try:
        status, _answer, content = client.ask(method, path, body, **headers)
    except OSError:
        program.end(number, UNKNOWN)
        raise
    # 500 says that the outcome is not known.
    outcome = {200: OK, 201: OK, 500: UNKNOWN}.get(status, REFUSED)
    program.end(number, outcome, f"{status} {content[:200]!r}")


def pinned(program: Program, server: str) -> None:
    """Puts at one server, whoever the owner is: one that is it no more is written to."""
    address = Address(*program.places.pinned[server])
    while program.goes_on():
        try:
            client = Client(connect(Endpoint((address,), "", "QM1"), "anna", TOKEN))
        except MQError:
            _PAUSE.wait(0.05)
            continue
        with suppress(MQError):
            while program.goes_on():
                put = program.plan(asks=False)
                unit = program.units(put)
                unit.server = server
                put_it = partial(put_one, client, put, program.body(put), "PINNED")
                program.settle(unit, put_it)
        with suppress(MQError):
            client.close()


def main(kind: str, seed: str, home: Path) -> None:
    name = f"{kind}{seed}"
    print("ready", flush=True)
    if kind == "native":
        native(Program(name, home))
    elif kind == "aio":
        asyncio.run(coroutines(Program(name, home)))
    elif kind == "amqp":
        amqp(Program(name, home))
    elif kind == "http":
        http(Program(name, home))
    else:
        servers = Places(**json.loads((home / "places.json").read_text())).pinned
        threads = [
            threading.Thread(target=pinned, args=(Program(f"{name}-{server}", home), server))
            for server in servers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
