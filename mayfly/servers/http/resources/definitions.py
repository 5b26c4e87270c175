"""``…/definitions/{kind}/{name}``: the objects that MQSC defines, with the same attributes.

A change requires the ETag of the present definition, so that no operator overwrites another's
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from mayfly import admin
from mayfly.admin.events import Origin, commanded_by
from mayfly.admin.mqsc import export
from mayfly.admin.security.roles import Role
from mayfly.mqi.event_constants import MQEVO_REST
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.kinds import kind_of
from mayfly.servers.http.resources.mqsc import MqscCommand
from mayfly.servers.http.resources.operations import (
    IF_MATCH,
    MATCH_REQUIRED,
    OF_MANAGER,
    AfterName,
    Answered,
    Call,
    Next,
    NoQuery,
    Operation,
    check_put,
    check_required_match,
    etag_of,
    page_by_name,
)

_Attributes = Annotated[
    dict[str, int | str],
    Meta(description="by MQSC keyword in lower case; a value that has a word is that word"),
]


class DefinitionListing(Struct, forbid_unknown_fields=True):
    """Query parameters of the list of objects."""

    name: Annotated[str, Meta(description="a name, or the beginning of names before ``*``")] = "*"
    limit: Annotated[int, Meta(ge=1, le=10_000, description="the most entries of a page")] = 200
    after: AfterName = ""


class Deleting(Struct, forbid_unknown_fields=True):
    """Query parameters of a delete."""

    purge: Annotated[bool, Meta(description="a local queue goes with its messages")] = False


class DefinedObject(Struct):
    """One object: its attributes, and values of its status."""

    kind: Annotated[str, Meta(description="as in MQSC, in lower case")]
    name: str
    attributes: _Attributes
    status: Annotated[_Attributes, Meta(description="values that nobody sets, as curdepth")]


class Definitions(Struct):
    """Objects of one kind by name."""

    definitions: list[DefinedObject]
    next: Next


class NewDefinition(Struct, forbid_unknown_fields=True):
    """A new definition; a missing attribute is taken from the object ``like``, else its default."""

    attributes: _Attributes = {}
    like: Annotated[str, Meta(description="an object of the same kind that it is like")] = ""


class Altered(Struct, forbid_unknown_fields=True):
    """The attributes to change; all others stay."""

    attributes: _Attributes


class ForeseenChange(Struct, forbid_unknown_fields=True):
    """A change of an object that is not made: ``attributes`` are those that it would set."""

    action: Literal["define", "alter", "delete", "clear"]
    attributes: _Attributes = {}
    like: Annotated[str, Meta(description="of define: an object of the same kind")] = ""
    purge: Annotated[bool, Meta(description="of delete: a local queue goes with messages")] = False


def listed(call: Call[DefinitionListing, None]) -> Definitions:
    """List objects of one kind by name, with all their attributes.

    A page has at most ``limit`` objects; ``next`` is null on the last page. 404 for an unknown
    kind.
    """
    asked = call.query
    records = admin.inquire(call.manager.engine, [kind_of(call)], asked.name)
    page, following = page_by_name(
        ((record.name, record) for record in records), asked.limit, asked.after
    )
    return Definitions([_to_definition(record) for record in page], following)


def shown(call: Call[NoQuery, None]) -> Answered[DefinedObject]:
    """Show one object, with its ETag; 404 if it does not exist."""
    return _with_etag(_find_existing(call))


def put(call: Call[NoQuery, NewDefinition]) -> Answered[DefinedObject]:
    """Define an object (201), or replace one (200), which requires If-Match.

    An attribute that the body leaves out is taken from ``like``, else the default. Only a process,
    an AUTHINFO object or a channel that is replaced keeps it. With ``If-None-Match: *`` an existing
    object is never replaced (412). 428 without If-Match for an existing object, 412 for another
    ETag, 409 for the queue manager.
    """
    kind, engine = kind_of(call), call.manager.engine
    if kind == admin.QMGR:
        raise HttpError(HTTPStatus.CONFLICT, "a queue manager is altered, and never replaced")
    attributes = _typed(kind, call.body.attributes)
    with _commanded(call), admin.definitions_unchanged(engine):
        before = _find(call)
        check_put(call.request, None if before is None else _etag(before))
        admin.define(
            engine, kind, call.names["name"], attributes, like=call.body.like or None, replace=True
        )
        after = _find_existing(call)
    return _with_etag(after, HTTPStatus.CREATED if before is None else HTTPStatus.OK)


def altered(call: Call[NoQuery, Altered]) -> Answered[DefinedObject]:
    """Change attributes of an object: all of them, or none if one is wrong.

    404 if the object does not exist, 428 without If-Match, 412 for another ETag.
    """
    kind, engine = kind_of(call), call.manager.engine
    attributes = _typed(kind, call.body.attributes)
    with _commanded(call), admin.definitions_unchanged(engine):
        check_required_match(call.request, _etag(_find_existing(call)))
        admin.alter(engine, kind, call.names["name"], attributes)
        return _with_etag(_find_existing(call))


def deleted(call: Call[Deleting, None]) -> None:
    """Delete an object; a local queue that has messages only with ``purge=true``.

    404 if the object does not exist, 428 without If-Match, 412 for another ETag. 409 if the object
    is in use or not empty, and for the queue manager.
    """
    kind, engine = kind_of(call), call.manager.engine
    if kind == admin.QMGR:
        raise HttpError(HTTPStatus.CONFLICT, "a queue manager is not deleted by a request")
    with _commanded(call), admin.definitions_unchanged(engine):
        check_required_match(call.request, _etag(_find_existing(call)))
        admin.delete(engine, kind, call.names["name"], purge=call.query.purge)


def command(call: Call[NoQuery, ForeseenChange]) -> MqscCommand:
    """Show the MQSC that a change of an object would be; nothing is changed.

    Attributes are checked one by one. 400 for a wrong attribute or an action that the kind does not
    have, 404 to alter a typed object that does not exist.
    """
    kind, name, asked = kind_of(call), call.names["name"], call.body
    values = admin.checked_all(kind, _typed(kind, asked.attributes))
    match asked.action:
        case "alter":
            typed_by = admin.TYPED_BY.get(kind)
            if typed_by is not None:
                found = _find_existing(call).attributes
                values = {typed_by: found[typed_by.lower()], **values}
            text = export.alter_command(kind, name, values)
        case "clear":
            if kind != admin.QLOCAL:
                raise HttpError(HTTPStatus.BAD_REQUEST, f"action 'clear' is not for {kind.lower()}")
            text = export.clear_command(kind, name)
        case _ if kind == admin.QMGR:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"action {asked.action!r} is not for qmgr")
        case "define":
            text = export.define_command(kind, name, values, like=asked.like)
        case "delete":
            text = export.delete_command(kind, name, purge=asked.purge)
    return MqscCommand(text)


def _commanded(call: Call[Any, Any]) -> AbstractContextManager[None]:
    """Return a block whose configuration events name the user of a request."""
    return commanded_by(Origin(call.authenticated.admitted.user, MQEVO_REST))


def _find(call: Call[Any, Any]) -> DefinedObject | None:
    """Return the object in the path of a request; None if it does not exist."""
    kind, name = kind_of(call), call.names["name"]
    records = admin.inquire(call.manager.engine, [kind], name)
    return next((_to_definition(record) for record in records if record.name == name), None)


def _find_existing(call: Call[Any, Any]) -> DefinedObject:
    """Return the object in the path of a request; raises HttpError (404) if it is missing."""
    found = _find(call)
    if found is None:
        text = f"there is no {call.names['kind']} {call.names['name']!r}"
        raise HttpError(HTTPStatus.NOT_FOUND, text)
    return found


def _to_definition(record: admin.Record) -> DefinedObject:
    """Return an inquired object as the API shows it.

    ``attributes`` has those that can be set, ``status`` the others; numbers that have a word are
    shown as that word.
    """
    rows = admin.object_type(record.kind)
    shown = {
        keyword: admin.named(rows.row(keyword), value) for keyword, value in record.values.items()
    }
    return DefinedObject(
        record.kind.lower(),
        record.name,
        {key.lower(): value for key, value in shown.items() if key in rows.attributes},
        {key.lower(): value for key, value in shown.items() if key not in rows.attributes},
    )


def _with_etag(found: DefinedObject, status: HTTPStatus = HTTPStatus.OK) -> Answered[DefinedObject]:
    """Return an object as answer, with its ETag."""
    return Answered(found, {"ETag": _etag(found)}, status)


def _etag(found: DefinedObject) -> str:
    """Return the ETag of an object, made of its attributes, not of its status."""
    return etag_of((found.kind, found.name, found.attributes))


def _typed(kind: str, given: Mapping[str, int | str]) -> dict[str, admin.Value]:
    """Return attributes by upper-case keyword, with words as numbers: ``'yes'`` -> 1.

    An unknown keyword stays for a later check. Raises AdminError, which names attribute and value,
    for a word that the attribute does not have.
    """
    rows, typed = admin.object_type(kind).attributes, dict[str, admin.Value]()
    for key, value in given.items():
        keyword = admin.fold(key)
        row, found = rows.get(keyword), value
        if row is not None and not row.is_text and isinstance(value, str):
            number = admin.number_of(row, value)
            if number is None:
                text = f" is not right: it must be {admin.allowed(row)}"
                raise admin.WrongValue(row, value, text, shows_value=True)
            found = number
        typed[keyword] = found
    return typed


_PATH: Final = f"{OF_MANAGER}/definitions/{{kind}}"
_ONE: Final = f"{_PATH}/{{name}}"
_NONE: Final = {HTTPStatus.NOT_FOUND: "there is no such object, or no such kind"}
_CHANGED: Final = {
    **_NONE,
    **MATCH_REQUIRED,
    HTTPStatus.CONFLICT: "the state of the object does not allow it: in use, not empty, exists",
}
OPERATIONS: Final = (
    Operation("GET", _PATH, listed, Role.LOOK, problems=_NONE),
    Operation("GET", _ONE, shown, Role.LOOK, problems=_NONE, has_etag=True),
    Operation(
        "PUT",
        _ONE,
        put,
        Role.ADMINISTER,
        problems=_CHANGED,
        other_answers={HTTPStatus.CREATED: "The object, which is new."},
        headers={**IF_MATCH, "If-None-Match": "`*`: no object is replaced"},
        has_etag=True,
    ),
    Operation(
        "PATCH",
        _ONE,
        altered,
        Role.ADMINISTER,
        problems=_CHANGED,
        headers=IF_MATCH,
        has_etag=True,
    ),
    Operation("POST", f"{_ONE}/command", command, Role.LOOK, problems=_NONE),
    Operation(
        "DELETE",
        _ONE,
        deleted,
        Role.ADMINISTER,
        status=HTTPStatus.NO_CONTENT,
        problems=_CHANGED,
        headers=IF_MATCH,
    ),
)
