"""The gate: whoever is killed, the log has each acknowledged unit, and a follower has the log."""

import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from mayfly import QueueManager
from mayfly.runtime import Runtime
from mayfly.store.database import DATABASE_FILE
from mayfly.store.replica.follower import Follower
from tests.postgres import Postgres
from tests.store.kills import kill, lines_in, started

#: The id of a message that ended on the staging queue is in the place of its CorrelId.
ENDED = """
    SELECT msg_id FROM ledger
    UNION ALL SELECT correl_id FROM ledger WHERE queue = 'SYSTEM.DDELAY.LOCAL.QUEUE'"""


def caught_up(url: str, folder: Path) -> bytes:
    """Bring a folder to the end of the log, and return its database."""
    follower = Follower(url, "QM1", folder, Runtime())
    follower.catch_up()
    follower.close()
    return (folder / DATABASE_FILE).read_bytes()


def ids_of(folder: Path) -> tuple[set[str], set[str]]:
    """Return the MsgIds of messages, and those of ended lives, in a folder that nobody has open."""
    uri = f"file:{folder / DATABASE_FILE}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(uri, flags=flags)
    waiting, ended = (
        {bytes(msg_id).hex() for (msg_id,) in connection.execute(sql) if msg_id is not None}
        for sql in ("SELECT msg_id FROM message", ENDED)
    )
    connection.close()
    return waiting, ended


def acknowledged(journals: Path) -> tuple[set[str], set[str]]:
    """Return the MsgIds that were put and got; the last line of a killed owner may be half."""
    puts, gets = set[str](), set[str]()
    for journal in journals.iterdir():
        for line in journal.read_text().split("\n")[:-1]:
            put, _, got = line.partition("|")
            puts.update(filter(None, put.split(",")))
            gets.update(filter(None, got.split(",")))
    return puts, gets


def check_nothing_is_missing(folder: Path, journals: Path) -> None:
    """Each unit that was acknowledged is in a folder that has the log alone."""
    waiting, ended = ids_of(folder)
    puts, gets = acknowledged(journals)
    assert puts <= waiting | ended
    assert gets <= ended
    assert not gets & waiting


@contextmanager
def following(url: str, folder: Path) -> "Iterator[subprocess.Popen[str]]":
    [process] = started(("tests.replica.follow", url, folder))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def commit_and_kill(
    server: Postgres, tmp_path: Path, round_count: int, unit_count: int, seed: int
) -> None:
    """Commit random units, and kill owner, follower or database again and again."""
    owned, followed, journals = tmp_path / "QM1", tmp_path / "follower", tmp_path / "journals"
    journals.mkdir()
    chance = random.Random(seed)
    for number in range(round_count):
        lines = lines_in(journals) + unit_count // round_count
        name = f"{seed}-{number}"
        [owner] = started(("tests.replica.units", server.url, owned, journals, name, 20_000))
        with following(server.url, followed) as follower:
            victim = ("server", "follower", "nobody")[(number + seed) % 3]
            middle = lines - chance.randrange(unit_count // round_count)
            while owner.poll() is None and lines_in(journals) < lines:
                if victim != "nobody" and lines_in(journals) >= middle:
                    if victim == "follower":
                        follower.kill()
                    else:
                        server.kill()
                        server.start()
                    victim = "nobody"
                try:
                    owner.wait(0.02)
                except subprocess.TimeoutExpired:
                    continue
            kill(owner, chance.random() * 0.02)
        # The owner's machine is gone: only the log is left.
        caught_up(server.url, followed)
        check_nothing_is_missing(followed, journals)
    with QueueManager("QM1", owned, replica=server.url) as qm:
        assert qm.verify().ok
    assert caught_up(server.url, followed) == (owned / DATABASE_FILE).read_bytes()
    check_nothing_is_missing(owned, journals)
    # The follower's folder takes over, and is whole.
    with QueueManager("QM1", followed, replica=server.url) as qm:
        assert qm.verify().ok


def test_no_acknowledged_unit_is_lost_by_kills_of_owner_follower_and_database(
    tmp_path: Path,
) -> None:
    server = Postgres()
    try:
        commit_and_kill(server, tmp_path, round_count=2, unit_count=60, seed=0)
    finally:
        server.close()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_no_acknowledged_unit_of_10_000_is_lost(tmp_path: Path, seed: int) -> None:
    server = Postgres()
    try:
        commit_and_kill(server, tmp_path, round_count=30, unit_count=10_000, seed=seed)
    finally:
        server.close()
