"""Answers are held against the description of their operation, whichever test has asked."""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs

from mayfly.servers.http.application import OPERATIONS
from mayfly.servers.http.resources.openapi import ApiDescription
from mayfly.servers.http.resources.operations import Call, NoQuery

#: Any operation may be answered with these: too slow a request, too long a head, a wrong method.
_OF_ALL = {405, 408, 431}


def check_answer(method: str, path: str, status: int, media_type: str, content: Any) -> None:
    """Assert that an answer is one of those that the description of its operation names."""
    template = _template_of(urlsplit(path).path)
    if template is None or status in _OF_ALL:
        return
    described = _document()["paths"][template]["get" if method == "HEAD" else method.lower()]
    assert str(status) in described["responses"], f"{method} {template}: {status} is not described"
    told = described["responses"][str(status)].get("content", {})
    if not told:
        assert content == ""
        return
    assert media_type in told, f"{method} {template} {status}: {media_type}"
    if "json" in media_type and method != "HEAD":
        _validator(template, described["operationId"], status, media_type).validate(content)


@cache
def _document() -> dict[str, Any]:
    service: Any = SimpleNamespace(logins=SimpleNamespace(cookie="LtpaToken2_x"))
    request: Any = None
    call = Call[NoQuery, None](service, request, {}, NoQuery(), None, None)
    return ApiDescription(OPERATIONS).openapi(call)


@cache
def _validator(template: str, name: str, status: int, media_type: str) -> Any:
    [described] = [
        one for one in _document()["paths"][template].values() if one["operationId"] == name
    ]
    schema = described["responses"][str(status)]["content"][media_type]["schema"]
    components = _document()["components"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": components})


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """Return patterns of the paths of our own, those with fewer parts left open first."""
    paths = sorted({one.path for one in OPERATIONS}, key=lambda p: p.count("{"))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in paths]


def _template_of(path: str) -> str | None:
    return next((name for pattern, name in _patterns() if pattern.fullmatch(path)), None)
