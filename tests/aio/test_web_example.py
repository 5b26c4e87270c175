"""examples/web/orders.py: one connection for an application's lifespan, over real sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import uvicorn

from examples.web.orders import LIFE_MS, QUEUE, app
from mayfly import QueueManager
from mayfly.testing import VirtualClock
from mayfly.testing.served import ServedQueueManager
from tests.ports import held_port
from tests.spec.scene import JOIN_SECONDS

PASSWORD = "between us"
#: A server that starts slowly is met at the next attempt to reconnect, up to 25 s later.
LONGEST_SECONDS = 300


@contextmanager
def application() -> Iterator[str]:
    """Run the application as its variables say, and yield its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    running = threading.Thread(target=server.run)
    running.start()
    while not server.started:
        assert running.is_alive()
        running.join(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        running.join(JOIN_SECONDS)
    assert not running.is_alive()


@pytest.fixture
def url(served_queue_manager: ServedQueueManager, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("ORDERS_URL", served_queue_manager.url)
    monkeypatch.setenv("ORDERS_PASSWORD", served_queue_manager.password)
    with application() as url:
        yield url


@contextmanager
def server(home: Path, port: int) -> Iterator[None]:
    """Serve QM1 as the example says; the end of the block is ``kill -9``."""
    command = [sys.executable, "-m", "mayfly", "serve", "QM1", "--dev", "--mq", f"127.0.0.1:{port}"]
    variables = {**os.environ, "MAYFLY_HOME": str(home), "MAYFLY_APP_PASSWORD": PASSWORD}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("serving QM1")
            yield
        finally:
            process.kill()


def asked(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body), timeout=LONGEST_SECONDS
        ) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_an_order_is_served_when_it_is_ready_and_not_after_its_life(
    url: str, clock: VirtualClock, queue_manager: QueueManager
) -> None:
    status, body = asked(f"{url}/orders?ready_in_ms=5000", b"two teas")
    assert (status, len(json.loads(body)["id"])) == (202, 48)
    clock.advance(4_999)
    assert asked(f"{url}/orders/next")[0] == 404
    clock.advance(1)
    assert asked(f"{url}/orders/next") == (200, b"two teas")
    assert asked(f"{url}/orders", b"late")[0] == 202
    clock.advance(LIFE_MS)
    assert asked(f"{url}/orders/next")[0] == 404
    assert queue_manager.curdepth(QUEUE) == 0


def test_a_request_that_waits_gets_the_order_that_comes(url: str) -> None:
    answers: list[tuple[int, bytes]] = []
    waiting = threading.Thread(
        target=lambda: answers.append(asked(f"{url}/orders/next?wait_ms=-1"))
    )
    waiting.start()
    assert asked(f"{url}/orders", b"cake")[0] == 202
    waiting.join(JOIN_SECONDS)
    assert answers == [(200, b"cake")]


def test_a_wrong_delay_is_told_with_its_reason_code(url: str) -> None:
    status, body = asked(f"{url}/orders?ready_in_ms=-1", b"x")
    assert (status, body.startswith(b"MQRC_OPTIONS_ERROR (2046)")) == (502, True)


@pytest.mark.slow
def test_orders_and_the_application_survive_a_kill_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its second start may take longer than the minute of an order.
    monkeypatch.setattr("examples.web.orders.LIFE_MS", 3_600_000)
    with held_port() as port:
        place = f"mq://127.0.0.1:{port}/QM1?channel=DEV.APP.SVRCONN"
        monkeypatch.setenv("ORDERS_URL", place)
        monkeypatch.setenv("ORDERS_PASSWORD", PASSWORD)
        with ExitStack() as first:
            first.enter_context(server(tmp_path, port))
            with application() as url:
                assert asked(f"{url}/orders", b"two teas")[0] == 202
                first.close()
                with server(tmp_path, port):
                    assert asked(f"{url}/orders/next?wait_ms=-1") == (200, b"two teas")
