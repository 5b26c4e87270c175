"""Declared operations: what each says of itself, and what is wrong with a request."""

from __future__ import annotations

from inspect import getdoc
from typing import Annotated, Any, Literal, get_args, get_type_hints

import pytest
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from mayfly.client.connection.json_values import AuditJson, ScheduledJson, StepJson, TraceEntryJson
from mayfly.servers.http.application import OPERATIONS
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import SECRET, Operation
from mayfly.servers.http.resources.routing import checked_body, checked_query
from mayfly.services.dead_letter.handler import Outcome, SummaryJson
from mayfly.verbs.facts import MessageTrace, TraceEntry
from mayfly.verbs.schedule import AuditEntry, Scheduled


class Inner(Struct, forbid_unknown_fields=True):
    """An object in a body."""

    queue: str | UnsetType = UNSET
    count: int | UnsetType = UNSET


class Put(Struct, forbid_unknown_fields=True):
    """A body of every kind of field."""

    name: Annotated[str, Meta(min_length=1, max_length=3)]
    weight: float = 0.0
    most: Annotated[int, Meta(ge=1, le=9)] = 1
    colour: Literal["red", "blue"] = "red"
    words: list[str] = []
    where: Annotated[Inner | UnsetType, Meta(title="a filter")] = UNSET
    password: Annotated[str, Meta(extra=SECRET)] = ""
    is_last: bool | None = None


class Query(Struct, forbid_unknown_fields=True):
    """Query parameters of every kind."""

    queue: str
    most: Annotated[int, Meta(ge=-5, le=5)] = 0
    is_last: bool = False


def refusal(found: object, kind: Any = Put) -> str:
    with pytest.raises(HttpError) as raised:
        checked_body(found, kind)
    assert raised.value.status == 400
    return raised.value.detail


def query(text: str) -> Query:
    return checked_query(Request({"type": "http", "query_string": text.encode()}), Query)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "name None is not a text of 1 to 3 characters"),
        (
            {"size": 1},
            "'size' is none of name, weight, most, colour, words, where, password, is_last",
        ),
        ({"name": "four"}, "name 'four' is not a text of 1 to 3 characters"),
        ({"name": None}, "name None is not a text of 1 to 3 characters"),
        ({"weight": "1"}, "weight '1' is not a number"),
        ({"most": 10}, "most 10 is not a whole number from 1 to 9"),
        ({"most": True}, "most True is not a whole number from 1 to 9"),
        ({"colour": "green"}, "colour 'green' is not blue or red"),
        ({"colour": ["red"]}, "colour ['red'] is not blue or red"),
        ({"words": ["a", 1]}, "words ['a', 1] is not a list, each a text"),
        ({"is_last": "yes"}, "is_last 'yes' is not true or false"),
        ({"where": 1}, "where 1 is not an object"),
        ({"where": {"q": 1}}, "where 'q' is not one of queue, count"),
        ({"where": {"queue": 1}}, "where {'queue': 1} is not a filter: queue is a text"),
        ({"where": {"count": None}}, "count is None: it is a whole number"),
        ({"password": 12345}, "password is not a text"),
        ({"most": "9" * 999}, f"most '{'9' * 199}… is not a whole number from 1 to 9"),
    ],
)
def test_a_wrong_body_is_told_by_field_and_value(found: dict[str, object], said: str) -> None:
    assert refusal({"name": "x"} | found if found else found) == said


def test_a_body_comes_as_its_type_says() -> None:
    found = {"name": "x", "weight": 1, "where": {"queue": "Q"}}
    assert checked_body(found, Put) == Put("x", 1.0, where=Inner("Q"))
    assert refusal([1], Inner) == "the body is no JSON object"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "query parameter 'queue' is missing: it is a text"),
        ("queue=a&queue=b", "query parameter 'queue' is given twice"),
        ("queue=a&q=1", "query parameter 'q' is none of queue, most, is_last"),
        ("queue=a&most=6", "most '6' is not a whole number from -5 to 5"),
        ("queue=a&most=+1", "most ' 1' is not a whole number from -5 to 5"),
        ("queue=a&most=1_0", "most '1_0' is not a whole number from -5 to 5"),
        ("queue=a&is_last=yes", "is_last 'yes' is not true or false"),
    ],
)
def test_a_wrong_query_is_told_by_parameter_and_value(text: str, said: str) -> None:
    with pytest.raises(HttpError) as raised:
        query(text)
    assert (raised.value.status, raised.value.detail) == (400, said)


def test_query_parameters_come_as_their_types_say() -> None:
    assert query("most=-5&is_last=true&queue=%C3%A4") == Query("ä", -5, True)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one.method} {one.path}")
def test_an_operation_is_described_by_its_handler(operation: Operation) -> None:
    summary = (getdoc(operation.handler) or "").partition("\n\n")[0]
    assert summary.endswith("."), "the docstring begins with one sentence"
    for kind in (operation.query, operation.body):
        if kind is not None:
            assert kind.__struct_config__.forbid_unknown_fields
    is_json = operation.media_type == "application/json" and operation.status != 204
    assert (operation.answer is not None) is is_json


@pytest.mark.parametrize(
    ("told", "fields"),
    [
        (TraceEntryJson, {*TraceEntry._fields, "reason_name"}),
        (StepJson, {*get_args(get_type_hints(MessageTrace)["steps"])[0]._fields}),
        (ScheduledJson, {*Scheduled._fields}),
        (AuditJson, {*AuditEntry._fields}),
        (SummaryJson, {*(outcome.value for outcome in Outcome), "failures"}),
    ],
)
def test_a_type_of_json_has_the_fields_of_its_value(told: type, fields: set[str]) -> None:
    assert set(told.__annotations__) == fields
