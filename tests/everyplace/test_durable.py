"""Queue managers in a folder: what a restart keeps, what a verb that is broken off leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw
import pytest

from mayfly.everyplace import (
    DEAD_LETTER_QUEUE_NAME,
    MSG_RESEND,
    Ended,
    EveryplaceQueueManager,
    Fault,
    LinkDown,
    MessageFields,
    QueueEntry,
    QueueRule,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import FolderInUse, NewerSchema, StoreDamaged, StoreError
from mayfly.testing import VirtualClock
from tests.everyplace.network_model import Crash, Site
from tests.everyplace.scene import (
    Remembering,
    fail_commit,
    quick_folder,
    refused,
    reopened,
    seen,
    take,
    text,
)


@pytest.fixture
def home() -> Iterator[Path]:
    """Where all have their folders."""
    with quick_folder() as folder:
        yield folder


def again(manager: EveryplaceQueueManager, home: Path) -> EveryplaceQueueManager:
    """Close a queue manager and open it again."""
    return reopened(manager, home / manager.name)


# What a restart keeps


@pytest.mark.parametrize(("late_ms", "is_over"), [(-1, False), (0, True), (1, True)])
def test_M8_after_a_restart_a_queue_is_checked_when_it_is_first_touched(
    a: EveryplaceQueueManager,
    home: Path,
    clock: VirtualClock,
    rule: Remembering,
    late_ms: int,
    is_over: bool,
) -> None:
    a.create_queue("Q", rule=Remembering())
    a.put_message("Q", text(clock, relative_ms=100))
    a = again(a, home)
    clock.advance(100 + late_ms)
    a.set_rule("Q", rule)
    assert rule.expired == []
    assert seen(a) == ([] if is_over else ["x"])
    assert rule.expired == (["x"] if is_over else [])


def test_M8_a_rule_that_is_not_given_again_is_missed_and_nothing_expires_without_it(
    a: EveryplaceQueueManager, home: Path, clock: VirtualClock, rule: Remembering
) -> None:
    a.create_queue("Q", rule=Remembering())
    a.create_remote_queue("R", "B", rule=Remembering())
    a.put_message("Q", text(clock, relative_ms=1))
    a = again(again(a, home), home)
    clock.advance(1)
    said = refused(rc.MQRC_ENVIRONMENT_ERROR, lambda: a.inquire_queue_size("Q"))
    assert "tests.everyplace.scene.Remembering" in said
    refused(rc.MQRC_ENVIRONMENT_ERROR, lambda: a.delete_queue("Q"))
    refused(rc.MQRC_ENVIRONMENT_ERROR, lambda: a.put_message("R", text(clock)))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.set_rule("NONE", rule))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.set_rule("Q", rule, "B"))
    a.set_rule("Q", rule)
    assert (a.inquire_queue_size("Q"), rule.expired) == (0, ["x"])
    a.set_rule("Q", None)
    assert again(a, home).inquire_queue_size("Q") == 0


def test_a_restart_keeps_what_is_locked_and_what_is_unconfirmed(
    a: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    a.create_queue("Q", max_depth=4)
    got, _, put, undone = (
        a.put_message("Q", text(clock, said), confirm_id=confirm_id)
        for said, confirm_id in (("1", 0), ("2", 0), ("3", 7), ("4", 8))
    )
    assert a.get_message("Q", confirm_id=9) is not None
    a = again(a, home)
    assert seen(a) == ["2"]
    refused(rc.MQRC_Q_FULL, lambda: a.put_message("Q", text(clock)))
    a.confirm_put_message("Q", put)
    assert a.undo("Q", 8) == 1
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.confirm_put_message("Q", undone))
    a.confirm_get_message("Q", got)
    a = again(a, home)
    assert [take(a), take(a), take(a)] == ["2", "3", "-"]


def test_M16_what_was_put_before_a_restart_needs_resend_after_it(
    a: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    a.put_message("Q", text(clock))
    a = again(a, home)
    [message] = a.browse_messages("Q")
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: a.put_message("Q", message))
    message.put_boolean(MSG_RESEND, True)
    a.put_message("Q", message)
    assert (take(a), take(a)) == ("x", "-")


@pytest.mark.slow
def test_M16_another_process_gives_no_identity_a_second_time() -> None:
    """Its clock may show the same millisecond."""
    program = (
        "from mayfly.everyplace import *; from mayfly.testing import VirtualClock;"
        "print(MessageFields(VirtualClock(1)).uid)"
    )
    uids = [
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
        for _ in range(2)
    ]
    assert uids[0] != uids[1]


@pytest.mark.parametrize("who", ["A", "B", "AB"])
def test_M12_a_restart_between_the_stages_changes_nothing(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    home: Path,
    clock: VirtualClock,
    who: str,
) -> None:
    link = a.connect(b)
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True)
    uids = [a.put_message("Q", text(clock, said)) for said in ("1", "2")]
    link.fail_next(Fault.DROP_ANSWER)
    assert a.transmit_put("Q") == 0
    a = again(a, home) if "A" in who else a
    b = again(b, home) if "B" in who else b
    refused(rc.MQRC_NO_MSG_AVAILABLE, lambda: a.delete_message("Q", uids[0]))
    a.connect(b)
    assert (a.transmit_put("Q"), seen(b)) == (2, [])
    link = a.connect(b)
    link.fail_next(Fault.DROP_ANSWER)
    assert a.transmit_confirm("Q") == 0
    a = again(a, home) if "A" in who else a
    b = again(b, home) if "B" in who else b
    assert take(b) == "1"
    a.connect(b)
    assert (a.transmit_confirm("Q"), a.inquire_queue_size("Q")) == (2, 0)
    assert (take(b), take(b)) == ("2", "-")


def test_M13_a_withdrawal_that_was_not_told_is_told_after_the_restart(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    link = a.connect(b)
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True, expiry_ms=10)
    a.put_message("Q", text(clock))
    a.transmit_put("Q")
    link.cut()
    clock.advance(10)
    assert (a.inquire_queue_size("Q"), b.inquire_queue_size("Q")) == (0, 1)
    a = again(a, home)
    assert a.transmit_confirm("Q") == 0
    refused(rc.MQRC_OBJECT_IN_USE, lambda: a.delete_queue("Q"))
    assert a.connect(b) is link
    link.restore()
    a.delete_queue("Q")
    assert b.inquire_queue_size("Q") == 0


def test_what_is_under_way_meets_who_has_the_name_when_it_arrives(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    link = a.connect(b)
    b.create_queue("Q")
    link.fail_next(Fault.DELAY)
    with pytest.raises(LinkDown):
        a.put_message("Q", text(clock), "B")
    b.close()
    assert link.deliver_delayed() == 1
    link.fail_next(Fault.DELAY)
    b = EveryplaceQueueManager("B", clock, home / "B")
    assert b.connect(a) is link
    with pytest.raises(LinkDown):
        a.put_message("Q", text(clock, "late"), "B")
    b = again(b, home)
    assert b.connect(a) is link
    assert (link.deliver_delayed(), seen(b)) == (1, ["late"])


def test_a_namesake_without_memory_begins_anew(
    b: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    """Its numbers are not taken for those of the one that was, nor late ones of that for its."""
    first = EveryplaceQueueManager("A", clock)
    link = first.connect(b)
    b.create_queue("Q")
    for number in range(5):
        first.put_message("Q", text(clock, str(number)), "B")
    link.fail_next(Fault.DELAY)
    with pytest.raises(LinkDown):
        first.put_message("Q", text(clock, "late"), "B")
    refused(rc.MQRC_OBJECT_ALREADY_EXISTS, lambda: EveryplaceQueueManager("A", clock).connect(b))
    first.close()
    second = EveryplaceQueueManager("A", clock)
    assert second.connect(b) is link
    second.put_message("Q", text(clock, "new"), "B")
    assert link.deliver_delayed() == 1
    second.put_message("Q", text(clock, "next"), "B")
    assert seen(b) == ["0", "1", "2", "3", "4", "new", "next"]
    assert len(b.peers.finished["A"].numbers) == 1


def test_a_queue_that_was_deleted_or_altered_stays_so(
    a: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    a.create_queue("Q", expiry_ms=10)
    a.create_queue("GONE")
    a.create_home_server_queue("GONE", "B")
    a.create_remote_queue("FAR", "B")
    a.delete_queue("GONE")
    a.delete_queue("FAR", "B")
    a.alter_queue("Q", expiry_ms=None, max_depth=10**30)
    a.put_message(DEAD_LETTER_QUEUE_NAME, text(clock, "dead"))
    a = again(a, home)
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.pull("GONE"))
    refused(rc.MQRC_UNKNOWN_OBJECT_NAME, lambda: a.browse_messages("FAR"))
    a.put_message("Q", text(clock))
    clock.advance(10)
    assert (a.inquire_queue_size("Q"), seen(a, DEAD_LETTER_QUEUE_NAME)) == (1, ["dead"])


def test_every_field_comes_back_as_it_was(
    a: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    message = MessageFields(VirtualClock(-5))
    message.put_unicode("\ud800 \0 é", "\udfff\0ü")
    message.put_double("D", float("inf"))
    message.put_array_of_byte("B", b"\xff\0")
    message.put_long("L", -(2**63))
    message.put_boolean("T", True)
    a.create_queue("Q\0é")
    uid = a.put_message("Q\0é", message, confirm_id=2**63 - 1)
    a = again(a, home)
    a.confirm_put_message("Q\0é", uid)
    back = again(a, home).get_message("Q\0é")
    assert back is not None
    assert (back.uid, back.fields()) == (uid, message.fields())


# What cannot be opened


@pytest.mark.slow
def test_a_folder_is_open_once(a: EveryplaceQueueManager, home: Path, clock: VirtualClock) -> None:
    with pytest.raises(FolderInUse):
        EveryplaceQueueManager("A", clock, home / "A")
    imported = "import sys; from mayfly.everyplace import EveryplaceQueueManager as A"
    program = f"{imported}; A('A', folder=sys.argv[1])"
    other = subprocess.run(
        [sys.executable, "-c", program, home / "A"], check=False, capture_output=True, text=True
    )
    assert "FolderInUse" in other.stderr
    a.close()
    a.close()
    EveryplaceQueueManager("A", clock, home / "A").close()


def test_folder_and_database_are_private_and_an_open_one_is_tightened(
    home: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    folder = home / "private"
    before = os.umask(0)
    try:
        EveryplaceQueueManager("A", clock, folder).close()
    finally:
        os.umask(before)
    file = folder / "everyplace.db"
    for is_second in (False, True):
        assert [path.stat().st_mode & 0o777 for path in (folder, file)] == [0o700, 0o600]
        assert len(caplog.records) == 2 * is_second
        folder.chmod(0o755)
        file.chmod(0o644)
        EveryplaceQueueManager("A", clock, folder).close()


@pytest.mark.parametrize("folder", [7, "", b"x", object()])
def test_a_folder_is_a_path(clock: VirtualClock, folder: object) -> None:
    refused(
        rc.MQRC_OPTIONS_ERROR,
        lambda: EveryplaceQueueManager("A", clock, folder),  # type: ignore[arg-type]  # on purpose
    )


def test_a_folder_of_another_name_version_or_content_is_refused_and_let_go(
    a: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    a.close()
    folder = home / "A"
    with pytest.raises(StoreError, match="queue manager A"):
        EveryplaceQueueManager("OTHER", clock, folder)
    database = apsw.Connection(str(folder / "everyplace.db"))
    database.pragma("user_version", 99)
    with pytest.raises(NewerSchema, match="99"):
        EveryplaceQueueManager("A", clock, folder)
    database.pragma("user_version", 1)
    database.execute("UPDATE queue SET attributes = '{'")
    with pytest.raises(StoreDamaged):
        EveryplaceQueueManager("A", clock, folder)
    database.execute("UPDATE queue SET attributes = '{}'")
    EveryplaceQueueManager("A", clock, folder).close()
    database.close()
    for file in folder.iterdir():
        file.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreDamaged):
        EveryplaceQueueManager("A", clock, folder)
    (home / "FILE").write_bytes(b"")
    with pytest.raises(StoreError, match="is not a folder"):
        EveryplaceQueueManager("A", clock, home / "FILE")


def test_what_is_closed_takes_no_calls(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, clock: VirtualClock
) -> None:
    a.connect(b)
    in_memory = EveryplaceQueueManager("M", clock)
    for manager in (b, in_memory):
        manager.create_queue("Q")
        manager.close()
        refused(rc.MQRC_CONNECTION_BROKEN, partial(manager.browse_messages, "Q"))
        refused(rc.MQRC_CONNECTION_BROKEN, partial(manager.connect, a))
        refused(rc.MQRC_CONNECTION_BROKEN, partial(a.connect, manager))
    refused(rc.MQRC_HOST_NOT_AVAILABLE, lambda: a.browse_messages("Q", "B"))


# What a verb that is broken off leaves


class CopyTwice(QueueRule):
    """Puts two new messages for each that expires."""

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
        for said in ("first", "second"):
            entry.owner.put_message("COPIES", text(entry.owner.clock, said))


@pytest.mark.parametrize("reading_count", range(12))
def test_M2_what_a_rule_does_here_is_done_with_its_expiry_or_not_at_all(
    home: Path, clock: VirtualClock, reading_count: int
) -> None:
    """The process ends at each moment at which the clock is read."""
    site = Site("A", clock, home)
    site.manager.create_queue("Q", rule=CopyTwice())
    site.manager.create_queue("COPIES")
    for said in ("1", "2"):
        site.manager.put_message("Q", text(clock, said, relative_ms=10))
    clock.advance(10)
    site.watch.readings_left = reading_count
    try:
        site.manager.inquire_queue_size("Q")
        has_ended = False
    except Crash:
        has_ended = True
    site.watch.readings_left = None
    site.rise()
    assert seen(site.manager, "COPIES") == ([] if has_ended else ["first", "second"] * 2)
    site.manager.set_rule("Q", CopyTwice())
    assert site.manager.inquire_queue_size("Q") == 0
    assert seen(site.manager, "COPIES") == ["first", "second"] * 2


@pytest.mark.parametrize("reading_count", range(12))
def test_M6_a_pull_that_is_broken_off_loses_and_doubles_nothing(
    home: Path, clock: VirtualClock, reading_count: int
) -> None:
    """What the server has removed is stored here, whenever the process ends."""
    site, server = Site("A", clock, home), Site("B", clock, home)
    site.manager.connect(server.manager)
    site.manager.create_home_server_queue("Q", "B")
    server.manager.create_queue("Q")
    for said in ("1", "2", "3"):
        server.manager.put_message("Q", text(clock, said))
    site.watch.readings_left = reading_count
    try:
        site.manager.pull("Q")
    except Crash:
        site.watch.readings_left = None
        site.rise()
        server.rise()
        site.manager.connect(server.manager)
    site.watch.readings_left = None
    site.manager.pull("Q")
    assert (seen(site.manager), server.manager.inquire_queue_size("Q")) == (["1", "2", "3"], 0)


@pytest.mark.parametrize("who", ["A", "B"])
@pytest.mark.parametrize("number", range(6))
def test_M6_a_pull_is_done_once_whichever_commit_fails(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    home: Path,
    clock: VirtualClock,
    who: str,
    number: int,
) -> None:
    a.connect(b)
    a.create_home_server_queue("Q", "B")
    b.create_queue("Q")
    for said in ("1", "2", "3"):
        b.put_message("Q", text(clock, said))
    fail_commit(a if who == "A" else b, number)
    with suppress(Ended):
        a.pull("Q")
    for manager in (a, b):
        manager.close()
    with (
        EveryplaceQueueManager("A", clock, home / "A") as a,
        EveryplaceQueueManager("B", clock, home / "B") as b,
    ):
        a.connect(b)
        a.pull("Q")
        assert (seen(a), b.inquire_queue_size("Q")) == (["1", "2", "3"], 0)


@pytest.mark.parametrize("who", ["A", "B"])
@pytest.mark.parametrize("number", range(7))
def test_M12_a_transmission_is_done_once_whichever_commit_fails(
    a: EveryplaceQueueManager,
    b: EveryplaceQueueManager,
    home: Path,
    clock: VirtualClock,
    who: str,
    number: int,
) -> None:
    a.connect(b)
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True)
    for said in ("1", "2", "3"):
        a.put_message("Q", text(clock, said))
    fail_commit(a if who == "A" else b, number)
    with suppress(Ended):
        a.transmit_put("Q")
        a.transmit_confirm("Q")
    for manager in (a, b):
        manager.close()
    with (
        EveryplaceQueueManager("A", clock, home / "A") as a,
        EveryplaceQueueManager("B", clock, home / "B") as b,
    ):
        a.connect(b)
        a.transmit_put("Q")
        a.transmit_confirm("Q")
        assert (a.inquire_queue_size("Q"), seen(b)) == (0, ["1", "2", "3"])


def test_M13_several_that_expire_at_once_are_over_after_a_restart(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    """A second stage, or a first one that comes again, brings none of them back."""
    link = a.connect(b)
    b.create_queue("Q", expiry_ms=10)
    a.create_remote_queue("Q", "B", asynchronous=True)
    for said in ("1", "2"):
        a.put_message("Q", text(clock, said))
    link.fail_next(Fault.DUPLICATE)
    assert a.transmit_put("Q") == 2
    clock.advance(10)
    assert b.inquire_queue_size("Q") == 0
    assert len(b.peers.finished["A"].numbers) == 2
    b = again(b, home)
    a.connect(b)
    assert (a.transmit_confirm("Q"), b.inquire_queue_size("Q")) == (2, 0)


def test_a_full_disk_ends_the_queue_manager_and_the_verb_has_not_happened(
    a: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    a.create_queue("Q")
    a.put_message("Q", text(clock, "before"))
    assert a.journal is not None
    connection = a.journal.connection
    connection.execute(f"PRAGMA max_page_count = {connection.pragma('page_count')}")
    with pytest.raises(Ended) as caught:
        a.put_message("Q", text(clock, "x" * 100_000))
    assert caught.value.reason == rc.MQRC_STORAGE_MEDIUM_FULL
    assert not a.is_open
    refused(rc.MQRC_STORAGE_MEDIUM_FULL, lambda: a.browse_messages("Q"))
    with EveryplaceQueueManager("A", clock, home / "A") as opened:
        assert seen(opened) == ["before"]


def test_a_receiver_that_cannot_write_has_not_answered(
    a: EveryplaceQueueManager, b: EveryplaceQueueManager, home: Path, clock: VirtualClock
) -> None:
    """It may have it or not: the sender asks again under the same number."""
    a.connect(b)
    b.create_queue("Q")
    a.create_remote_queue("Q", "B", asynchronous=True)
    a.put_message("Q", text(clock, "x" * 100_000))
    assert b.journal is not None
    connection = b.journal.connection
    connection.execute(f"PRAGMA max_page_count = {connection.pragma('page_count')}")
    assert (a.transmit_put("Q"), seen(a), a.inquire_queue_size("Q")) == (0, [], 1)
    with EveryplaceQueueManager("B", clock, home / "B") as opened:
        a.connect(opened)
        assert (a.transmit_put("Q"), a.transmit_confirm("Q")) == (1, 1)
        assert opened.inquire_queue_size("Q") == 1


def test_a_wrong_call_ends_nothing(a: EveryplaceQueueManager) -> None:
    with pytest.raises(TypeError):
        a.create_queue()  # type: ignore[call-arg]  # on purpose
    a.create_queue("Q")
    assert a.is_open
