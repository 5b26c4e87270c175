"""What a standby answers to browsers, programs, probes and Prometheus."""

from __future__ import annotations

import json
import re
from email.parser import Parser

import pytest

from mayfly.servers.standby_http import StandbyFacts, standby_answer

WHY = "this is a standby of QM1, which is owned by one<1>, process 7"
PROBES = ("live", "ready", "replica")
FACTS = StandbyFacts("QM1", "one<1>, process 7", "one:9443", WHY, is_following=True, has_tls=True)


def asked(facts: StandbyFacts, path: str, *headers: str) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of the answer to a GET."""
    lines = "\r\n".join((f"GET {path} HTTP/1.1", "Host: two", *headers, "", ""))
    head, _, body = standby_answer(lines.encode(), facts).decode().partition("\r\n\r\n")
    first, _, rest = head.partition("\r\n")
    answered = dict(Parser().parsestr(rest))
    assert answered["Content-Length"] == str(len(body.encode()))
    return int(first.split()[1]), answered, body


def test_a_browser_gets_a_page_with_a_link_to_the_console_of_the_owner() -> None:
    status, headers, body = asked(FACTS, "/console/", "accept: text/html,*/*;q=0.8")
    assert (status, headers["Content-Type"]) == (503, "text/html; charset=utf-8")
    assert re.findall(r'href="(.*?)"', body) == ["https://one:9443/console/"]
    assert "<h1>This is a standby of QM1</h1>" in body
    assert "Its owner is one&lt;1&gt;, process 7" in body
    plain = FACTS._replace(has_tls=False, is_following=False)
    body = asked(plain, "/", "Accept: text/html")[2]
    assert 'href="http://one:9443/console/"' in body
    assert "does not have all that the owner has committed yet" in body
    nobody = FACTS._replace(owner=None, address=None)
    assert "Nobody owns QM1 at the moment." in asked(nobody, "/", "Accept: text/html")[2]
    silent = FACTS._replace(address=None)
    assert "which does not listen for HTTP." in asked(silent, "/", "Accept: text/html")[2]


def test_a_program_gets_the_owner_as_json_and_a_probe_the_state_as_well() -> None:
    told = {
        "queue_manager": "QM1",
        "role": "standby",
        "owner": "one<1>, process 7",
        "address": "one:9443",
        "detail": WHY,
    }
    status, headers, body = asked(FACTS, "/mayfly/v1/clock", "Accept: */*")
    assert (status, headers["Content-Type"], json.loads(body)) == (503, "application/json", told)
    status, headers, body = asked(FACTS, "/health/ready", "Accept: text/html")
    assert (status, headers["Content-Type"]) == (503, "application/json")
    assert json.loads(body) == {**told, "queue_managers": {"QM1": "standby"}, "gone": []}


def test_probes_tell_that_it_lives_and_whether_it_could_take_over() -> None:
    behind = FACTS._replace(is_following=False)
    found = [asked(each, f"/health/{name}?x=1")[0] for each in (FACTS, behind) for name in PROBES]
    assert found == [200, 503, 200, 200, 503, 503]


def test_prometheus_is_told_that_it_is_up_as_a_standby() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    status, _headers, body = asked(FACTS, "/metrics", "Accept: text/plain")
    assert status == 200
    [family] = parser.text_string_to_metric_families(body)
    [up] = family.samples
    assert (up.name, up.value) == ("mayfly_queue_manager_up", 1)
    assert up.labels == {"queue_manager": "QM1", "state": "standby"}


def test_a_page_of_the_fleet_may_read_its_answers_and_no_other() -> None:
    fleet = FACTS._replace(origins={"https://north:9443"})
    name = "Access-Control-Allow-Origin"
    allowed = asked(fleet, "/health/ready", "Origin: https://north:9443")[1]
    assert allowed[name] == "https://north:9443"
    assert name not in asked(fleet, "/health/ready", "Origin: https://elsewhere")[1]
    assert name not in asked(fleet, "/health/ready")[1]


def test_what_is_not_http_is_refused() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        standby_answer(b"hello\r\n\r\n", FACTS)
