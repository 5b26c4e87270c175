"""Messages of a queue by HTTP: listed in each state, looked at, moved, copied, deleted, put."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine.api.bulk import ClaimLimit
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.servers.http.service import LIFE_MS, MAX_BYTES, MAX_UNDOS, Undos
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.servers.http.conftest import ADMIN, Answer, Web, listening

QM1 = "/mayfly/v1/qmgr/QM1"
MESSAGES = f"{QM1}/queues/Q1/messages"
LOOKER = ("otto", "otto-password")


@pytest.fixture
def dead_lettering(queue_manager: QueueManager) -> None:
    """``QM1`` has a dead-letter queue."""
    assert queue_manager.mqsc("DEFINE QLOCAL(DLQ)\nALTER QMGR DEADQ(DLQ)").ok


def listed(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == 200, answer
    found: list[dict[str, Any]] = answer.content["messages"]
    return found


def changes(web: Web, limit: int = 1) -> list[tuple[str, str, str, str, int]]:
    """The last entries of the audit, the newest first."""
    found = web.ask("GET", f"{QM1}/schedule/audit?limit={limit}").content["changes"]
    names = ("user", "action", "detail", "receipt", "message_count")
    return [tuple(each[name] for name in names) for each in found]


def one_place(web: Web, queue: str = "Q1") -> str:
    [message] = listed(web.ask("GET", f"{QM1}/queues/{queue}/messages"))
    return str(message["place"])


def test_claimed_messages_are_listed_with_their_consumer(
    web: Web, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        for number in range(7):
            body = b"" if number == 3 else b"x" * 5_000 + str(number).encode()
            properties = {"order": number}
            session.put("Q1", body, persistent=number % 2 == 0, properties=properties)
        session.put("Q1", b"delayed", delay_ms=60_000)
    epoch = queue_manager.claims.attach("reader", "Q1").epoch
    queue_manager.claims.claim("reader", epoch, 0, ClaimLimit(5, 2**20))
    whole = listed(web.ask("GET", MESSAGES))
    assert [each["state"] for each in whole] == ["live"] * 2 + ["staged"] + ["claimed"] * 5
    claimed = listed(web.ask("GET", f"{MESSAGES}?state=claimed"))
    assert claimed == whole[3:]
    assert {each["holder"] for each in claimed} == {"consumer reader, which has claimed it"}
    assert {each["persistent"] for each in claimed} == {True, False}
    # Page by page, by id, by what is in it, and one whole.
    paged: list[dict[str, Any]] = []
    after: Any = ""
    while after is not None:
        page = web.ask("GET", f"{MESSAGES}?limit=3&after={after}").content
        paged += page["messages"]
        after = page["next"]
    assert paged == whole
    one = claimed[4]
    assert listed(web.ask("GET", f"{MESSAGES}?id={one['msg_id']}")) == [one]
    assert listed(web.ask("GET", f"{MESSAGES}?property=order&value=4")) == [one]
    assert listed(web.ask("GET", f"{MESSAGES}?text=x4")) == [one]
    shown = web.ask("GET", f"{MESSAGES}/{one['place']}").content
    assert shown["data"]["text"] == "x" * 5_000 + "4"
    moved = {"places": [one["place"]], "to": "Q2"}
    assert web.ask("POST", f"{MESSAGES}/move", moved).content["receipts"] == {"gone": 1}


def test_messages_are_listed_in_each_state(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session(user="anna") as session:
        session.put("Q1", b"late", time_to_live_ms=1_000)
        locked = session.put("Q1", b"locked")
        live = session.put("Q1", b"live")
        delayed = session.put("Q1", b"delayed", delay_ms=60_000)
        session.put("Q2", b"elsewhere", delay_ms=60_000)
    getter = queue_manager.session(user="bert", transacted=True)
    assert getter.get("Q1", msg_id=locked) is not None
    putter = queue_manager.session(user="carl", transacted=True)
    putter.put("Q1", b"uncommitted")
    clock.advance(1_000)
    found = listed(web.ask("GET", MESSAGES))
    assert [each["state"] for each in found] == [
        "expired_present",
        "locked",
        "live",
        "uncommitted",
        "staged",
    ]
    assert found[1]["holder"].startswith("the open unit of work of bert")
    assert found[3]["holder"].startswith("the open unit of work of carl")
    assert [found[1]["msg_id"], found[2]["msg_id"], found[4]["msg_id"]] == [
        locked.hex(),
        live.hex(),
        delayed.hex(),
    ]
    assert (found[4]["queue"], found[4]["target"]) == ("SYSTEM.DDELAY.LOCAL.QUEUE", "Q1")
    assert "body" not in found[2]
    for state in ("locked", "staged", "live"):
        assert {each["state"] for each in listed(web.ask("GET", f"{MESSAGES}?state={state}"))} == {
            state
        }
    getter.close(commit=False)
    putter.close(commit=False)


def test_pages_go_on_where_the_one_before_has_ended(web: Web, queue_manager: QueueManager) -> None:
    with queue_manager.session() as session:
        put = [session.put("Q1", b"x", persistent=bool(n % 2)).hex() for n in range(450)]
        put += [session.put("Q1", b"x", delay_ms=1_000 + n).hex() for n in range(250)]
    found, pages = list[str](), 0
    after: Any = ""
    while after is not None:
        page = web.ask("GET", f"{MESSAGES}?limit=170&after={after}").content
        found += [each["msg_id"] for each in page["messages"]]
        after, pages = page["next"], pages + 1
    assert found == put
    assert pages <= 6
    assert web.ask("GET", f"{MESSAGES}?after=q{2**70}").status == 400


def test_filters_find_by_id_property_text_age_and_sender(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session(user="anna") as session:
        first = session.put("Q1", b"apples", properties={"order": "4242"}).hex()
        clock.advance(10_000)
        now_ms = clock.now_ms()
        second = session.put(
            "Q1", b"x" * 5_000 + b" pears", delay_ms=60_000, correl_id=b"\x07"
        ).hex()
    with queue_manager.session(user="bert") as session:
        third = session.put("Q1", "Birnen".encode("cp500")).hex()
        fourth = session.put("Q1", b"later", delay_ms=90_000, properties={"order": "4242"}).hex()

    def ids(query: str) -> list[str]:
        return [each["msg_id"] for each in listed(web.ask("GET", f"{MESSAGES}?{query}"))]

    assert ids(f"id={third}") == [third]
    assert ids("id=07" + "00" * 23) == [second]
    assert ids("property=order&value=4242") == [first, fourth]
    assert ids("text=pears") == [second]
    assert ids("sender=bert&text=later") == [fourth]
    assert ids(f"put_before_ms={now_ms}") == [first]
    assert ids("sender=anna") == [first, second]
    assert ids("text=nowhere") == []
    assert web.ask("GET", f"{MESSAGES}?property=order").said[0] == 400
    assert web.ask("GET", f"{MESSAGES}?id=00").said[:2] == (400, "id '00' has no byte but zeros")
    assert changes(web) == [("admin", "search", "on Q1 text 'nowhere'", "searched", 0)]


def test_one_message_is_shown_with_descriptor_properties_and_data_in_a_chosen_ccsid(
    web: Web, queue_manager: QueueManager
) -> None:
    with queue_manager.session(user="anna") as session:
        session.put(
            "Q1",
            "Grüße".encode("cp500"),
            properties={"order": 17},
            report=c.MQRO_EXPIRATION,
            reply_to_q="Q2",
        )
    path = f"{MESSAGES}/{one_place(web)}"
    told = web.ask("GET", f"{path}?ccsid=500").content
    fields = {each["name"]: each for each in told["descriptor"]}
    assert fields["Report"]["meaning"] == "expiration"
    assert fields["MsgType"]["meaning"] == "MQMT_DATAGRAM"
    assert fields["ReplyToQ"]["value"] == "Q2"
    assert [each["name"] for each in told["headers"]] == ["MQRFH2"]
    assert told["properties"] == [{"name": "order", "type": "i4", "value": "17"}]
    data = told["data"]
    assert (data["text"], data["is_exact"], data["ccsid"]) == ("Grüße", True, 500)
    assert base64.b64decode(data["base64"]) == "Grüße".encode("cp500")
    part = web.ask("GET", f"{path}?from_byte=2&max_bytes=1&ccsid=500").content["data"]
    assert (part["text"], part["data_bytes"]) == ("ü", 5)
    assert [each[:3] for each in changes(web, 2)] == [("admin", "look", "on Q1")] * 2
    assert web.ask("GET", f"{MESSAGES}/{'0' * 32}").status == 404
    assert web.ask("GET", f"{MESSAGES}/nothing").status == 404


def test_a_dead_letter_tells_why_in_words_and_is_redriven_alone(
    web: Web, queue_manager: QueueManager, clock: VirtualClock, dead_lettering: None
) -> None:
    with queue_manager.session() as session:
        for data in (b"one", b"two"):
            session.put("Q2", data, delay_ms=1_000, time_to_live_ms=60_000)
        assert queue_manager.mqsc("ALTER QLOCAL(Q2) PUT(DISABLED)").ok
        clock.advance(1_000)
    letters = web.ask("GET", f"{QM1}/dead-letters").content["letters"]
    assert [each["reason"] for each in letters] == [rc.MQRC_PUT_INHIBITED] * 2
    assert letters[0]["reason_text"] == "Puts are inhibited somewhere on the way to the queue."
    place = letters[1]["place"]
    [header] = web.ask("GET", f"{QM1}/queues/DLQ/messages/{place}").content["headers"]
    assert header["name"] == "MQDLH"
    assert header["sentence"].startswith(
        "It could not be put on Q2@QM1: MQRC_PUT_INHIBITED (2051). Puts are inhibited"
    )
    body = {"action": "redrive", "places": [place]}
    refused = web.ask("POST", f"{QM1}/dead-letters", body).content
    assert (refused["failed"], refused["failures"]) == (1, {"MQRC_PUT_INHIBITED": 1})
    assert queue_manager.mqsc("ALTER QLOCAL(Q2) PUT(ENABLED)").ok
    foreseen = web.ask("POST", f"{QM1}/dead-letters", body | {"dry_run": True}).content
    assert foreseen["redriven"] == 1
    assert web.ask("POST", f"{QM1}/dead-letters", body).content["redriven"] == 1
    assert web.ask("POST", f"{QM1}/dead-letters", body).content["gone"] == 1
    assert changes(web, 2) == [
        ("admin", "redrive", "on DLQ", "1 gone", 0),
        ("admin", "redrive", "on DLQ", "1 redriven", 1),
    ]
    with queue_manager.session() as session:
        message = session.get("Q2")
        assert message is not None
        assert (message.body, message.remaining_ms) == (b"two", 59_000)
    assert queue_manager.counts("DLQ").live == 1


def test_a_moved_message_keeps_ids_context_and_deadline_and_the_undo_brings_it_back(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q2) CAPEXPRY(100)").ok
    with queue_manager.session(user="anna") as session:
        options = c.MQRO_COA | c.MQRO_COD
        msg_id = session.put("Q1", b"x", time_to_live_ms=60_000, report=options, reply_to_q="Q2")
        assert session.get("Q2") is not None
    before = listed(web.ask("GET", MESSAGES))[0]
    clock.advance(5_000)
    body = {"places": [before["place"], "0" * 32], "to": "Q2"}
    moved = web.ask("POST", f"{MESSAGES}/move", body).content
    assert moved["receipts"] == {"moved": 1, "gone": 1}
    # No report is made by a move.
    [after] = listed(web.ask("GET", f"{QM1}/queues/Q2/messages"))
    assert after["expire_at_ms"] == clock.now_ms() + 10_000
    assert after["capped_by"] == "CAPEXPRY(100) of QLOCAL(Q2)"
    assert changes(web) == [("admin", "move", "from Q1 to Q2", "1 gone, 1 moved", 1)]
    clock.advance(2_000)
    undo = f"{QM1}/undo/{moved['undo']}"
    assert web.ask("POST", undo).content["receipts"] == {"restored": 1}
    assert web.ask("POST", undo).status == 404
    [back] = listed(web.ask("GET", MESSAGES))
    assert (back["msg_id"], back["expire_at_ms"]) == (msg_id.hex(), before["expire_at_ms"])
    assert back["user_identifier"] == "anna"
    assert queue_manager.curdepth("Q2") == 0
    assert queue_manager.verify().ok
    with queue_manager.session() as session:
        message = session.get("Q1")
        assert message is not None
        assert message.remaining_ms == 53_000
    sentence = queue_manager.why(msg_id).sentence
    assert "got" in sentence


def test_an_undo_of_a_move_leaves_what_was_got_or_has_expired(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"got")
        session.put("Q1", b"short", time_to_live_ms=1_000)
        session.put("Q1", b"stays")
    places = [each["place"] for each in listed(web.ask("GET", MESSAGES))]
    moved = web.ask("POST", f"{MESSAGES}/move", {"places": places, "to": "Q2"}).content
    with queue_manager.session() as session:
        assert session.get("Q2") is not None
    clock.advance(1_000)
    undone = web.ask("POST", f"{QM1}/undo/{moved['undo']}").content["receipts"]
    assert undone == {"gone": 1, "expired": 1, "restored": 1}


def test_a_copy_has_the_same_id_and_deadline_and_owes_no_report(
    web: Web, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        msg_id = session.put(
            "Q1", b"x", time_to_live_ms=60_000, report=c.MQRO_EXPIRATION, reply_to_q="Q2"
        )
    body = {"places": [one_place(web)], "to": "Q2"}
    copied = web.ask("POST", f"{MESSAGES}/copy", body).content
    assert copied == {"receipts": {"copied": 1}, "undo": None}
    with queue_manager.session() as session:
        first, second = session.get("Q1"), session.get("Q2")
        assert first is not None
        assert second is not None
        assert first.msg_id == second.msg_id == msg_id
        assert first.expire_at_ms == second.expire_at_ms
        assert (first.descriptor.report, second.descriptor.report) == (c.MQRO_EXPIRATION, 0)


def test_delete_asks_by_the_count_and_leaves_what_is_locked_uncommitted_or_delayed(
    web: Web, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        locked = session.put("Q1", b"locked")
        deleted = session.put("Q1", b"live")
        session.put("Q1", b"delayed", delay_ms=60_000)
    getter = queue_manager.session(transacted=True)
    assert getter.get("Q1", msg_id=locked) is not None
    putter = queue_manager.session(transacted=True)
    putter.put("Q1", b"uncommitted")
    places = [each["place"] for each in listed(web.ask("GET", MESSAGES))]
    body: dict[str, object] = {"places": places, "count": 3}
    assert web.ask("POST", f"{MESSAGES}/delete", body).said[:2] == (
        400,
        "count is 3, and places are 4",
    )
    answer = web.ask("POST", f"{MESSAGES}/delete", body | {"count": 4}).content
    assert answer["receipts"] == {"deleted": 1, "locked": 1, "uncommitted": 1, "delayed": 1}
    getter.backout()
    putter.commit()
    assert queue_manager.counts("Q1").live == 2
    assert "cleared" in queue_manager.why(deleted).sentence
    getter.close()
    putter.close()


def test_a_target_that_refuses_one_gets_none(web: Web, queue_manager: QueueManager) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q2) MAXDEPTH(2)").ok
    with queue_manager.session() as session:
        for _ in range(3):
            session.put("Q1", b"x")
    places = [each["place"] for each in listed(web.ask("GET", MESSAGES))]
    for act in ("move", "copy"):
        status, _text, reason = web.ask(
            "POST", f"{MESSAGES}/{act}", {"places": places, "to": "Q2"}
        ).said
        assert (status, reason) == (503, rc.MQRC_Q_FULL)
    assert (queue_manager.counts("Q1").live, queue_manager.curdepth("Q2")) == (3, 0)
    assert web.ask("POST", f"{MESSAGES}/move", {"places": places, "to": "Q1"}).said[0] == 400
    assert queue_manager.verify().ok


def test_a_cancel_is_undone_with_delivery_time_and_deadline(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session(user="anna") as session:
        msg_id = session.put("Q1", b"x", delay_ms=60_000, time_to_live_ms=90_000).hex()
    begun_ms = clock.now_ms()
    cancelled = web.ask("POST", f"{QM1}/schedule/{msg_id}/cancel").content
    clock.advance(5_000)
    undo = f"{QM1}/undo/{cancelled['undo']}"
    assert web.ask("POST", undo).content["receipts"] == {"restored": 1}
    shown = web.ask("GET", f"{QM1}/schedule/{msg_id}").content
    assert shown["deliver_at_ms"] == begun_ms + 60_000
    assert shown["expire_at_ms"] == begun_ms + 90_000
    assert changes(web) == [("admin", "undo cancel", "", "1 restored", 1)]
    clock.advance(55_000)
    with queue_manager.session() as session:
        message = session.get("Q1")
        assert message is not None
        assert (message.msg_id.hex(), message.remaining_ms) == (msg_id, 30_000)
    assert queue_manager.verify().ok


def test_a_cancel_of_many_is_undone_and_what_has_expired_meanwhile_is_left_away(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x", delay_ms=500, time_to_live_ms=1_000)
        session.put("Q1", b"x", delay_ms=60_000)
    body = {"action": "cancel", "where": {"queue": "Q1"}}
    cancelled = web.ask("POST", f"{QM1}/schedule", body).content
    assert cancelled["message_count"] == 2
    clock.advance(1_000)
    undone = web.ask("POST", f"{QM1}/undo/{cancelled['undo']}").content["receipts"]
    assert undone == {"expired": 1, "restored": 1}
    assert web.ask("POST", f"{QM1}/schedule", body | {"dry_run": True}).content["undo"] is None


def test_an_undo_is_over_after_ten_minutes_and_is_for_its_user() -> None:
    now_ms = 0
    undos = Undos(lambda: now_ms)

    def run(*_given: object) -> Any:
        raise AssertionError

    first = undos.add("QM1", "anna", run)
    assert undos.take(first, "QM1", "bert") is None
    second = undos.add("QM1", "anna", run)
    now_ms = LIFE_MS
    assert undos.take(first, "QM1", "anna") is None
    assert undos.take(second, "QM2", "anna") is None
    # The oldest are dropped, by their number and by the data that is kept for them.
    kept = [undos.add("QM1", "anna", run) for _ in range(MAX_UNDOS + 1)]
    assert undos.take(kept[0], "QM1", "anna") is None
    assert undos.take(kept[1], "QM1", "anna") is not None
    large = [undos.add("QM1", "anna", run, MAX_BYTES // 2) for _ in range(3)]
    found = [undos.take(each, "QM1", "anna") is not None for each in (*kept[2:4], *large)]
    assert found == [False, False, False, True, True]


def test_a_message_is_put_with_delay_and_lifetime_in_words(
    web: Web, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    body = {
        "text": "hällo",
        "delay": "in 3 days",
        "lives": "lives 73 h",
        "properties": {"order": "1"},
    }
    foreseen = web.ask("POST", MESSAGES, body | {"dry_run": True}).content
    assert foreseen["msg_id"] is None
    assert foreseen["deliver_at_ms"] == clock.now_ms() + 3 * 86_400_000
    assert queue_manager.counts("Q1").staged == 0
    put = web.ask("POST", MESSAGES, body).content
    assert put["expire_at_ms"] == clock.now_ms() + 73 * 3_600_000
    [message] = listed(web.ask("GET", MESSAGES))
    assert (message["msg_id"], message["state"]) == (put["msg_id"], "staged")
    told = web.ask("GET", f"{MESSAGES}/{message['place']}").content
    assert (told["data"]["text"], told["data"]["ccsid"]) == ("hällo", 1208)
    assert [each["name"] for each in told["headers"]] == ["DDH", "MQRFH2"]
    said = web.ask("POST", MESSAGES, {"text": "x", "delay": "soon"}).said
    assert said[:2] == (
        400,
        "delay: 'soon' is not a duration: a number and ms, s, m, h or d, as in 20s",
    )
    assert web.ask("POST", MESSAGES, {"text": "x", "base64": "eA=="}).status == 400
    assert web.ask("POST", MESSAGES, {"base64": "="}).status == 400
    too_short = {"text": "x", "delay": "2 h", "lives": "1 h"}
    assert web.ask("POST", MESSAGES, too_short).said[2] == rc.MQRC_EXPIRY_ERROR


def test_the_schedule_is_filtered_by_a_property_and_by_a_part(
    web: Web, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"x", delay_ms=1_000, properties={"order": "1"})
        wanted = session.put("Q1", b"x", delay_ms=2_000, properties={"order": "2"}).hex()
    found = listed(web.ask("GET", f"{QM1}/schedule?property=order&value=2"))
    assert [each["msg_id"] for each in found] == [wanted]
    assert web.ask("GET", f"{QM1}/schedule?value=2").status == 400
    for part in (wanted[-6:].upper(), "ann", "q2"):
        with queue_manager.session(user="anna") as session:
            other = session.put("Q2", b"x", delay_ms=500).hex()
        expected = [wanted] if part == wanted[-6:].upper() else [other]
        path = f"{QM1}/schedule?find={part}"
        assert [each["msg_id"] for each in listed(web.ask("GET", path))] == expected
        assert web.ask("GET", f"{path}&limit=1").content["next"] is not None
        assert web.ask("POST", f"{QM1}/schedule/{other}/cancel").status == 200


def test_a_search_in_contents_is_bounded_by_bytes_and_goes_on(
    web: Web, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        for number in range(40):
            session.put(
                "Q1", bytes(2**20) + b"beyond" if number == 3 else bytes(2**20 - 9) + b"needle"
            )
    found, pages = 0, 0
    after: Any = ""
    while after is not None:
        page = web.ask("GET", f"{MESSAGES}?text=needle&limit=1000&after={after}").content
        found, after, pages = found + len(page["messages"]), page["next"], pages + 1
    assert (found, pages) == (39, 2)
    assert listed(web.ask("GET", f"{MESSAGES}?text=beyond")) == []


# Authority


@pytest.fixture
def watched(queue_manager: QueueManager) -> Iterator[Web]:
    """``QM1`` with AUTHCHK, where otto may look and operate, and browse, get or put nothing."""
    script = """DEFINE QLOCAL(Q1)
        DEFINE QLOCAL(Q2)
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('otto') AUTHADD(CONNECT,DSP,CHG)
        ALTER QMGR AUTHCHK(SEND)"""
    result = queue_manager.mqsc(script)
    assert result.ok, result
    for site in listening(queue_manager, admission=AdmitEverybody(operators=frozenset({ADMIN[0]}))):
        yield site.web


def test_who_may_look_and_not_browse_sees_figures_and_no_content(
    watched: Web, queue_manager: QueueManager
) -> None:
    with queue_manager.session() as session:
        session.put("Q1", b"secret", properties={"order": "1"})
        session.put("Q1", b"secret", delay_ms=60_000)

    def ask(method: str, path: str, body: object = None) -> Answer:
        return watched.ask(method, path, body, user=LOOKER)

    found = listed(ask("GET", MESSAGES))
    assert [each["body_bytes"] for each in found][1] == 6
    place, staged = (each["place"] for each in found)
    refused = [
        ask("GET", f"{MESSAGES}?text=secret"),
        ask("GET", f"{MESSAGES}?property=order&value=1"),
        ask("GET", f"{QM1}/schedule?property=order&value=1"),
        ask("GET", f"{MESSAGES}/{place}"),
        ask("GET", f"{MESSAGES}/{staged}"),
        ask("POST", f"{MESSAGES}/move", {"places": [place], "to": "Q2"}),
        ask("POST", f"{MESSAGES}/copy", {"places": [place], "to": "Q2"}),
        ask("POST", f"{MESSAGES}/delete", {"places": [place], "count": 1}),
        ask("POST", MESSAGES, {"text": "x"}),
    ]
    assert {(each.status, each.content["reason"]) for each in refused} == {
        (403, rc.MQRC_NOT_AUTHORIZED)
    }
    assert b"secret" not in str([each.content for each in refused]).encode()
    grant = "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('otto') AUTHADD(BROWSE)"
    assert queue_manager.mqsc(grant).ok
    assert ask("GET", f"{MESSAGES}/{place}").content["data"]["text"] == "secret"
    # A delayed message lies on another queue.
    assert ask("GET", f"{MESSAGES}/{staged}").status == 403
    page = ask("GET", f"{MESSAGES}?text=secret").content
    assert [each["place"] for each in page["messages"]] == [place]
    assert page["notes"] == [
        "Delayed messages were not searched: that takes BROWSE on SYSTEM.DDELAY.LOCAL.QUEUE."
    ]
    # To copy takes PUT on the target as well, and to move GET.
    assert ask("POST", f"{MESSAGES}/copy", {"places": [place], "to": "Q2"}).status == 403
    assert [each[:2] for each in changes(watched, 2)] == [("otto", "search"), ("otto", "look")]
