"""What a standby answers by HTTP: 503 with its owner, as JSON or a page; probes and metrics."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from html import escape
from http import HTTPStatus
from typing import Final, NamedTuple

_LIVE_PATH, _REPLICA_PATH, _METRICS_PATH = "/health/live", "/health/replica", "/metrics"
_HEALTH: Final = "/health/"
_JSON: Final = "application/json"
_HTML: Final = "text/html; charset=utf-8"
#: As the owner's, which the library of Prometheus writes.
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark; }}
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 3em auto; padding: 0 1em;
    overflow-wrap: anywhere; }}
  h1 {{ font-size: 1.4em; }}
</style>
<h1>{title}</h1>
<p>{owner}</p>
<p>{follows}</p>
"""


class StandbyFacts(NamedTuple):
    """What a standby tells clients of HTTP.

    ``owner`` is the name of the process that owns the queue manager, ``address`` its HOST:PORT for
    HTTP; both are None if that is not known. ``why`` is a text for people. ``is_following`` is True
    while the standby has all of the log. ``has_tls`` tells how to reach the owner. Pages of
    ``origins`` may read (CORS).
    """

    queue_manager: str
    owner: str | None
    address: str | None
    why: str
    is_following: bool
    has_tls: bool
    origins: Collection[str] = ()


def standby_answer(head: bytes, facts: StandbyFacts) -> bytes:
    """Return the whole answer of a standby to a request, of which ``head`` ends before its body.

    ``/health/live`` gets 200, ``/health/replica`` 200 while the standby could take over, and
    ``/metrics`` one metric. Others get 503 with the owner: as a page with a link for ``Accept:
    text/html``, else as JSON. Raises ValueError for a head that is not HTTP.
    """
    request, *lines = head.decode("latin-1").split("\r\n")
    _method, target, _version = request.split(" ", 2)
    path = target.split("?")[0]
    headers = {name.strip().lower(): value.strip() for name, _, value in _parted(lines)}
    status, media_type = HTTPStatus.SERVICE_UNAVAILABLE, _JSON
    body = json.dumps(_as_json(facts, path))
    if path == _LIVE_PATH or (path == _REPLICA_PATH and facts.is_following):
        status = HTTPStatus.OK
    elif path == _METRICS_PATH:
        status, media_type, body = HTTPStatus.OK, _METRICS, _metrics_of(facts)
    elif "text/html" in headers.get("accept", "") and not path.startswith(_HEALTH):
        media_type, body = _HTML, standby_page(facts)
    content = body.encode()
    answered = {
        "Content-Type": media_type,
        "Content-Length": len(content),
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Retry-After": 1,
        "Connection": "close",
        **_allowed(headers.get("origin", ""), facts.origins),
    }
    first = f"HTTP/1.1 {status.value} {status.phrase}"
    written = [first, *(f"{name}: {value}" for name, value in answered.items()), "", ""]
    return "\r\n".join(written).encode("latin-1") + content


def _parted(lines: list[str]) -> list[tuple[str, str, str]]:
    """Return name, colon and value of each line of a head."""
    return [line.partition(":") for line in lines if line]


def _allowed(origin: str, origins: Collection[str]) -> Mapping[str, str]:
    """Return the headers that let a page of another server of the fleet read the answer."""
    if origin not in origins:
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Credentials": "true",
        "Vary": "Origin",
    }


def _as_json(facts: StandbyFacts, path: str) -> dict[str, object]:
    """Return the answer to a program; to a probe with what the owner's probes have as well."""
    found: dict[str, object] = {
        "queue_manager": facts.queue_manager,
        "role": "standby",
        "owner": facts.owner,
        "address": facts.address,
        "detail": facts.why,
    }
    if path.startswith(_HEALTH):
        found |= {"queue_managers": {facts.queue_manager: "standby"}, "gone": []}
    return found


def _metrics_of(facts: StandbyFacts) -> str:
    """Return the metric of a standby; the names of queue managers need no escapes."""
    name = "mayfly_queue_manager_up"
    labels = f'queue_manager="{facts.queue_manager}",state="standby"'
    return f"# TYPE {name} gauge\n{name}{{{labels}}} 1.0\n"


def standby_page(facts: StandbyFacts) -> str:
    """Return the page for a browser: who owns the queue manager, with a link to its console."""
    name = escape(facts.queue_manager)
    if facts.owner is None:
        owner = f"Nobody owns {name} at the moment. Load this page again in some seconds."
    elif facts.address is None:
        owner = f"Its owner is {escape(facts.owner)}, which does not listen for HTTP."
    else:
        scheme = "https" if facts.has_tls else "http"
        place = escape(f"{scheme}://{facts.address}/console/")
        owner = f'Its owner is {escape(facts.owner)}:</p>\n<p><a href="{place}">{place}</a>'
    follows = (
        "This server has all that the owner has committed, and takes over when that is lost."
        if facts.is_following
        else "This server does not have all that the owner has committed yet."
    )
    return _PAGE.format(title=f"This is a standby of {name}", owner=owner, follows=follows)
