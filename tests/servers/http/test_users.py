"""Users and authority records by HTTP."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.admin.security.users import users_of
from mayfly.mqi import reasons as rc
from tests.servers.http.conftest import ADMIN, APP, Answer, Web

QM1 = "/mayfly/v1/qmgr/QM1"
USERS, RECORDS = f"{QM1}/users", f"{QM1}/authority-records"
SECRET = "correct horse battery"


@pytest.fixture
def anna(guarded: Web) -> Answer:
    """A user who was added by HTTP."""
    answer = guarded.ask("PUT", f"{USERS}/anna", {"password": SECRET, "groups": ["staff"]})
    assert answer.status == 201
    return answer


def test_users_are_added_listed_altered_and_removed(
    guarded: Web, anna: Answer, developed: QueueManager
) -> None:
    shown = {"name": "anna", "groups": ["staff"], "is_administrator": False}
    assert anna.content == shown
    listed = guarded.ask("GET", USERS).content
    assert [one["name"] for one in listed["users"]] == ["admin", "anna", "app"]
    assert listed["users"][0]["is_administrator"] is True
    first = guarded.ask("GET", f"{USERS}?limit=2").content
    second = guarded.ask("GET", f"{USERS}?limit=2&after={first['next']}").content
    assert [one["name"] for one in second["users"]] == ["app"]

    etag = anna.headers["etag"]
    moved = guarded.ask("PATCH", f"{USERS}/anna", {"groups": ["ops", "staff"]}, if_match=etag)
    assert moved.content["groups"] == ["ops", "staff"]
    late = guarded.ask("PATCH", f"{USERS}/anna", {"groups": []}, if_match=etag)
    assert late.said[0] == 412
    removed = guarded.ask("DELETE", f"{USERS}/anna", if_match=moved.headers["etag"])
    assert removed.status == 204
    assert users_of(developed.engine).find("anna") is None
    assert guarded.ask("GET", f"{USERS}/anna").said == (404, "there is no user 'anna'", None)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_change_of_a_user_needs_its_etag(
    web: Web, queue_manager: QueueManager, method: str
) -> None:
    users_of(queue_manager.engine).add("anna", SECRET)
    before = users_of(queue_manager.engine).find("anna")
    body = None if method == "DELETE" else {"password": "another"}
    assert web.ask(method, f"{USERS}/anna", body).said[0] == 428
    assert web.ask(method, f"{USERS}/anna", body, if_match='"x"').said[0] == 412
    assert users_of(queue_manager.engine).find("anna") == before
    assert web.ask(method, f"{USERS}/anna", body, if_match="*").status in (200, 204)


@pytest.mark.slow
def test_another_password_counts_at_once(guarded: Web) -> None:
    given = {"username": "app", "password": APP[1]}
    begun = guarded.ask("POST", "/ibmmq/rest/v3/login", given, user=None)
    cookie = begun.headers["set-cookie"].partition(";")[0]
    login = "/ibmmq/rest/v3/login"
    assert guarded.ask("GET", login, user=None, cookie=cookie).status == 200
    changed = guarded.ask("PATCH", f"{USERS}/app", {"password": SECRET}, if_match="*")
    assert changed.content["groups"] == ["developers"]
    assert guarded.ask("GET", login, user=None, cookie=cookie).status == 401
    assert guarded.ask("GET", login, user=APP).status == 401
    assert guarded.ask("GET", login, user=("app", SECRET)).status == 200


def test_no_password_is_in_an_answer_or_a_log(
    guarded: Web, developed: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bodies: list[dict[str, Any]] = [
        {"password": SECRET},
        {"password": [SECRET]},
        {"password": SECRET * 100},
        {"password": SECRET, "groups": "staff"},
        {"password": SECRET, "groups": ["a b"]},
        {"password": SECRET, "colour": "red"},
    ]
    answers = [guarded.ask("PUT", f"{USERS}/anna", body) for body in bodies]
    answers.append(guarded.ask("PUT", f"{USERS}/a%20b", {"password": SECRET}))
    answers.append(guarded.ask("GET", f"{USERS}/anna"))
    found = users_of(developed.engine).find("anna")
    assert found is not None
    told = str([(answer.headers, answer.content) for answer in answers]) + caplog.text
    assert "correct horse" not in told
    assert found.password_hash not in told
    assert "QM1: user anna was added by admin" in caplog.text


@pytest.mark.parametrize(
    ("user", "body", "said"),
    [
        ("anna", {}, "password is not a text"),
        ("anna", {"password": ""}, "a password has 1 to 1024 bytes"),
        ("anna", {"password": "ä" * 513}, "a password has 1 to 1024 bytes"),
        ("anna", {"password": "x", "groups": ["a b"]}, "group 'a b' is not 1 to 64 characters"),
        ("a%20b", {"password": "x"}, "user 'a b' is not 1 to 12 characters"),
        ("a" * 13, {"password": "x"}, "user 'aaaaaaaaaaaaa' is not 1 to 12 characters"),
    ],
)
def test_a_wrong_user_is_refused(
    web: Web, queue_manager: QueueManager, user: str, body: dict[str, Any], said: str
) -> None:
    status, detail, _reason = web.ask("PUT", f"{USERS}/{user}", body).said
    assert (status, detail[: len(said)]) == (400, said)
    assert [one.name for one in users_of(queue_manager.engine).all()] == []


# Authority records


def test_a_record_is_made_changed_and_deleted(guarded: Web, developed: QueueManager) -> None:
    path = f"{RECORDS}/queue/Q%2F*.**/group/staff"
    made = guarded.ask("PUT", path, {"authorities": ["get", "PUT"]})
    assert made.status == 201
    assert made.content == {
        "object_type": "queue",
        "profile": "Q/*.**",
        "entity_kind": "group",
        "entity": "staff",
        "authorities": ["GET", "PUT"],
    }
    more = guarded.ask("PATCH", path, {"add": ["BROWSE"], "remove": ["GET"]})
    assert more.content["authorities"] == ["BROWSE", "PUT"]
    for header in ({}, {"if_match": made.headers["etag"]}):
        refused = guarded.ask("PUT", path, {"authorities": ["DSP"]}, **header)  # type: ignore[arg-type]  # headers by name
        assert refused.said[0] == (412 if header else 428)
    etag = more.headers["etag"]
    set_to = guarded.ask("PUT", path, {"authorities": ["ALLMQI"]}, if_match=etag)
    assert "BROWSE" in set_to.content["authorities"]
    assert "CHG" not in set_to.content["authorities"]
    row = developed.mqsc("DISPLAY AUTHREC PROFILE('Q/*.**') GROUP(staff) MATCH(EXACT)").rows[0]
    assert str(row["AUTHLIST"]).split(",") == set_to.content["authorities"]
    less = guarded.ask("PUT", path, {"authorities": ["DSP"]}, if_match="*")
    assert less.content["authorities"] == ["DSP"]
    assert guarded.ask("DELETE", path).said[0] == 428
    assert guarded.ask("DELETE", path, if_match=less.headers["etag"]).status == 204
    assert guarded.ask("GET", path).said[0] == 404


def test_records_are_listed_by_object_and_entity(guarded: Web) -> None:
    every = guarded.ask("GET", RECORDS).content["records"]
    assert len(every) > 3
    found = list[Any]()
    page: dict[str, Any] = {"next": ""}
    while page["next"] is not None:
        after = page["next"].replace(" ", "%20").replace("*", "%2A")
        page = guarded.ask("GET", f"{RECORDS}?limit=2&after={after}").content
        found += page["records"]
    assert found == every
    queues = guarded.ask("GET", f"{RECORDS}?object_type=queue&profile=DEV.QUEUE.1").content
    assert [one["profile"] for one in queues["records"]] == ["DEV.**"]
    assert guarded.ask("GET", f"{RECORDS}?group=nothing").content["records"] == []


def test_the_authority_of_a_user_is_that_of_all_its_records(
    guarded: Web, developed: QueueManager
) -> None:
    asked = "object_type=queue&name=DEV.QUEUE.1"
    told = guarded.ask("GET", f"{QM1}/authority?{asked}&group=developers").content
    assert told["authorities"] == ["BROWSE", "DSP", "GET", "INQ", "PUT"]
    assert guarded.ask("GET", f"{QM1}/authority?{asked}").said[0] == 400


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("queue/Q/group/staff", {"authorities": ["FLY"]}, (400, rc.MQRC_OPTIONS_ERROR)),
        ("queue/Q/group/staff", {"authorities": "GET"}, (400, None)),
        ("queue/a%20b/group/staff", {"authorities": []}, (400, rc.MQRC_OBJECT_NAME_ERROR)),
        ("queue/Q/principal/much-too-long-a-name", {"authorities": []}, (400, 2046)),
        ("queues/Q/group/staff", {"authorities": []}, (404, None)),
        ("queue/Q/users/anna", {"authorities": []}, (404, None)),
    ],
)
def test_a_wrong_record_is_refused(
    web: Web, path: str, body: dict[str, Any], said: tuple[int, int | None]
) -> None:
    before = web.ask("GET", RECORDS).content
    answer = web.ask("PUT", f"{RECORDS}/{path}", body)
    assert answer.said[::2] == said
    assert web.ask("GET", RECORDS).content == before


def test_users_and_records_are_for_administrators(guarded: Web, developed: QueueManager) -> None:
    users_of(developed.engine).add("otto", "operates")
    assert developed.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL(otto) AUTHADD(ALL)\n"
        "SET CHLAUTH(DEV.ADMIN.SVRCONN) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL)"
    ).ok
    for path in (USERS, RECORDS, f"{USERS}/admin"):
        assert guarded.ask("GET", path, user=("otto", "operates")).said[::2] == (403, 2035)
        assert guarded.ask("GET", path, user=ADMIN).status == 200
