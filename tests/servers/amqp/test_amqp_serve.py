"""``mayfly serve --amqp``: users, authority and lifetimes for a client of another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from proton import Delivery, Message

from tests.servers.amqp.client import Client


def test_a_served_queue_manager_admits_its_users_by_amqp(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mayfly", "serve", "QM1", "--dev", "--json"]
    with subprocess.Popen(
        [*command, "--mq", "127.0.0.1:0", "--amqp", "127.0.0.1:0"],
        env={**os.environ, "MAYFLY_HOME": str(tmp_path), "MAYFLY_APP_PASSWORD": "passw0rd"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            ready = json.loads(server.stdout.readline())
            port = int(ready["amqp"].rpartition(":")[2])
            one = Client(port, user=ready["user"], password="passw0rd")
            sent = one.send(one.sender("DEV.QUEUE.1"), Message(body="x", ttl=60, durable=True))
            assert sent.remote_state == Delivery.ACCEPTED
            message, delivery = one.receive(one.receiver("DEV.QUEUE.1", credit=1))
            assert (message.body, message.ttl > 50) == ("x", True)
            one.settle(delivery, Delivery.ACCEPTED)
            refused = one.error_of(one.receiver("SYSTEM.ADMIN.COMMAND.QUEUE"))
            assert refused.name in ("amqp:unauthorized-access", "amqp:not-found")
            one.close()
            with pytest.raises(ConnectionResetError):
                Client(port, user="app", password="wrong")
            with pytest.raises(ConnectionResetError):
                Client(port, user="", password="", mechanism="ANONYMOUS")
        finally:
            server.terminate()
            _out, said = server.communicate(timeout=60)
        assert server.returncode == 0
        assert "AMQ5534E: QM1 refused (2035)" in said
