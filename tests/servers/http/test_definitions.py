"""Definitions by HTTP: all kinds of objects, and ETags between two operators."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from tests.servers.http.conftest import Answer, Web

BASE = "/mayfly/v1/qmgr/QM1/definitions"
Q1 = f"{BASE}/qlocal/Q1"


def attributes(answer: Answer) -> Any:
    assert answer.status in (200, 201), answer.content
    return answer.content["attributes"]


def test_an_object_is_shown_with_attributes_status_and_etag(
    web: Web, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) DESCR('the first') PUT(DISABLED)").ok
    found = web.ask("GET", Q1)
    assert (found.content["kind"], found.content["name"]) == ("qlocal", "Q1")
    shown = attributes(found)
    assert (shown["descr"], shown["put"], shown["maxdepth"]) == ("the first", "DISABLED", 5_000)
    assert found.content["status"] == {
        "curdepth": 0,
        "ipprocs": 0,
        "opprocs": 0,
        "deftype": "PREDEFINED",
    }
    assert web.ask("GET", Q1).headers["etag"] == found.headers["etag"]
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) MAXDEPTH(9)").ok
    assert web.ask("GET", Q1).headers["etag"] != found.headers["etag"]


def test_a_message_on_a_queue_does_not_change_its_etag(
    web: Web, queue_manager: QueueManager
) -> None:
    before = web.ask("GET", Q1)
    with queue_manager.session() as session:
        session.put("Q1", b"x")
    after = web.ask("GET", Q1)
    assert (before.content["status"]["curdepth"], after.content["status"]["curdepth"]) == (0, 1)
    assert before.headers["etag"] == after.headers["etag"]


def test_an_object_is_defined_replaced_altered_and_deleted(
    web: Web, queue_manager: QueueManager
) -> None:
    path = f"{BASE}/qlocal/NEW%2FQ"
    made = web.ask("PUT", path, {"attributes": {"maxdepth": 7, "put": "disabled"}})
    assert (made.status, attributes(made)["maxdepth"]) == (201, 7)
    assert attributes(made)["put"] == "DISABLED"
    replaced = web.ask("PUT", path, {"attributes": {"descr": "new"}}, if_match=made.headers["etag"])
    assert (replaced.status, attributes(replaced)["maxdepth"]) == (200, 5_000)
    changed = web.ask(
        "PATCH", path, {"attributes": {"maxdepth": 3}}, if_match=replaced.headers["etag"]
    )
    assert (attributes(changed)["descr"], attributes(changed)["maxdepth"]) == ("new", 3)
    with queue_manager.session() as session:
        session.put("NEW/Q", b"x")
    full = web.ask("DELETE", path, if_match=changed.headers["etag"])
    assert full.said[::2] == (409, rc.MQRC_Q_NOT_EMPTY)
    assert web.ask("DELETE", f"{path}?purge=true", if_match="*").status == 204
    assert web.ask("GET", path).said[0] == 404


@pytest.mark.parametrize(
    ("kind", "name", "given"),
    [
        ("qalias", "A1", {"target": "Q1"}),
        ("qremote", "R1", {"rname": "Q", "rqmname": "QM2", "xmitq": "Q2"}),
        ("qmodel", "M1", {"deftype": "PERMDYN"}),
        ("topic", "T1", {"topicstr": "a/b"}),
        ("process", "P1", {"applicid": "/bin/true"}),
        ("authinfo", "AI", {"authtype": "IDPWOS", "faildlay": 3}),
        ("channel", "CH", {"chltype": "SVRCONN"}),
        ("sub", "S1", {"topicstr": "a/b", "dest": "Q1"}),
    ],
)
def test_every_kind_of_object_is_defined(
    web: Web, queue_manager: QueueManager, kind: str, name: str, given: dict[str, object]
) -> None:
    path = f"{BASE}/{kind}/{name}"
    made = web.ask("PUT", path, {"attributes": given})
    assert made.status == 201, made.content
    assert {key: attributes(made)[key] for key in given} == given
    assert queue_manager.mqsc(f"DISPLAY {kind.upper()}({name})").ok
    listed = web.ask("GET", f"{BASE}/{kind}?name={name}").content["definitions"]
    assert [one["name"] for one in listed] == [name]
    assert web.ask("DELETE", path, if_match=made.headers["etag"]).status == 204


def test_the_queue_manager_is_altered_and_neither_defined_nor_deleted(
    web: Web, queue_manager: QueueManager
) -> None:
    path = f"{BASE}/qmgr/QM1"
    etag = web.ask("GET", path).headers["etag"]
    changed = web.ask("PATCH", path, {"attributes": {"descr": "by HTTP"}}, if_match=etag)
    assert attributes(changed)["descr"] == "by HTTP"
    assert queue_manager.mqsc("DISPLAY QMGR DESCR").rows[0]["DESCR"] == "by HTTP"
    for method, body in (("PUT", {"attributes": {}}), ("DELETE", None)):
        assert web.ask(method, path, body, if_match="*").said[0] == 409


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("PATCH", {}, 428),
        ("DELETE", {}, 428),
        ("PUT", {}, 428),
        ("PATCH", {"if_match": '"other"'}, 412),
        ("DELETE", {"if_match": '"other"'}, 412),
        ("PUT", {"if_match": '"other"'}, 412),
        ("PUT", {"if_none_match": "*"}, 412),
        ("PUT", {"if_match": '"x", *'}, 200),
        ("DELETE", {"if_match": "*"}, 204),
    ],
)
def test_a_change_needs_the_etag_of_what_it_changes(
    web: Web, method: str, headers: dict[str, Any], status: int
) -> None:
    before = web.ask("GET", Q1).content
    body = None if method == "DELETE" else {"attributes": {"maxdepth": 1}}
    answer = web.ask(method, Q1, body, **headers)
    assert answer.status == status
    if status >= 400:
        assert web.ask("GET", Q1).content == before
        assert "If-" in answer.content["detail"]


def test_what_is_not_there_has_no_etag(web: Web) -> None:
    path = f"{BASE}/qlocal/NONE"
    body: dict[str, object] = {"attributes": {}}
    assert web.ask("PUT", path, body, if_match="*").said[0] == 412
    assert web.ask("PATCH", path, body, if_match="*").said[0] == 404
    assert web.ask("PUT", path, body, if_none_match="*").status == 201


def test_of_two_operators_with_one_etag_one_changes(web: Web) -> None:
    """Both have seen the same, and send at the same time."""
    etag = web.ask("GET", Q1).headers["etag"]
    at_once, statuses = threading.Barrier(2), list[int]()

    def change(depth: int) -> None:
        at_once.wait()
        body = {"attributes": {"maxdepth": depth}}
        statuses.append(web.ask("PATCH", Q1, body, if_match=etag).status)

    both = [threading.Thread(target=change, args=(depth,)) for depth in (10, 20)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(statuses) == [200, 412]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"maxdepth": "many"}, "MAXDEPTH(many) is not right: it must be a number from 0 to"),
        ({"maxdepth": -1}, "MAXDEPTH(-1) is not right: it must be a number from 0 to"),
        ({"descr": 1}, "DESCR(1) takes text"),
        ({"colour": "red"}, "COLOUR is no attribute of QLOCAL"),
        ({"curdepth": 1}, "CURDEPTH is no attribute of QLOCAL"),
        ({"put": "maybe"}, "PUT(maybe) is not right: it must be"),
        ({"maxdepth": True}, "attributes {'maxdepth': True} is not an object, each value"),
        ({"maxdepth": 1.5}, "attributes {'maxdepth': 1.5} is not an object, each value"),
    ],
)
def test_a_wrong_attribute_is_told_by_name_and_value(
    web: Web, given: dict[str, object], said: str
) -> None:
    before = web.ask("GET", Q1).content
    status, detail, _reason = web.ask("PATCH", Q1, {"attributes": given}, if_match="*").said
    assert (status, detail[: len(said)]) == (400, said)
    assert web.ask("GET", Q1).content == before


def test_names_and_kinds_that_are_none(web: Web) -> None:
    assert web.ask("GET", f"{BASE}/queue").said[0] == 404
    assert web.ask("GET", f"{BASE}/QLOCAL").said[0] == 404
    assert web.ask("GET", f"{BASE}/qlocal/*").said[0] == 404
    wrong = web.ask("PUT", f"{BASE}/qlocal/Q%20R", {"attributes": {}})
    assert wrong.said[::2] == (400, rc.MQRC_OBJECT_NAME_ERROR)
    other = web.ask("PUT", f"{BASE}/qalias/Q1", {"attributes": {"target": "Q2"}})
    assert other.said[::2] == (409, rc.MQRC_OBJECT_ALREADY_EXISTS)
    like = web.ask("PUT", f"{BASE}/qlocal/Q3", {"like": "NONE"})
    assert like.said[::2] == (404, rc.MQRC_UNKNOWN_OBJECT_NAME)


def test_objects_are_listed_page_by_page(web: Web, queue_manager: QueueManager) -> None:
    assert queue_manager.mqsc("\n".join(f"DEFINE QLOCAL(P{n})" for n in range(5))).ok
    found, after = list[str](), ""
    while True:
        page = web.ask("GET", f"{BASE}/qlocal?name=P*&limit=2&after={after}").content
        found += [one["name"] for one in page["definitions"]]
        if page["next"] is None:
            break
        after = page["next"]
    assert found == ["P0", "P1", "P2", "P3", "P4"]
