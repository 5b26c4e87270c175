"""What commits have written is read from the log: all, or the reader knows that it is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.store.changes import LogLost, read_change
from mayfly.store.database import DATABASE_FILE
from mayfly.store.followers import NO_LOG, FollowerFile, Followers, LogPosition, followers_of
from mayfly.store.store import Store
from mayfly.store.write_ahead_log import PAGE_BYTES
from tests.snapshots import on_a_snapshot
from tests.store.scene import opened, put_unit

MAX_FRAMES = 10_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = opened(tmp_path)
    yield store
    store.close()


def log_of(store: Store) -> Path:
    assert store.folder is not None
    return store.folder / f"{DATABASE_FILE}-wal"


def end_of(store: Store) -> LogPosition:
    assert store._log is not None
    return store._log.end()


def test_commits_are_read_behind_a_position_with_the_last_image_of_each_page(store: Store) -> None:
    first = end_of(store)
    store.commit([put_unit(store)])
    second = end_of(store)
    store.commit([put_unit(store)])
    third = end_of(store)
    start = LogPosition(first.salts, 0)
    one, two = (read_change(log_of(store), at, third, MAX_FRAMES) for at in (first, second))
    both, whole = (read_change(log_of(store), at, third, MAX_FRAMES) for at in (first, start))
    assert one is not None
    assert two is not None
    assert both is not None
    assert whole is not None
    assert (one.commit_count, two.commit_count) == (2, 1)
    assert both.pages.items() >= two.pages.items()
    assert whole.pages.items() >= both.pages.items()
    assert {len(page) for page in whole.pages.values()} == {PAGE_BYTES}
    assert whole.page_count >= max(whole.pages)
    assert read_change(log_of(store), third, third, MAX_FRAMES) is None


def test_a_log_that_was_begun_anew_is_lost_and_not_read_as_the_old_one(store: Store) -> None:
    store.commit([put_unit(store)])
    end, start = end_of(store), LogPosition(end_of(store).salts, 0)
    assert store._log is not None
    with store._log.guard:
        assert store._log.write_back()
    store.commit([put_unit(store)])
    with pytest.raises(LogLost):
        read_change(log_of(store), start, end, MAX_FRAMES)
    short = LogPosition(end_of(store).salts, log_of(store).stat().st_size)
    with pytest.raises(LogLost):
        read_change(log_of(store), short, short._replace(frames=short.frames + 1), MAX_FRAMES)
    with pytest.raises(LogLost):
        read_change(log_of(store).with_name("none"), start, end, MAX_FRAMES)


def test_a_follower_knows_whether_another_log_is_the_next_one(store: Store) -> None:
    assert store.folder is not None
    behind, read = (FollowerFile(store.folder, name) for name in ("behind", "read"))
    for follower in (behind, read):
        follower.begin()
        assert follower.ended() == NO_LOG
    store.commit([put_unit(store)])
    end = end_of(store)
    read.write(end, 7)
    behind.write(end._replace(frames=end.frames - 1), 7)
    assert store._log is not None
    with store._log.guard:
        assert store._log.write_back()
    assert read.ended() == end
    assert behind.ended() not in (end, NO_LOG, end._replace(frames=end.frames - 1))
    states = followers_of(store.folder)
    assert [(state.target, state.is_running, state.safe_at_ms) for state in states] == [
        ("behind", True, 7),
        ("read", True, 7),
    ]
    behind.close()
    read.close(forget=True)
    assert [(state.target, state.is_running) for state in followers_of(store.folder)] == [
        ("behind", False)
    ]


def test_only_followers_that_run_are_waited_for(store: Store) -> None:
    assert store.folder is not None
    followers = Followers(store.folder, on_a_snapshot())
    end = LogPosition(b"12345678", 9)
    assert not followers.exist()
    assert followers.wait_until_read(lambda: end, 0, 0.01)
    follower = FollowerFile(store.folder, "place")
    follower.write(end._replace(frames=7), 0)
    assert followers.exist()
    assert not followers.wait_until_read(lambda: end, 1, 0.01)
    assert followers.wait_until_read(lambda: end, 2, 0.01)
    follower.close()
    assert followers.exist()
    assert followers.wait_until_read(lambda: end, 0, 0.01)
