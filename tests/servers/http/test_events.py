"""Server-sent events: the live figures of a queue manager, what has changed, and how it ends."""

from __future__ import annotations

import asyncio
import select

import pytest
from starlette.types import Message

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.servers.clients import Peer
from mayfly.servers.http.connection import HttpConnection
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.servers.http.asking import application_of
from tests.servers.http.conftest import ADMIN, APP, Site, Web, listening
from tests.servers.http.streams import EVENTS, Told, streaming
from tests.servers.http.test_http_limits import talking

QM1 = "/mayfly/v1/qmgr/QM1"


def test_the_first_frame_tells_everything(web: Web, queue_manager: QueueManager) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x")
        session.put("Q2", b"x", delay_ms=1_500)
    listed = web.ask("GET", f"{QM1}/queues").content
    with streaming(web) as stream:
        told = stream.frame()
    assert told.events["queues"]["whole"] is True
    of_list = {one["name"]: one for one in listed["queues"]}
    assert {name: one["present"] for name, one in told.queues.items()} == {
        name: one["present"] for name, one in of_list.items()
    }
    now_ms = listed["now_ms"]
    assert told.queues["Q1"]["oldest_put_ms"] == now_ms
    overview: dict[str, object] = {
        "live": 1,
        "staged": 1,
        "locked": 0,
        "uncommitted": 0,
        "expired_present": 0,
    }
    overview |= {"now_ms": now_ms, "next_due_ms": now_ms + 1_500, "next_due_in_ms": 1_500}
    overview |= {"rates": None, "interval_ms": None, "dead_letters": 0, "is_disk_full": False}
    assert {name: told.overview[name] for name in overview} == overview


def test_a_frame_has_what_has_changed_and_how_fast(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with streaming(web) as stream, queue_manager.session() as session:
        stream.frame()
        session.put("Q1", b"x")
        session.put("Q1", b"x", time_to_live_ms=1)
        session.put("Q2", b"x", delay_ms=2_500)
        clock.advance(1_000)
        told = stream.frame()
        assert [*told.events] == ["overview", "queues"]
        assert told.events["queues"]["whole"] is False
        assert [*told.queues] == ["Q1", "Q2", "SYSTEM.DDELAY.LOCAL.QUEUE"]
        assert told.queues["Q1"]["present"]["expired_present"] == 1
        present = {name: told.overview[name] for name in ("live", "staged", "expired_present")}
        assert present == {"live": 1, "staged": 1, "expired_present": 1}
        assert told.overview["interval_ms"] == 1_000
        # A delayed message is put once.
        assert told.overview["rates"] == {
            "put_per_s": 3.0,
            "got_per_s": 0.0,
            "released_per_s": 0.0,
            "expired_per_s": 0.0,
            "ended_otherwise_per_s": 0.0,
        }
        assert session.get("Q1") is not None
        assert session.get("Q1") is None
        clock.advance(1_000)
        told = stream.frame()
        assert told.overview["rates"] == {
            "put_per_s": 0.0,
            "got_per_s": 1.0,
            "released_per_s": 0.0,
            "expired_per_s": 1.0,
            "ended_otherwise_per_s": 0.0,
        }
        assert told.overview["expiry_lateness"]["mean_ms"] == 999.0
        clock.advance(1_000)
        told = stream.frame()
        assert (told.overview["rates"]["released_per_s"], told.overview["staged"]) == (1.0, 0)
        assert told.overview["release_lateness"] == {"count": 1, "mean_ms": 0.0, "at_most_ms": 1}
        assert told.queues["Q2"]["present"]["live"] == 1


def test_a_second_in_which_nothing_happens_has_no_frame(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with streaming(web) as stream, queue_manager.session() as session:
        stream.frame()
        # The first rates are there, all zero.
        clock.advance(1_000)
        number = int(stream.frame().frame_id.rpartition("-")[2])
        for _ in range(5):
            clock.advance(1_000)
        session.put("Q1", b"x")
        clock.advance(1_000)
        told = stream.frame()
        assert int(told.frame_id.rpartition("-")[2]) == number + 1
        assert told.queues["Q1"]["depth"] == 1


def test_a_queue_that_is_deleted_is_told(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with streaming(web) as stream:
        assert "Q2" in stream.frame().queues
        assert queue_manager.mqsc("DELETE QLOCAL(Q2)").ok
        clock.advance(1_000)
        assert stream.frame().events["gone"] == {"queues": ["Q2"]}


def test_queues_beyond_a_limit_are_told_together(
    web: Web,
    queue_manager: QueueManager,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mayfly.servers.http.feed.MAX_QUEUES", 1)
    with queue_manager.session() as session:
        session.put("Q2", b"x")
        with streaming(web) as stream:
            told = stream.frame()
            assert ([*told.queues], told.events["queues"]["others"]["depth"]) == (["Q2"], 0)
            for _ in range(2):
                session.put("Q1", b"x")
            clock.advance(1_000)
            told = stream.frame()
            assert ([*told.queues], told.events["queues"]["others"]["depth"]) == (["Q1"], 1)
            assert told.events["gone"] == {"queues": ["Q2"]}
            assert told.overview["live"] == 3


def test_all_listeners_are_sent_the_same_bytes(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with streaming(web) as one, streaming(web) as other, queue_manager.session() as session:
        assert one.frame().content == other.frame().content
        session.put("Q1", b"x")
        clock.advance(1_000)
        assert one.frame().content == other.frame().content


def test_a_client_that_comes_back_goes_on_where_it_was(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with streaming(web) as entries, queue_manager.session() as session:
        first = entries.frame()
        with streaming(web, last_event_id=first.frame_id) as back:
            session.put("Q1", b"x")
            clock.advance(1_000)
            told = back.frame()
            # It was told nothing twice: the first that it gets is the change.
            assert (told.events["queues"]["whole"], [*told.queues]) == (False, ["Q1"])
        with streaming(web, last_event_id=first.frame_id) as late:
            whole = late.frame()
            assert (whole.events["queues"]["whole"], whole.frame_id) == (True, told.frame_id)
            assert whole.queues["Q1"]["depth"] == 1


def test_nothing_is_computed_while_nobody_listens(
    site: Site, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert site.listener.service is not None
    feed = site.listener.service.feeds.of(queue_manager.engine)
    with streaming(site.web) as stream:
        run = stream.frame().frame_id.partition("-")[0]
        assert feed in clock.driven
    wait_until(lambda: feed not in clock.driven)
    with streaming(site.web) as stream:
        assert stream.frame().frame_id.partition("-")[0] != run


def test_a_drain_ends_streams_with_an_event(
    site: Site, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with streaming(site.web) as stream:
        stream.frame()
        site.listener.drain(60_000)
        told = stream.frame()
        assert told.events.keys() == {"end"}
        assert stream.is_at_end()


def test_a_queue_manager_that_stops_ends_its_streams(clock: VirtualClock) -> None:
    manager = QueueManager("QM1", clock=clock)
    for site in listening(manager, admission=AdmitEverybody(operators=frozenset({"admin"}))):
        with streaming(site.web) as stream:
            stream.frame()
            manager.crash()
            clock.advance(1_000)
            assert stream.frame().events.keys() == {"end"}
            assert stream.is_at_end()
        status, _said, reason = site.web.ask("GET", EVENTS).said
        assert (status, reason) == (503, rc.MQRC_CONNECTION_BROKEN)


def test_the_end_of_a_login_ends_its_streams(
    guarded: Web, developed: QueueManager, clock: VirtualClock
) -> None:
    login = "/ibmmq/rest/v3/login"
    given = {"username": ADMIN[0], "password": ADMIN[1]}
    cookie = guarded.ask("POST", login, given, user=None).headers["set-cookie"].partition(";")[0]
    with streaming(guarded, user=None, cookie=cookie) as stream:
        stream.frame()
        csrf = {"ibm_mq_rest_csrf_token": "x"}
        assert guarded.ask("DELETE", login, user=None, cookie=cookie, **csrf).status == 204
        with developed.session() as session:
            session.put("DEV.QUEUE.1", b"x")
        clock.advance(1_000)
        told = stream.frame()
        assert told.events == {"end": {"why": "the login has ended: log in again"}}
        assert stream.is_at_end()


def test_only_users_who_may_look_are_told(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    record = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app')"
    assert queue_manager.mqsc(f"{record} AUTHADD(CONNECT)").ok
    status, _said, reason = web.ask("GET", EVENTS, user=APP).said
    assert (status, reason) == (403, rc.MQRC_NOT_AUTHORIZED)
    assert web.ask("GET", EVENTS, user=("admin", "wrong")).status == 401
    assert queue_manager.mqsc(f"{record} AUTHADD(DSP)").ok
    with streaming(web, user=APP) as stream:
        stream.frame()
        assert queue_manager.mqsc(f"{record} AUTHRMV(DSP)").ok
        clock.advance(1_000)
        assert "'app' lacks DSP" in stream.frame().events["end"]["why"]
        assert stream.is_at_end()


def test_a_wrong_request_for_events_is_refused(web: Web) -> None:
    assert web.ask("GET", f"{EVENTS}?since=0").status == 400
    assert web.ask("POST", EVENTS, {}).status == 405
    assert web.ask("HEAD", EVENTS).headers["content-type"] == "text/event-stream"


def test_a_silent_stream_says_that_it_lives(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mayfly.servers.http.resources.events.LOOK_SECONDS", 0.01)
    with streaming(web) as stream:
        stream.frame()
        assert stream.answer.readline() + stream.answer.readline() == b":\n\n"


def frames_of(sent: list[bytes]) -> list[tuple[bool, int]]:
    """Return of each frame whether it is a whole one, and its number."""
    found = []
    for event in b"".join(sent).decode().split("\n\n"):
        if "\nid: " in event:
            number = int(event.partition("\nid: ")[2].partition("\n")[0].rpartition("-")[2])
            found.append(('"whole":true' in event, number))
    return found


def test_a_slow_reader_is_told_everything_when_it_has_caught_up(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """Frames that it does not take are left out: nothing grows."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    sent: list[bytes] = []

    async def look() -> None:
        app, loop = application_of(queue_manager), asyncio.get_running_loop()
        line, gate = HttpConnection(Peer("127.0.0.1", has_tls=False), loop), asyncio.Event()

        async def send(message: Message) -> None:
            sent.append(message.get("body", b""))
            if len(frames_of(sent)) == 1:
                await gate.wait()

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def until_sent(count: int) -> None:
            while len(frames_of(sent)) < count:
                await asyncio.sleep(0.001)

        scope: dict[str, object] = {"type": "http", "method": "GET", "scheme": "http"}
        scope["server"] = ("h", 80)
        scope |= {"path": EVENTS, "raw_path": EVENTS.encode(), "query_string": b"", "headers": []}
        scope["state"] = {"http_connection": line}
        task = asyncio.ensure_future(app(scope, receive, send))
        await until_sent(1)
        with queue_manager.session() as session:
            for _ in range(10):
                session.put("Q1", b"x")
                clock.advance(1_000)
                # The loop takes the frame, which the clock has handed to it.
                await asyncio.sleep(0)
            gate.set()
            await until_sent(2)
            session.put("Q1", b"x")
            clock.advance(1_000)
            await until_sent(3)
        line.client_gone()
        await task

    asyncio.run(look())
    assert frames_of(sent) == [(True, 1), (True, 11), (False, 12)]
    assert any(b'"name":"Q1","depth":10,' in part for part in sent)


def test_a_client_that_never_reads_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is sent is longer than the buffers between."""
    events = "mayfly.servers.http.resources.events"
    monkeypatch.setattr(f"{events}._UNREAD_SECONDS", 0.01)
    # The send behind one that is not read is the one that waits: here that of a comment.
    monkeypatch.setattr(f"{events}.LOOK_SECONDS", 0.01)
    monkeypatch.setattr(f"{events}._RETRY", b":" + b"x" * (32 * 2**20) + b"\n\n")
    with talking(site.web, receive_bytes=4_096) as client:
        client.sendall(f"GET {EVENTS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        poll = select.poll()
        poll.register(client, 0)
        [(_, event)] = poll.poll(PATIENCE_SECONDS * 1_000)
        assert event & select.POLLERR


def test_a_client_that_goes_leaves_no_error(
    site: Site, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the server notices at its next frame, or before."""
    assert site.listener.service is not None
    feeds = site.listener.service.feeds
    for _ in range(5):
        with streaming(site.web) as stream:
            stream.frame()
        clock.advance(1_000)
    wait_until(lambda: not any(feed in clock.driven for feed in feeds._feeds.values()))
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.slow
def test_the_clock_of_the_machine_drives_the_feed() -> None:
    with QueueManager("QM1") as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        for site in listening(manager, admission=AdmitEverybody(operators=frozenset({"admin"}))):
            with streaming(site.web) as stream, manager.session() as session:
                assert stream.frame().queues["Q1"]["depth"] == 0
                session.put("Q1", b"x")
                while "queues" not in (told := stream.frame()).events:
                    # The first rates, all zero.
                    assert told.events.keys() == {"overview"}
                assert told.queues["Q1"]["depth"] == 1


def test_the_frame_of_a_change_is_small(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """It grows with what has changed and not with what there is."""
    assert queue_manager.mqsc("\n".join(f"DEFINE QLOCAL(Z{n:03})" for n in range(150))).ok
    with streaming(web) as stream, queue_manager.session() as session:
        whole: Told = stream.frame()
        session.put("Q1", b"x")
        clock.advance(1_000)
        assert len(stream.frame().content) < 2_000 < 20_000 < len(whole.content)
