"""The names are those of the pinned version of the conventions."""

from __future__ import annotations

import re

import pytest
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.semconv.schemas import Schemas

from mayfly import telemetry
from mayfly.client.telemetry import recording
from tests.pages import part

DOCS = part("METRICS.md", "OpenTelemetry")


def test_names_are_those_of_the_conventions() -> None:
    known = {
        value
        for module in (messaging_attributes, messaging_metrics, error_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    said = {
        value
        for name, value in vars(recording).items()
        if name.isupper() and isinstance(value, str) and "." in value
    } - {recording.VERSION, recording.SCHEMA_URL}
    ours = {name for name in said if name.startswith("mayfly.")}
    assert len(said) > 15
    assert said - ours <= known
    types = {each.value for each in messaging_attributes.MessagingOperationTypeValues}
    made = {each for each in vars(recording).values() if isinstance(each, recording.SpanOperation)}
    assert {each.type for each in made} - {""} <= types
    assert recording.SCHEMA_URL in {schema.value for schema in Schemas}


def test_the_program_on_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    try:
        exec(compile(program, "TELEMETRY.md", "exec"), {})
    finally:
        telemetry.uninstrument()
    assert capsys.readouterr().out == said


def test_the_page_has_every_name_and_the_version() -> None:
    for name, value in vars(recording).items():
        if name.isupper() and isinstance(value, str) and "." in value:
            assert value in DOCS, name
