"""Damage on the disk is found, named StoreDamaged, and never written over."""

import contextlib
import json
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import apsw
import pytest

from mayfly import QueueManager
from mayfly.mqi.errors import ConnectionBroken, StoreDamaged, StoreError
from mayfly.runtime import Files
from mayfly.store import damage
from mayfly.store.damage import IDENTITY_FILE, is_protected
from mayfly.store.database import DATABASE_FILE, SCHEMA_VERSION, Database
from mayfly.store.restoring import accept_restored
from mayfly.store.store import Store
from mayfly.store.units import StoredMessage
from tests.snapshots import on_a_snapshot
from tests.spec.scene import local
from tests.store.cuts import LOG_FILE
from tests.store.scene import get_unit, held, new_row, opened, put_unit, statement

State = list[tuple[bytes, bytes]]
COMMITS = 40


def state(store: Store) -> State:
    return [(row.msg_id, row.body) for row in store.persistent.in_order(0, 2**62, 100_000)]


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder that hold anything but the index of the log, made anew."""
    files = {f.name: f.read_bytes() for f in folder.iterdir() if f.suffix != ".db-shm"}
    return {name: held for name, held in files.items() if held}


def copied(folder: Path, copy: Path) -> Path:
    """Copy the folder of an open store as a kill would leave it."""
    # Not by this process: whoever closes a file gives up all locks that its process has on it.
    subprocess.run(["cp", "-r", folder, copy], check=True)
    (copy / f"{DATABASE_FILE}-shm").unlink(missing_ok=True)
    return copy


def committed(folder: Path) -> tuple[Store, list[State]]:
    """Return an open store after some commits, and what it held after each."""
    random, store, states = Random(1), opened(folder), [State()]
    rows: list[StoredMessage] = []
    for n in range(COMMITS):
        row = new_row(store, random.randbytes(random.choice((20, 3_000, 9_000))))
        unit = get_unit(rows.pop(0)) if rows and n % 3 == 0 else put_unit(store, row)
        if unit.inserts:
            rows.append(row)
        store.commit([unit])
        states.append([(r.msg_id, r.body) for r in rows])
    return store, states


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[State]]:
    """A folder whose queue manager was killed, and what it held after each commit."""
    place = tmp_path_factory.mktemp("damage")
    store, states = committed(place / "open")
    folder = copied(place / "open", place / "cut-off")
    store.close()
    return folder, states


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[State]]:
    """The same, closed in good order."""
    folder = tmp_path_factory.mktemp("damage") / "closed"
    store, states = committed(folder)
    store.close()
    return folder, states


def opened_unless_damaged(folder: Path) -> Store | None:
    try:
        return opened(folder)
    except StoreDamaged:
        return None


def flipped(file: Path, place: int, mask: int) -> None:
    whole = bytearray(file.read_bytes())
    whole[place] ^= mask
    file.write_bytes(whole)


def places(file: Path, count: int) -> list[int]:
    """Return places in what was written of a file, the same each time."""
    size = len(file.read_bytes().rstrip(b"\0"))
    return [n * size // count + Random(n).randrange(size // count) for n in range(count)]


#: How many places in a file are damaged, one after the other.
PLACES = pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.soak)])


@pytest.mark.slow
@PLACES
def test_flipped_bit_of_the_database_is_found_wherever_it_is(
    closed: tuple[Path, list[State]], tmp_path: Path, count: int
) -> None:
    """At the opening, by whoever reads the page, or by verify; no wrong body is handed out."""
    folder, states = closed
    for n, place in enumerate(places(folder / DATABASE_FILE, count)):
        copy = Path(shutil.copytree(folder, tmp_path / str(n)))
        flipped(copy / DATABASE_FILE, place, 1 << n % 8)
        before = content(copy)
        store = opened_unless_damaged(copy)
        if store is None:
            assert content(copy) == before
            continue
        assert store.check() != []
        with contextlib.suppress(StoreDamaged):
            assert state(store) == states[-1]
        store.close()


@pytest.mark.slow
@PLACES
def test_flipped_bit_of_the_log_is_found_but_in_the_last_two_transactions(
    cut_off: tuple[Path, list[State]], tmp_path: Path, count: int
) -> None:
    folder, states = cut_off
    refused = 0
    for n, place in enumerate(places(folder / LOG_FILE, count)):
        copy = Path(shutil.copytree(folder, tmp_path / str(n)))
        flipped(copy / LOG_FILE, place, 1 << n % 8)
        before = content(copy)
        store = opened_unless_damaged(copy)
        if store is None:
            refused += 1
            assert content(copy) == before
            continue
        # It looks like a transaction that never reached the disk as a whole.
        assert state(store) in states[-3:]
        assert store.check() == []
        store.close()
    assert refused >= count * 5 // 6


def empty(file: Path) -> None:
    file.write_bytes(b"")


def zero_head(file: Path) -> None:
    file.write_bytes(bytes(32) + file.read_bytes()[32:])


def flip_head(file: Path) -> None:
    flipped(file, 17, 0x10)


def zero_all(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def cut_to_page_1(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:4096])


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        (DATABASE_FILE, empty),
        (DATABASE_FILE, Path.unlink),
        (DATABASE_FILE, zero_all),
        (LOG_FILE, empty),
        (LOG_FILE, Path.unlink),
        (LOG_FILE, zero_head),
        (LOG_FILE, flip_head),
        (LOG_FILE, zero_all),
        (IDENTITY_FILE, empty),
    ],
)
def test_emptied_or_zeroed_file_is_damage_and_no_new_store(
    cut_off: tuple[Path, list[State]],
    tmp_path: Path,
    name: str,
    spoil: Callable[[Path], None],
) -> None:
    """Nothing of this folder has gone into the database yet: all of it is in the log."""
    copy = Path(shutil.copytree(cut_off[0], tmp_path / "copy"))
    spoil(copy / name)
    before = content(copy)
    for _ in range(2):
        with pytest.raises(StoreDamaged) as refused:
            opened(copy)
        assert refused.value.path == copy
        assert content(copy) == before


@pytest.mark.parametrize("spoil", [empty, cut_to_page_1, zero_all])
def test_emptied_database_of_a_closed_store_is_damage(
    closed: tuple[Path, list[State]], tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    copy = Path(shutil.copytree(closed[0], tmp_path / "copy"))
    spoil(copy / DATABASE_FILE)
    before = content(copy)
    with pytest.raises(StoreDamaged):
        opened(copy)
    assert content(copy) == before


def test_torn_last_transaction_is_a_crash_and_two_behind_it_are_damage(
    cut_off: tuple[Path, list[State]], tmp_path: Path
) -> None:
    """The same flip in a page, with none, one, two and three commits behind it."""
    folder, states = cut_off
    whole = (folder / LOG_FILE).read_bytes()
    commits = [
        place
        for place in range(32, len(whole), 4_120)
        if whole[place + 8 : place + 16] == whole[16:24] and any(whole[place + 4 : place + 8])
    ]
    assert len(commits) >= COMMITS
    for behind, is_damage in ((0, False), (1, False), (2, True), (3, True)):
        copy = Path(shutil.copytree(folder, tmp_path / str(behind)))
        flipped(copy / LOG_FILE, commits[-1 - behind] + 24, 1)
        if is_damage:
            with pytest.raises(StoreDamaged, match="committed transactions follow"):
                opened(copy)
        else:
            store = opened(copy)
            assert state(store) == states[-2 - behind]
            store.close()


def test_opening_after_a_kill_begins_the_log_anew(
    cut_off: tuple[Path, list[State]], tmp_path: Path
) -> None:
    """Else the rest of a transaction that was cut off would stay in it, for the next crash."""
    copy = Path(shutil.copytree(cut_off[0], tmp_path / "copy"))
    whole = (copy / LOG_FILE).read_bytes()
    database = Database(copy, on_a_snapshot())
    left = (copy / LOG_FILE).read_bytes()
    assert len(left) < len(whole)
    assert left[16:24] != whole[16:24]
    database.close()


def test_identity_is_written_at_creation_checkpoint_and_close(tmp_path: Path) -> None:
    def told() -> dict[str, object]:
        values: dict[str, object] = json.loads((tmp_path / IDENTITY_FILE).read_text())
        assert values.pop("checksum")
        return values

    store = opened(tmp_path)
    made = told()
    assert (made["instance"], made["ledger_position"]) == (store.ledger.instance_id, 0)
    assert made["is_protected"] is True
    rows = [new_row(store) for _ in range(3)]
    store.commit([put_unit(store, *rows)])
    store.commit([get_unit(*rows)])
    assert told() == made
    keeper = store._log_keeper
    assert keeper is not None
    keeper._checkpoint(store.database.connect())
    assert told() == {**made, "ledger_position": 3}
    store.commit([put_unit(store, rows[0])])
    store.commit([get_unit(rows[0])])
    store.close()
    assert told() == {**made, "ledger_position": 4}


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """Let every write to a file fail, as on a full disk: an error that names no file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_identity_that_finds_no_room_stays_as_it_was_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    QueueManager("QM1", tmp_path).close()
    identity = tmp_path / IDENTITY_FILE
    before = identity.read_bytes()
    database = Database(tmp_path)
    with no_room():
        database.write_identity(database.writer)
    database.close()
    assert f"{identity} stays as it was: File too large" in caplog.text
    assert identity.read_bytes() == before


def test_restored_copy_that_is_older_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    folder, backup = tmp_path / "QM1", tmp_path / "backup"
    with QueueManager("QM1", folder) as qm:
        local(qm)
        qm.session().put("Q1", b"old", persistent=True)
    shutil.copytree(folder, backup)
    with QueueManager("QM1", folder) as qm:
        qm.session().put("Q1", b"new", persistent=True)
    shutil.copy(backup / DATABASE_FILE, folder)
    before = content(folder)
    with pytest.raises(StoreDamaged, match=r"ledger ends at .* mayfly verify --accept-restored"):
        QueueManager("QM1", folder)
    assert content(folder) == before
    with pytest.raises(StoreError, match="folder of queue manager QM1"):
        accept_restored(folder, "QM2")
    with pytest.raises(StoreDamaged):
        QueueManager("QM1", folder)
    accept_restored(folder, "QM1")
    with QueueManager("QM1", folder) as qm:
        assert [m.body for m in qm.session().browse("Q1")] == [b"old"]
        assert qm.verify().ok


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("instance", "0" * 32, "database of instance"),
        ("schema", SCHEMA_VERSION + 1, f"its schema is {SCHEMA_VERSION}"),
        ("ledger_position", 1_000, "its ledger ends at"),
        ("sequence", 2**40, "sequence number"),
        ("is_protected", "yes", "what nobody writes"),
        ("more", 1, "cannot be read"),
    ],
)
def test_each_field_of_the_identity_is_asked_for(
    closed: tuple[Path, list[State]], tmp_path: Path, field: str, value: object, said: str
) -> None:
    copy = Path(shutil.copytree(closed[0], tmp_path / "copy"))
    file = copy / IDENTITY_FILE
    content = {**json.loads(file.read_text()), field: value}
    # As an older Mayfly has written it.
    del content["checksum"]
    file.write_text(json.dumps(content))
    with pytest.raises(StoreDamaged, match=said):
        opened(copy)


@pytest.mark.parametrize("field", ["instance", "schema", "ledger_position", "sequence"])
def test_an_identity_that_asks_for_less_than_was_written_is_damaged(
    closed: tuple[Path, list[State]], tmp_path: Path, field: str
) -> None:
    copy = Path(shutil.copytree(closed[0], tmp_path / "copy"))
    file = copy / IDENTITY_FILE
    content = json.loads(file.read_text())
    content[field] = type(content[field])(0)
    file.write_text(json.dumps(content))
    with pytest.raises(StoreDamaged, match=rf"{IDENTITY_FILE} is damaged: its checksum is wrong"):
        opened(copy)


def test_folder_whose_identity_was_not_copied_is_opened_and_gets_one(
    closed: tuple[Path, list[State]], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(closed[0], tmp_path / "copy"))
    told = (copy / IDENTITY_FILE).read_text()
    (copy / IDENTITY_FILE).unlink()
    store = opened(copy)
    assert json.loads((copy / IDENTITY_FILE).read_text())["instance"] in told
    store.close()


def test_protected_store_is_refused_without_the_extension_and_not_written(
    closed: tuple[Path, list[State]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(closed[0], tmp_path / "copy"))
    before = content(copy)
    monkeypatch.setattr(damage, "EXTENSION", "cksumvfs-of-another-apsw")
    with pytest.raises(StoreError, match="comes without cksumvfs") as refused:
        opened(copy)
    assert not isinstance(refused.value, StoreDamaged)
    assert content(copy) == before


def test_new_store_without_the_extension_works_unprotected_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as without:
        without.setattr(damage, "EXTENSION", "cksumvfs-of-another-apsw")
        store = opened(tmp_path)
        store.commit([put_unit(store)])
        store.close()
    assert "gets no checksums" in caplog.text
    assert not is_protected(tmp_path / DATABASE_FILE, Files())
    again = opened(tmp_path)
    assert len(held(again)) == 1
    again.close()


def test_other_databases_of_the_process_keep_their_default(tmp_path: Path) -> None:
    default = apsw.vfs_names()[0]
    opened(tmp_path).close()
    assert apsw.vfs_names()[0] == default
    with apsw.Connection(str(tmp_path / "mine.db")) as mine:
        assert mine.open_vfs == default
    mine.close()


def test_damage_that_a_transaction_reads_is_told_as_such_and_nothing_of_it_is_kept(
    tmp_path: Path,
) -> None:
    """Not MQRC_CONNECTION_BROKEN with an unknown outcome: it was undone before its COMMIT."""
    store = opened(tmp_path)
    rows = [new_row(store, b"B" * 3_000) for _ in range(100)]
    store.commit([put_unit(store, *rows)])
    store.close()
    file = tmp_path / DATABASE_FILE
    whole = bytearray(file.read_bytes())
    bodies = [n for n in range(0, len(whole), 4_096) if b"B" * 2_000 in whole[n : n + 4_096]]
    assert len(bodies) > 50
    for place in (spoiled := bodies[20:]):
        whole[place + 2_000] ^= 1
    file.write_bytes(whole)
    again = opened(tmp_path)
    with pytest.raises(StoreDamaged) as damage:
        again.commit([statement("DELETE FROM message WHERE put_ms > 0")])
    assert damage.value.path == tmp_path
    with pytest.raises(ConnectionBroken):
        again.commit([put_unit(again)])
    again.close()
    after = file.read_bytes()
    assert [after[place : place + 4_096] for place in spoiled] == [
        bytes(whole[place : place + 4_096]) for place in spoiled
    ]
