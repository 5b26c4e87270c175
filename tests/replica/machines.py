"""Two servers of QM1 and two databases, with all networks between them, that a test breaks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mayfly.admin.security.users import Users
from mayfly.client.client import Client
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import connect
from mayfly.mqi.errors import MQError
from mayfly.runtime import elapsed_ms
from mayfly.store.replica.lease import LEASE_MS
from tests.facts import wait_until
from tests.postgres import Postgres
from tests.postgres import connect as connect_to_database
from tests.relay import Relay, relaying
from tests.replica.accounts import Ownership
from tests.replica.disks import filled
from tests.replica.traffic import PASSWORD, QUEUES, REPLIES, TOKEN, USER, Places

SCRIPT = """
ALTER QMGR CHLAUTH(DISABLED)
ALTER QMGR MAXUMSGS(999999999)
DEFINE QLOCAL(PROBE) DEFPSIST(YES)
""" + "\n".join(
    f"DEFINE QLOCAL({name}) DEFPSIST(YES) MAXDEPTH(999999999)" for name in (*QUEUES, REPLIES)
)
CONFIG = """\
token_file = "token"

[listen]
mq = "{host}:1414"
amqp = "{host}:5672"
http = "{host}:9443"

[[queue_manager]]
name = "QM1"
path = "{folder}"
mqsc = ["qm1.mqsc"]
replica = "{url}"
replica_lease_ms = {lease_ms}
expiry_interval_seconds = 1
"""
PORTS = {"mq": 1414, "amqp": 5672, "http": 9443}
NAMES = ("one", "two")
#: Of databases: what a standby has not yet fetched is kept for it.
SETTINGS = ("wal_keep_size=512MB", "max_connections=40", "autovacuum_naptime=20s")
#: A table that has each owner, and since when, also of databases that are made from this one.
HISTORY = """
    CREATE TABLE owners (epoch bigint, owner text, since_ms double precision);
    INSERT INTO owners SELECT epoch, owner, 0 FROM mayfly.replica;
    CREATE FUNCTION note_owner() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO owners VALUES
            (NEW.epoch, NEW.owner, extract(epoch FROM clock_timestamp()) * 1000);
        RETURN NULL; END $$;
    CREATE TRIGGER note_owner AFTER UPDATE OF epoch ON mayfly.replica
        FOR EACH ROW WHEN (NEW.epoch <> OLD.epoch) EXECUTE FUNCTION note_owner();
"""


def loopback(number: int) -> str:
    """Return an address of this machine that no other process of tests listens on."""
    return f"127.{1 + os.getpid() // 250 % 250}.{os.getpid() % 250}.{number}"


class Server:
    """One server of QM1: its process, its folder, its networks; begun again whenever it ends."""

    def __init__(self, name: str, home: Path, network: Networks, lease_ms: int) -> None:
        self.name, self.home, self.network, self.lease_ms = name, home, network, lease_ms
        self.host = loopback(NAMES.index(name) + 1)
        #: The file system of its folder.
        self.disk = home / name
        self.disk.mkdir(exist_ok=True)
        self.process: subprocess.Popen[str] | None = None
        #: The names by which owners are known in the log.
        self.process_ids: list[int] = []
        #: What it said last: "owner" or "standby", empty before it has said anything.
        self.role = ""
        self.log = home / f"{name}.log"
        self._readers: list[threading.Thread] = []

    @property
    def folder(self) -> Path:
        return self.disk / "QM1"

    def start(self) -> None:
        if not (self.folder / "users.json").exists():
            self.folder.mkdir(exist_ok=True)
            (self.folder / "users.json").write_bytes((self.home / "users.json").read_bytes())
        config = self.home / f"{self.name}.toml"
        url = self.network.url_for(self.name)
        config.write_text(
            CONFIG.format(host=self.host, folder=self.folder, url=url, lease_ms=self.lease_ms)
        )
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "mayfly", "serve", str(config), "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.process, self.role = process, ""
        self.process_ids.append(process.pid)
        self._readers.append(threading.Thread(target=self._read, args=(process,)))
        self._readers[-1].start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as said:
            for line in said:
                with self.log.open("a") as log:
                    log.write(f"{self.name} says {line}")
                if self.process is process:
                    self.role = json.loads(line)["role"]

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process, self.role = None, ""

    def has_ended(self) -> bool:
        """Return True if it has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    def close(self) -> None:
        if self.process is not None:
            self.kill()
        for each in self._readers:
            each.join()


class Networks:
    """Relays: of each server to each database, and of clients to each listener of each server."""

    def __init__(self, stack: ExitStack, databases: list[Postgres]) -> None:
        def relay(host: str, port: int) -> Relay:
            return stack.enter_context(relaying(host, port))

        self.to_databases = {
            name: [relay(socket_of(each), 0) for each in databases] for name in NAMES
        }
        self.to_servers = {
            name: {
                listener: relay(loopback(NAMES.index(name) + 1), port)
                for listener, port in PORTS.items()
            }
            for name in NAMES
        }

    def url_for(self, name: str) -> str:
        ports = [str(each.port) for each in self.to_databases[name]]
        hosts = ",".join(["127.0.0.1"] * len(ports))
        return (
            f"postgresql://mayfly@/postgres?host={hosts}&port={','.join(ports)}"
            "&target_session_attrs=read-write"
        )

    def places(self) -> Places:
        mq, amqp, http = (
            [("127.0.0.1", self.to_servers[name][listener].port) for name in NAMES]
            for listener in PORTS
        )
        pinned = {name: (loopback(NAMES.index(name) + 1), PORTS["mq"]) for name in NAMES}
        return Places(mq, amqp, http, pinned)


def socket_of(database: Postgres) -> str:
    return str(database.folder / ".s.PGSQL.5432")


class Machines:
    """All of it: begun whole, broken by a test, and whole again after :meth:`mend`."""

    def __init__(
        self, home: Path, stack: ExitStack, *, has_disks: bool, lease_ms: int = LEASE_MS
    ) -> None:
        self.home, self._stack, self._has_disks = home, stack, has_disks
        (home / "token").write_text(TOKEN)
        (home / "qm1.mqsc").write_text(SCRIPT)
        (home / "journals").mkdir()
        Users(home).add(USER, PASSWORD, ("mqm",))
        self._disks: list[Path] = []
        #: The first is the primary, the other its synchronous standby.
        self.databases = [self._database(None)]
        self.databases.append(self._database(self.databases[0]))
        self.databases[0].synchronize("*")
        #: In the order of the relays.
        self._slots = list(self.databases)
        self.network = Networks(stack, self._slots)
        (home / "places.json").write_text(json.dumps(self.network.places()._asdict()))
        self.servers = {name: Server(name, home, self.network, lease_ms) for name in NAMES}
        for each in self.servers.values():
            if has_disks:
                self._mount(each.disk, "500m")
            stack.callback(each.close)
        #: How often a server has ended by itself, and was begun again.
        self.ended_count = 0
        self.switch_ms: list[int] = []

    def start(self) -> None:
        for each in self.servers.values():
            each.start()
        self.wait_whole()
        with self.databases[0].connect() as connection:
            connection.execute(HISTORY)

    def _database(self, source: Postgres | None) -> Postgres:
        made = Postgres(*SETTINGS, source=source, on_made=self._mount_database)
        self._stack.callback(made.close)
        return made

    def _mount_database(self, folder: Path) -> None:
        if self._has_disks:
            self._mount(folder, "2g")

    def _mount(self, folder: Path, size: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
        self._stack.callback(lambda: subprocess.run(["umount", "-l", folder], check=False))

    @property
    def url(self) -> str:
        """The database as the test itself reaches it."""
        return self.databases[0].url

    @property
    def owner(self) -> Server:
        return self._with_role("owner")

    @property
    def standby(self) -> Server:
        return self._with_role("standby")

    def _with_role(self, role: str) -> Server:
        for each in self.servers.values():
            if each.role == role:
                return each
        raise LookupError(f"no server is the {role} at the moment")

    def wait_whole(self) -> None:
        """Wait for an owner and a standby that follows; servers that end are begun again."""
        wait_until(self._is_whole, 120)

    def keep(self) -> None:
        """Begin servers again that have ended by themselves."""
        for each in self.servers.values():
            if each.has_ended():
                self.ended_count += 1
                each.start()

    def _is_whole(self) -> bool:
        self.keep()
        if sorted(each.role for each in self.servers.values()) != ["owner", "standby"]:
            return False
        processes = [each.process for each in (self.standby, self.owner)]
        sql = (
            "SELECT count(*) FROM mayfly.replica_standby s JOIN mayfly.replica r USING (instance) "
            "WHERE s.name LIKE %s AND seen > clock_timestamp() - interval '3 s' "
            "AND r.owner LIKE %s AND lease_end > clock_timestamp()"
        )
        names = [f"%process {each.pid}" for each in processes if each is not None]
        with self.databases[0].connect() as connection:
            [count] = connection.execute(sql, names).fetchone()
        return bool(count)

    def owners(self) -> list[Ownership]:
        """Return who was the owner since when."""
        names = {pid: each.name for each in self.servers.values() for pid in each.process_ids}
        with connect_to_database(self.url) as connection:
            rows = connection.execute("SELECT owner, since_ms FROM owners ORDER BY epoch")
            return [
                Ownership(names[int(owner.rpartition(" ")[2])], since_ms)
                for owner, since_ms in rows
            ]

    def first_message_ms(self, began_ms: int) -> int:
        """Put and get a message at whichever server takes it; return when, since a moment."""
        while True:
            self.keep()
            with contextlib.suppress(MQError), self.client() as client:
                client.put("PROBE", b"", persistent=True)
                if client.get("PROBE") is not None:
                    return elapsed_ms() - began_ms
            threading.Event().wait(0.02)

    def client(self, *, transacted: bool = False) -> Client:
        """Return a client of the owner."""
        places = self.network.places().pinned.values()
        endpoint = Endpoint(tuple(Address(*each) for each in places), "", "QM1")
        return Client(connect(endpoint, "anna", TOKEN), transacted=transacted)

    @contextmanager
    def full(self, disk: Path) -> Iterator[None]:
        """Return a context in which a file system has no room."""
        filler = filled(disk)
        try:
            yield
        finally:
            filler.unlink(missing_ok=True)

    def lose_primary(self) -> None:
        """Kill the primary; its synchronous standby takes its place, and has no standby."""
        lost, promoted = self.databases
        lost.kill()
        promoted.promote()
        promoted.synchronize("")
        self.databases = [promoted]

    def mend_databases(self) -> None:
        """Begin databases that have ended; give the primary a synchronous standby."""
        for each in self.databases:
            each.start()
        if len(self.databases) == 1:
            [primary] = self.databases
            standby = self._database(primary)
            slot = next(n for n, each in enumerate(self._slots) if each is not primary)
            self._slots[slot].close()
            self._slots[slot] = standby
            for relays in self.network.to_databases.values():
                relays[slot].target = socket_of(standby), 0
            self.databases = [primary, standby]
        self.databases[0].synchronize("*")
