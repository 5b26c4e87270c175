"""Two servers of one queue manager: one owns it, the other follows, refuses clients, takes over."""

import json
import os
import random
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from mayfly.admin.security.users import Users
from mayfly.client.client import Client
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import connect as connect_client
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError
from mayfly.runtime import Runtime, SystemClock
from mayfly.store.replica.log import PostgresLog
from tests.facts import wait_until
from tests.postgres import connect
from tests.replica.disks import filled
from tests.replica.test_replica import opened, put

TOKEN = "a token that both servers have"
SCRIPT = """\
DEFINE QLOCAL(Q1) DEFPSIST(YES)
DEFINE QLOCAL(REPLIES) DEFPSIST(YES)
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)
SET AUTHREC OBJTYPE(QMGR) GROUP(staff) AUTHADD(CONNECT)
SET AUTHREC PROFILE(REPLIES) OBJTYPE(QUEUE) GROUP(staff) AUTHADD(GET)
"""
CONFIG = """\
token_file = "token"

[listen]
{listen}

[[queue_manager]]
name = "QM1"
path = "{name}"
mqsc = ["qm1.mqsc"]
replica = "{url}"
replica_lease_ms = {lease_ms}
"""
#: In a namespace of its own the process has a small disk, which ends with it.
ALONE = ("unshare", "--user", "--map-root-user", "--mount")
MOUNT = 'mount -t tmpfs -o size=40m none "$1" && shift && exec "$@"'
#: What a database without room says.
FULL = """
    CREATE FUNCTION mayfly.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE SQLSTATE '53100' USING MESSAGE = 'no room'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON mayfly.replica_log
        FOR EACH ROW EXECUTE FUNCTION mayfly.refuse()"""


#: Packages that listeners need.
NEEDED = {"http": "uvicorn", "amqp": "proton"}


class Server(NamedTuple):
    """A server, and where it keeps its log."""

    process: "subprocess.Popen[str]"
    folder: Path

    def line(self) -> dict[str, Any]:
        """Return what it says next: that it owns the queue manager, or stands by."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.folder.with_suffix(".log").read_text()
        said: dict[str, Any] = json.loads(line)
        return said


def served(
    home: Path,
    url: str,
    name: str,
    ports: tuple[str, ...],
    *,
    lease_ms: int = 4_000,
    has_own_disk: bool = False,
) -> Server:
    """Start a server with a folder of its own below ``home`` and listeners of these names."""
    (home / "token").write_text(TOKEN)
    (home / "qm1.mqsc").write_text(SCRIPT)
    config = home / f"{name}.toml"
    listen = "\n".join(f'{port} = "127.0.0.1:0"' for port in ports)
    config.write_text(CONFIG.format(name=name, url=url, listen=listen, lease_ms=lease_ms))
    serve = [sys.executable, "-m", "mayfly", "serve", str(config), "--json"]
    if has_own_disk:
        (home / name).mkdir()
        serve = [*ALONE, "sh", "-c", MOUNT, "sh", str(home / name), *serve]
    with (home / f"{name}.log").open("w") as log:
        process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, text=True)
    return Server(process, home / name)


class Pair:
    """An owner and a standby, and what each said first; all servers end with the test."""

    def __init__(self, home: Path, url: str, ports: tuple[str, ...]) -> None:
        self.url, self._home, self._ports = url, home, ports
        self._started: list[Server] = []

    def start(self) -> None:
        """Start both at once: one of them begins the log, and the other follows."""
        lines = {each: each.line() for each in (self.served("one"), self.served("two"))}
        self.owner, self.standby = sorted(lines, key=lambda each: str(lines[each]["role"]))
        self.owned, self.stood_by = lines[self.owner], lines[self.standby]

    def served(self, name: str, **options: Any) -> Server:
        self._started.append(served(self._home, self.url, name, self._ports, **options))
        return self._started[-1]

    def close(self) -> None:
        for each in self._started:
            each.process.kill()
            each.process.communicate()


@pytest.fixture
def pair(url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pair]:
    ports = getattr(request, "param", ("mq",))
    for package in [package for port, package in NEEDED.items() if port in ports]:
        pytest.importorskip(package)
    it = Pair(tmp_path, url, ports)
    try:
        it.start()
        yield it
    finally:
        it.close()


def client_of(*lines: dict[str, Any]) -> Client:
    """Connect to the first of servers that lets one in, by what they have said."""
    hosts = [line["mq"].split(":") for line in lines]
    addresses = tuple(Address(host, int(port)) for host, port in hosts)
    return Client(connect_client(Endpoint(addresses, "", "QM1"), "anna", TOKEN))


def command(*words: object, given: str = "") -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "mayfly", *map(str, words)]
    return subprocess.run(line, input=given, capture_output=True, text=True, check=False)


def add_user(name: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Add a user with the password ``secret``, by the command."""
    words = ("user", "add", "QM1", name, "--group", "staff", "--password-stdin", "--path", folder)
    return command(*words, given="secret\n")


def refusal(url: str) -> dict[str, Any]:
    """Return what the port of a standby for HTTP says."""
    with pytest.raises(HTTPError, match="503") as refused:
        urlopen(url)
    said: dict[str, Any] = json.loads(refused.value.read())
    return said


def status_of(url: str) -> int:
    """Return the status of an answer."""
    try:
        with urlopen(url) as answer:
            status: int = answer.status
            return status
    except HTTPError as error:
        with error:
            return error.code


def standbys_of(owned: dict[str, Any]) -> list[dict[str, str]]:
    """Return where the standbys of an owner listen, as its summary by HTTP has it."""
    asked = Request(f"http://{owned['http']}/mayfly/v1/qmgr/QM1/summary")
    asked.add_header("Authorization", f"Bearer {TOKEN}")
    with urlopen(asked) as answer:
        found = json.load(answer)["replica"]
    assert (found["role"], found["epoch"], found["lease_ms"]) == ("owner", 2, 4_000)
    assert found["lease_age_ms"] < 4_000
    return [each["addresses"] for each in found["standbys"]]


def check_scrape(pair: Pair, url: str) -> None:
    """A user of the owner's folder, which is in that of the standby, sees that it is one."""
    for each in (pair.owner, pair.standby):
        Users(each.folder).add("scraper", "a password")
    asked = Request(f"{url}/metrics")
    asked.add_header("Authorization", f"Basic {b64encode(b'scraper:a password').decode()}")
    with urlopen(asked) as answer:
        up = 'mayfly_queue_manager_up{queue_manager="QM1",state="standby"} 1.0'
        assert up in answer.read().decode()
    assert status_of(f"{url}/metrics") == 401


def receive_by_amqp(address: str) -> None:
    """Open a receiver; the close of a standby comes with the open, or behind it."""
    from proton.utils import BlockingConnection

    BlockingConnection(f"amqp://{address}", timeout=60).create_receiver("Q1")


def bodies_of(client: Client, queue: str) -> list[bytes]:
    """Get all messages of a queue."""
    return [message.body for message in iter(lambda: client.get(queue), None)]


def has_standby(url: str) -> bool:
    """Return True if a standby of QM1 is heard of that has not become the owner since."""
    log = PostgresLog(url, "QM1", Runtime())
    standing = log.standing()
    assert standing is not None
    names = {each.name for each in log.standbys(standing.instance)}
    log.close()
    return bool(names - {standing.owner})


@pytest.mark.parametrize("pair", [("mq", "http", "amqp")], ids=["all"], indirect=True)
def test_a_standby_names_the_owner_to_clients_and_becomes_it_by_a_switch_or_when_that_stops(
    pair: Pair,
) -> None:
    assert (pair.owned["role"], pair.stood_by["role"]) == ("owner", "standby")
    url = f"http://{pair.stood_by['http']}"
    # The owner tells its addresses with the next renewal of its lease.
    wait_until(
        lambda: refusal(f"{url}/health/ready")["owners"]["QM1"]["address"] == pair.owned["http"]
    )
    resource = refusal(f"{url}/mayfly/v1/qmgr/QM1/queues")
    assert (resource["role"], resource["address"]) == ("standby", pair.owned["http"])
    ibm = refusal(f"{url}/ibmmq/rest/v3/messaging/qmgr/QM1/queue/Q1/message")
    assert pair.owned["http"] in ibm["error"][0]["message"]
    with pytest.raises(MQError, match=rf"2538.*QM1 is a standby here; .* at {pair.owned['mq']}"):
        client_of(pair.stood_by)
    with urlopen(f"{url}/health/live") as alive:
        assert alive.status == 200
    # It has applied the log once, and could take over.
    wait_until(lambda: status_of(f"{url}/health/replica") == 200)
    assert status_of(f"http://{pair.owned['http']}/health/replica") == 200
    check_scrape(pair, url)
    wait_until(lambda: standbys_of(pair.owned))
    assert standbys_of(pair.owned) == [
        {name: pair.stood_by[name] for name in ("mq", "http", "amqp")}
    ]
    from proton.utils import ConnectionClosed

    with pytest.raises(ConnectionClosed, match="amqp:connection:redirect") as closed:
        receive_by_amqp(pair.stood_by["amqp"])
    host, port = pair.owned["amqp"].split(":")
    assert str(closed.value).count(f"'{host}'") == 2
    assert f"uint({port})" in str(closed.value)
    path = ("--path", pair.standby.folder)
    [status] = json.loads(command("qm", "status", "QM1", "--json", *path).stdout)
    assert (status["state"], status["replica"]["epoch"]) == ("standby", 2)
    assert "QM1 is a standby here" in command("put", "QM1", "Q1", "x", *path).stderr
    refused = add_user("lost", pair.standby.folder).stderr
    assert "is not the owner's; QM1 is a standby here" in refused
    assert f"process {pair.owner.process.pid}" in refused
    assert not add_user("berta", pair.owner.folder).returncode
    # A client with both addresses finds the owner.
    with client_of(pair.stood_by, pair.owned) as client:
        client.put("Q1", b"put at the first owner", persistent=True)
    done = command("switch", "QM1", "--replica", pair.url, "--json")
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout)["epoch"] == 3
    owned, stood_by = pair.standby.line(), pair.owner.line()
    assert (owned["role"], stood_by["role"]) == ("owner", "standby")
    with client_of(stood_by, owned) as client:
        assert bodies_of(client, "Q1") == [b"put at the first owner"]
        client.put("Q1", b"put at the second owner", persistent=True)
    host, port = owned["mq"].split(":")
    endpoint = Endpoint((Address(host, int(port)),), "APP", "QM1")
    with pytest.raises(MQError, match="2035"):
        connect_client(endpoint, "berta", "wrong")
    with Client(connect_client(endpoint, "berta", "secret")) as client:
        assert client.get("REPLIES") is None
    # An owner that is stopped past its lease is replaced, and stands by when it goes on.
    os.kill(pair.standby.process.pid, signal.SIGSTOP)
    owned = pair.owner.line()
    os.kill(pair.standby.process.pid, signal.SIGCONT)
    assert (owned["role"], pair.standby.line()["role"]) == ("owner", "standby")
    with client_of(owned) as client:
        assert bodies_of(client, "Q1") == [b"put at the second owner"]


def test_a_switch_without_a_standby_changes_nothing(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path / "QM1") as qm:
        refused = command("switch", "QM1", "--replica", url)
        assert refused.returncode == 1
        assert "no standby follows QM1: nothing is changed" in refused.stderr
        put(qm, b"still the owner")


def put_all(owned: dict[str, Any], count: int, expiring_count: int) -> dict[bytes, int]:
    """Put messages, some delayed, and others that expire in a second.

    Returns by its body when each may be got at the earliest (epoch ms), but for those that expire.
    """
    clock, due_ms = SystemClock(), dict[bytes, int]()
    with client_of(owned) as client:
        for number in range(count):
            body, delay_ms = b"%d" % number, (0, 2_000, 7_000)[number % 3]
            due_ms[body] = clock.now_ms() + delay_ms
            client.put("Q1", body, persistent=True, delay_ms=delay_ms)
        for _ in range(expiring_count):
            client.put(
                "Q1",
                b"expired",
                persistent=True,
                priority=9,
                time_to_live_ms=1_000,
                report=c.MQRO_EXPIRATION,
                reply_to_q="REPLIES",
            )
    return due_ms


def check_all_come(owned: dict[str, Any], due_ms: dict[bytes, int], expired_count: int) -> None:
    """Each message comes once and not before its time, and a report for each that has expired."""
    got = list[bytes]()
    with client_of(owned) as client:
        while len(got) < len(due_ms):
            message = client.get("Q1", wait_ms=60_000)
            assert message is not None, sorted(due_ms.keys() - set(got))
            assert SystemClock().now_ms() >= due_ms[message.body]
            got.append(message.body)
        assert sorted(got) == sorted(due_ms)
        assert client.get("Q1") is None
        assert len(bodies_of(client, "REPLIES")) == expired_count


def test_a_standby_takes_over_from_a_killed_owner_nothing_is_lost_doubled_or_early(
    pair: Pair,
) -> None:
    # Nobody gets those that expire before the owner is killed, and its lease is longer.
    due_ms = put_all(pair.owned, 30, 5)
    pair.owner.process.kill()
    owned = pair.standby.line()
    assert owned["role"] == "owner"
    check_all_come(owned, due_ms, 5)


@pytest.mark.long
def test_a_standby_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    url: str, tmp_path: Path
) -> None:
    try:
        subprocess.run([*ALONE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine lets nobody mount a disk of their own")
    pair = Pair(tmp_path, url, ("mq",))
    try:
        owner = pair.served("one", lease_ms=1_000)
        owned = owner.line()
        standby = pair.served("two", lease_ms=1_000, has_own_disk=True)
        assert standby.line()["role"] == "standby"
        filler = filled(Path(f"/proc/{standby.process.pid}/root{standby.folder}"))
        log = standby.folder.with_suffix(".log")

        def is_told() -> bool:
            client.put("Q1", os.urandom(1_000_000), persistent=True)
            return "disk is full; this standby waits" in log.read_text()

        with client_of(owned) as client:
            wait_until(is_told)
        assert standby.process.poll() is None
        assert not follows_to_the_end(url)
        filler.unlink()
        wait_until(lambda: follows_to_the_end(url))
        # It has nothing to fetch now, and cannot be opened.
        filled(filler.parent)
        owner.process.kill()
        wait_until(lambda: "QM1 follows from now on" in log.read_text())
        filler.unlink()
        line = standby.line()
        while line["role"] != "owner":
            line = standby.line()
    finally:
        pair.close()


def follows_to_the_end(url: str) -> bool:
    """Return True if a standby of QM1 has all rows of the log."""
    log = PostgresLog(url, "QM1", Runtime())
    standing = log.standing()
    assert standing is not None
    numbers = [each.number for each in log.standbys(standing.instance)]
    log.close()
    return standing.last in numbers


@pytest.mark.long
def test_a_server_whose_database_has_no_room_follows_until_it_has(url: str, tmp_path: Path) -> None:
    pair = Pair(tmp_path, url, ("mq",))
    try:
        owner = pair.served("one", lease_ms=1_000)
        assert owner.line()["role"] == "owner"
        standby = pair.served("two", lease_ms=1_000)
        assert standby.line()["role"] == "standby"
        with connect(url) as connection:
            connection.execute(FULL)
        owner.process.kill()
        log = standby.folder.with_suffix(".log")
        wait_until(lambda: "QM1 follows from now on" in log.read_text())
        assert "no room" in log.read_text()
        with connect(url) as connection:
            connection.execute("DROP FUNCTION mayfly.refuse CASCADE")
        line = standby.line()
        while line["role"] != "owner":
            line = standby.line()
        with client_of(line) as client:
            client.put("Q1", b"there is room", persistent=True)
    finally:
        pair.close()


@pytest.mark.soak
def test_no_message_is_lost_doubled_or_early_in_20_changes_of_owners(pair: Pair) -> None:
    chance = random.Random(0)
    owner, standby, owned = pair.owner, pair.standby, pair.owned
    for number in range(20):
        way = ("kill", "stop", "switch")[number % 3]
        expiring_count = 0 if way == "switch" else 5
        wait_until(lambda: has_standby(pair.url))
        due_ms = put_all(owned, chance.randrange(1, 300), expiring_count)
        if way == "switch":
            done = command("switch", "QM1", "--replica", pair.url)
            assert not done.returncode, done.stderr
        else:
            os.kill(owner.process.pid, signal.SIGKILL if way == "kill" else signal.SIGSTOP)
        owned = standby.line()
        assert owned["role"] == "owner", number
        if way == "kill":
            owner.process.wait()
            owner = pair.served(owner.folder.name)
        elif way == "stop":
            os.kill(owner.process.pid, signal.SIGCONT)
        assert owner.line()["role"] == "standby"
        owner, standby = standby, owner
        check_all_come(owned, due_ms, expiring_count)


@pytest.mark.long
def test_a_second_server_for_developers_joins_and_has_the_passwords_of_the_first(
    url: str, tmp_path: Path
) -> None:
    servers: list[Server] = []

    def begun(name: str) -> dict[str, Any]:
        words = ("QM1", "--dev", "--path", tmp_path / name, "--replica", url, "--json")
        line = [sys.executable, "-m", "mayfly", "serve", *map(str, words), "--mq", "127.0.0.1:0"]
        with (tmp_path / f"{name}.log").open("w") as log:
            process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, text=True)
        servers.append(Server(process, tmp_path / name))
        return servers[-1].line()

    def client_at(line: dict[str, Any]) -> Client:
        host, port = line["mq"].split(":")
        endpoint = Endpoint((Address(host, int(port)),), "DEV.APP.SVRCONN", "QM1")
        return Client(connect_client(endpoint, "app", password))

    try:
        first, second = begun("one"), begun("two")
        assert (first["role"], second["role"]) == ("owner", "standby")
        password = first["password"]
        with client_at(first) as client:
            client.put("DEV.QUEUE.1", b"put at the first", persistent=True)
        servers[0].process.kill()
        owned = servers[1].line()
        assert (owned["role"], owned["password"]) == ("owner", password)
        with client_at(owned) as client:
            assert bodies_of(client, "DEV.QUEUE.1") == [b"put at the first"]
    finally:
        for each in servers:
            each.process.kill()
            each.process.communicate()
