"""The description of operations, and operations that do what it says."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from string import Formatter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from mayfly import QueueManager
from mayfly.servers.http.application import OPERATIONS
from mayfly.servers.http.resources.operations import Operation
from mayfly.testing import VirtualClock
from tests.connection.serving import AdmitEverybody
from tests.examples import SHORT_PROFILE
from tests.servers.http.conftest import Site, Web, listening

PATH = "/mayfly/v1/openapi.json"
#: One that never ends has tests of its own, as have those that begin a process each.
STREAM = "text/event-stream"
#: The clock comes last: nothing is delayed any more when it was moved by some years.
ENDING = sorted(
    (
        one
        for one in OPERATIONS
        if one.media_type != STREAM and one.status is not HTTPStatus.ACCEPTED
    ),
    key=lambda one: one.method == "POST" and one.path.endswith("/clock"),
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SOME, MANY = 3, 150
#: Parts of paths that are there, so that not every request is 404; None is what was generated.
PRESENT: dict[str, list[str | None]] = {
    "qmgr": ["QM1", "QM1", "QM1", None],
    "queue": ["Q1", "DLQ", None],
    "id": [None],
    "kind": ["qlocal", "channel", "topic", "qmgr", None],
    "user": ["anna", "bert", None],
    "object_type": ["queue", "qmgr", None],
    "profile": ["SELF", "Q.**", None],
    "entity_kind": ["principal", "group", None],
    "entity": ["anna", None],
    "channel": ["DEV.CHANNEL", "SYSTEM.DEF.SENDER", None],
    "name": ["Q2", "QM1", "DEV.CHANNEL", None],
}


def label(one: Operation) -> str:
    return f"{one.method} {one.path}"


@pytest.fixture(scope="module")
def busy() -> Iterator[Site]:
    """A queue manager with messages in most states, which admin and anna may administer."""
    clock = VirtualClock(1_700_000_000_000)
    with QueueManager("QM1", clock=clock) as manager:
        script = """DEFINE QLOCAL(DLQ)
            ALTER QMGR DEADQ(DLQ)
            DEFINE QLOCAL(Q1)
            DEFINE QLOCAL(Q2)
            DEFINE QLOCAL(FULL)"""
        assert manager.mqsc(script).ok
        with manager.session(user="anna") as session:
            put = [session.put("Q1", b"x", delay_ms=60_000 * (n + 1)).hex() for n in range(30)]
            session.put("FULL", b"late", delay_ms=1_000)
            assert manager.mqsc("ALTER QLOCAL(FULL) MAXDEPTH(0)").ok
            session.put("Q1", b"short", time_to_live_ms=500)
        clock.advance(1_000)
        PRESENT["id"] = [*put, None]
        yield from listening(manager, admission=AdmitEverybody(operators=frozenset({"admin"})))


@pytest.fixture(scope="module")
def schema(busy: Site) -> Any:
    found = schemathesis.openapi.from_dict(busy.web.ask("GET", PATH, user=None).content)
    found.config.update(base_url=f"http://127.0.0.1:{busy.web.port}")
    return found


def test_the_description_is_openapi_and_names_every_operation(busy: Site) -> None:
    document = busy.web.ask("GET", PATH, user=None).content
    assert list(OPENAPI_31_VALIDATOR.iter_errors(document)) == []
    assert document["openapi"] == "3.1.0"
    for one in OPERATIONS:
        assert one.method.lower() in document["paths"][one.path]
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))
    # A type of the same name in two modules would have its module in its name.
    assert not [name for name in document["components"]["schemas"] if "_" in name or "." in name]


def test_the_description_tells_parameters_bodies_roles_and_ways_in(busy: Site) -> None:
    document = busy.web.ask("GET", PATH, user=None).content
    listed = document["paths"]["/mayfly/v1/qmgr/{qmgr}/schedule"]["get"]
    parameters = {one["name"]: one for one in listed["parameters"]}
    assert parameters["limit"]["schema"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1000,
        "default": 20,
    }
    assert parameters["queue"]["schema"] == {"type": "string"}
    assert [parameters["qmgr"]["in"], parameters["queue"]["in"]] == ["path", "query"]
    assert listed["x-mayfly-role"] == "look"
    changed = document["paths"]["/mayfly/v1/qmgr/{qmgr}/schedule"]["post"]
    assert changed["security"] == [{"password": []}, {"token": []}, {"login": [], "csrf": []}]
    body = document["components"]["schemas"]["DelayedChange"]
    assert body["properties"]["action"] == {"enum": ["cancel", "release", "reschedule"]}
    assert (body["required"], body["additionalProperties"]) == (["action", "where"], False)
    problem = changed["responses"]["403"]["content"]["application/problem+json"]["schema"]
    assert problem == {"$ref": "#/components/schemas/Problem"}
    schemes = document["components"]["securitySchemes"]
    assert schemes["login"]["name"].startswith("LtpaToken2_")
    assert schemes["csrf"]["name"] == "ibm-mq-rest-csrf-token"


@pytest.mark.slow
@pytest.mark.parametrize("one", ENDING, ids=label)
def test_an_operation_answers_as_it_is_described(busy: Site, schema: Any, one: Operation) -> None:
    """Any request has an answer that the description allows, and none is a failure of the server.

    Half of the requests are as described, half are not.
    """
    described = schema[one.path][one.method]
    is_short = settings.get_current_profile_name() == SHORT_PROFILE

    @settings(
        max_examples=SOME if is_short else MANY,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.one_of([described.as_strategy(generation_mode=mode) for mode in GenerationMode]),
        st.fixed_dictionaries(
            {name: st.sampled_from(PRESENT.get(name, [None])) for name in one.names}
        ),
    )
    def asks(case: Any, names: dict[str, str | None]) -> None:
        for name, value in names.items():
            if value is not None:
                case.path_parameters[name] = value
        response = case.call(auth=("admin", "x"))
        case.validate_response(response, checks=CHECKS)

    asks()


def test_operations_with_a_role_are_for_nobody_without_credentials(guarded: Web) -> None:
    with guarded.connected() as web:
        for one in OPERATIONS:
            path = one.path.format_map(dict.fromkeys(one.names, "01") | {"qmgr": "QM1"})
            answer = web.ask(one.method, path, user=None)
            assert (answer.status == 401) is (one.role is not None), label(one)
            if one.role is not None:
                assert answer.content["reasonName"] == "MQRC_NOT_AUTHORIZED"
                assert answer.headers["www-authenticate"].startswith("Basic ")


def test_methods_that_are_not_declared_are_405(site: Site) -> None:
    with site.web.connected() as web:
        for path in {one.path for one in OPERATIONS}:
            declared = {one.method for one in OPERATIONS if one.path == path}
            names = [name for _, name, _, _ in Formatter().parse(path) if name]
            named = path.format_map({name: PRESENT.get(name, [None])[0] or "01" for name in names})
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - declared:
                answer = web.ask(method, named)
                assert answer.status == 405, (method, path)
                assert set(answer.headers["allow"].split(", ")) - {"HEAD"} == declared
