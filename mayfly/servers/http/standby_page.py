"""The page for a browser at a server without an open queue manager: where their owners are."""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from mayfly.servers.managers import ManagerTable

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
  h2 {{ font-size: 1.1em; }}
</style>
<h1>{title}</h1>
{managers}
"""
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Retry-After": "1",
}


def standby_page(managers: ManagerTable, scheme: str) -> Response:
    """Return the page, with status 503: the owner of each queue manager, and a link to its console.

    ``scheme`` is that by which the client came, and so that of the owner: ``http`` or ``https``.
    """
    names = managers.names
    parts = []
    for name in names:
        if len(names) > 1:
            parts.append(f"<h2>{escape(name)}</h2>")
        parts += [f"<p>{each}</p>" for each in _phrases(managers, name, scheme)]
    title = escape(f"This is a standby of {', '.join(names)}")
    page = _PAGE.format(title=title, managers="\n".join(parts))
    return Response(page, HTTPStatus.SERVICE_UNAVAILABLE, _HEADERS, media_type="text/html")


def _phrases(managers: ManagerTable, name: str, scheme: str) -> list[str]:
    """Return the paragraphs about one queue manager, in HTML."""
    if managers.has_failed(name):
        return [f"{escape(name)} is served no more here. The log of this server says why."]
    owner = managers.owner_of(name)
    if owner is None or not owner.name:
        nobody = f"Nobody is known to own {escape(name)} at the moment."
        found = [f"{nobody} Load this page again in some seconds."]
    elif (address := owner.address("http")) is None:
        found = [f"Its owner is {escape(owner.name)}, which does not listen for HTTP."]
    else:
        console = f"{scheme}://{address}/console/"
        link = escape(f"{console}#/overview?qmgr={quote(name, '')}")
        found = [
            f"Its owner is {escape(owner.name)}:",
            f'<a href="{link}">{escape(console)}</a>',
        ]
    follows = (
        "This server has all that the owner has committed, and takes over when that is lost."
        if managers.is_following(name)
        else "This server does not have all that the owner has committed yet."
    )
    return [*found, follows]
