"""A server of several queue managers with a replica: each is followed, owned and given up alone."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mayfly
from mayfly import QueueManager
from mayfly.cli.standby import reachable
from mayfly.client.client import Client
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import connect
from mayfly.mqi.errors import FolderInUse, MQError
from mayfly.runtime import Runtime
from mayfly.store.replica.log import PostgresLog
from mayfly.store.replica.owner import StandbyLag
from mayfly.store.replica.standing import ReplicaStanding, read_standing, write_standing
from tests.facts import wait_until
from tests.replica.test_standby import SCRIPT, TOKEN, Server, bodies_of, command

NAMES = ("QM1", "QM2")
CONFIG = """\
token_file = "token"

[listen]
mq = "127.0.0.1:0"
"""
MANAGER = """
[[queue_manager]]
name = "{name}"
path = "{home}/{name}"
mqsc = ["script.mqsc"]
"""


class Servers:
    """Servers of QM1 and QM2, which have a replica, and of a queue manager of their own without."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url = home, url
        (home / "token").write_text(TOKEN)
        (home / "script.mqsc").write_text(SCRIPT)
        self._started: list[Server] = []

    def start(self, name: str) -> Server:
        """Start a server with a home of its own; ``name`` is that of its own queue manager."""
        text = CONFIG + MANAGER.format(name=name, home=self.home / name)
        for each in NAMES:
            text += MANAGER.format(name=each, home=self.home / name)
            text += f'replica = "{self.url}"\n'
        config = self.home / f"{name}.toml"
        config.write_text(text)
        with (self.home / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "mayfly", "serve", str(config), "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._started.append(Server(process, self.home / name))
        return self._started[-1]

    def close(self) -> None:
        for each in self._started:
            each.process.kill()
            each.process.communicate()


@pytest.fixture
def servers(url: str, tmp_path: Path) -> Iterator[Servers]:
    it = Servers(tmp_path, url)
    yield it
    it.close()


def client_of(line: dict[str, Any], name: str) -> Client:
    host, port = line["mq"].split(":")
    endpoint = Endpoint((Address(host, int(port)),), "", name)
    return Client(connect(endpoint, "anna", TOKEN))


def roles(*lines: dict[str, Any]) -> dict[str, str | None]:
    """Return the role of each queue manager, as a server has said."""
    return {name: line.get("role") for line in lines for name in line["queue_managers"]}


def is_followed(url: str, name: str) -> bool:
    log = PostgresLog(url, name, Runtime())
    standing = log.standing()
    names = set[str]()
    if standing is not None:
        names = {each.name for each in log.standbys(standing.instance)} - {standing.owner}
    log.close()
    return bool(names)


def said(server: Server, name: str) -> ReplicaStanding:
    """Return what a server says of its part in the replica of a queue manager, once it does."""
    wait_until(lambda: read_standing(server.folder / name) is not None)
    standing = read_standing(server.folder / name)
    assert standing is not None
    return standing


class Knocking:
    """A thread that connects to ports all the time, and counts those that are refused."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        hosts = [line["mq"].split(":") for line in lines]
        self._addresses = [(host, int(port)) for host, port in hosts]
        self._done = threading.Event()
        self.count, self.refused = 0, list[OSError]()
        self._thread = threading.Thread(target=self._knock)
        self._thread.start()

    def _knock(self) -> None:
        while not self._done.wait(0.002):
            for address in self._addresses:
                try:
                    socket.create_connection(address, 60).close()
                    self.count += 1
                except OSError as error:
                    self.refused.append(error)

    def end(self) -> None:
        self._done.set()
        self._thread.join()


@pytest.mark.long
def test_each_queue_manager_of_two_servers_has_its_own_owner_and_no_port_is_closed(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = servers.start("ONE")
    first = one.line()
    assert roles(first) == {"ONE": None}
    assert roles(one.line(), one.line()) == dict.fromkeys(NAMES, "owner")
    two = servers.start("TWO")
    second = two.line()
    assert roles(second) == {"TWO": None}
    assert roles(two.line(), two.line()) == dict.fromkeys(NAMES, "standby")
    wait_until(lambda: all(is_followed(servers.url, name) for name in NAMES))
    kept, given_up = client_of(first, "QM1"), client_of(first, "QM2")
    kept.put("Q1", b"at QM1", persistent=True)
    given_up.put("Q1", b"at QM2", persistent=True)
    knocking = Knocking(first, second)
    try:
        done = command("switch", "QM2", "--replica", servers.url)
        assert not done.returncode, done.stderr
        assert roles(two.line()) == {"QM2": "owner"}
        assert roles(one.line()) == {"QM2": "standby"}
    finally:
        knocking.end()
    assert (knocking.count > 0, knocking.refused) == (True, [])
    # Its own client was told so, and that of the other queue manager has noticed nothing.
    with pytest.raises(MQError, match=r"2009|2161"):
        given_up.get("Q1")
    assert bodies_of(kept, "Q1") == [b"at QM1"]
    kept.put("Q1", b"more", persistent=True)
    # The owner tells its addresses with the next renewal of its lease.
    wait_until(lambda: said(one, "QM2").address == second["mq"])
    with pytest.raises(MQError, match=rf"2538.*QM2 is a standby here; .* at {second['mq']}"):
        client_of(first, "QM2")
    with client_of(second, "QM2") as client:
        assert bodies_of(client, "Q1") == [b"at QM2"]
    # Programs of a machine learn where the owner is.
    monkeypatch.setenv("MAYFLY_HOME", str(two.folder))
    wait_until(lambda: said(two, "QM1").address == first["mq"])
    refused = rf"QM1 is a standby here; its owner is .*, process {one.process.pid} at {first['mq']}"
    with pytest.raises(MQError, match=f"2538.*{refused}"):
        mayfly.connect("QM1")
    with pytest.raises(FolderInUse, match=refused):
        QueueManager("QM1", two.folder / "QM1", replica=servers.url)
    assert "its owner is" in command("put", "QM1", "Q1", "x").stderr
    check_status(one, two)
    # The one that is left owns all, and a client that it has already stays.
    with client_of(second, "QM2") as client:
        one.process.kill()
        assert roles(two.line()) == {"QM1": "owner"}
        assert client.get("Q1") is None
    with client_of(second, "QM1") as client:
        assert bodies_of(client, "Q1") == [b"more"]
    two.process.terminate()
    assert two.process.wait(60) == 0


def check_status(owner: Server, standby: Server) -> None:
    """Both folders of QM1 say role, lag, epoch and the age of the lease, as text and as JSON."""
    wait_until(lambda: said(owner, "QM1").standbys and not said(standby, "QM1").lag_rows)
    place = ("--path", owner.folder / "QM1")
    [status] = json.loads(command("qm", "status", "QM1", "--json", *place).stdout)
    owned = status["replica"]
    assert (owned["role"], owned["epoch"], owned["lag_rows"]) == ("owner", 2, 0)
    assert owned["lease_age_ms"] >= 0
    [lag] = owned["standbys"]
    # As in the summary by HTTP.
    assert lag.keys() == {"name", "addresses", "lag_rows", "lag_ms", "seen_ms"}
    assert lag["addresses"].keys() == {"mq"}
    assert lag["name"].endswith(f", process {standby.process.pid}")
    text = command("qm", "status", "QM1", "--path", standby.folder / "QM1").stdout
    place_of_owner = f"{owned['owner']} {owned['address']}"
    line = f"standby, 0 rows behind for 0.0 s, epoch 2, lease .* ago, owner {place_of_owner}"
    assert re.search(f"replica of QM1: {line}", text), text


def test_what_a_server_says_of_itself_counts_while_it_lives(tmp_path: Path) -> None:
    found = ReplicaStanding("QM1", "standby", "", "", 3, 17, 5, 900, None, (), os.getpid(), 1)
    write_standing(tmp_path, found)
    assert read_standing(tmp_path) == found
    lag = StandbyLag("two", {"mq": "two:1414"}, 2, 400, 90)
    owned = found._replace(role="owner", standbys=(lag,))
    write_standing(tmp_path, owned)
    assert read_standing(tmp_path) == owned
    assert found.refusal == "QM1 is a standby here; nobody is known to own it"
    # What a killed server has left counts for nothing.
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    write_standing(tmp_path, found._replace(process_id=ended.pid))
    assert read_standing(tmp_path) is None
    (tmp_path / "replica.json").write_text('{"role": ')
    assert read_standing(tmp_path) is None


def test_the_address_of_each_listener_is_one_that_other_machines_know() -> None:
    name = socket.gethostname()
    assert reachable({"mq": "127.0.0.1:1414", "flight": "grpc://0.0.0.0:9414"}) == {
        "mq": "127.0.0.1:1414",
        "flight": f"{name}:9414",
    }
