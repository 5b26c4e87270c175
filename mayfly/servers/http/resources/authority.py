"""``…/authority-records``: authority of users and groups over objects (docs/SECURITY.md)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from mayfly import admin
from mayfly.admin.mqsc.export import delete_authority_command, set_authority_command
from mayfly.admin.security.roles import Role
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.mqsc import MqscCommand
from mayfly.servers.http.resources.operations import (
    IF_MATCH,
    MATCH_PROBLEMS,
    MATCH_REQUIRED,
    OF_MANAGER,
    AfterName,
    Answered,
    Call,
    Next,
    NoQuery,
    Operation,
    check_match,
    check_put,
    check_required_match,
    etag_of,
    page_by_name,
)

_Type = Annotated[str, Meta(description="as OBJTYPE in MQSC, in lower case: queue, qmgr, topic …")]
_Kind = Annotated[str, Meta(description="principal or group")]
_Words = Annotated[
    list[str], Meta(description="authorities as in MQSC: GET, PUT, ALLMQI, ALLADM, ALL, NONE …")
]
_NO_AUTHORITY: Final = "NONE"


class AuthorityListing(Struct, forbid_unknown_fields=True):
    """Query parameters of the list of records; a record must match all of them."""

    object_type: _Type | None = None
    profile: Annotated[
        str | None, Meta(description="a name or profile; records that match it are found too")
    ] = None
    principal: Annotated[str | None, Meta(description="a user")] = None
    group: Annotated[str | None, Meta(description="a group")] = None
    match: Annotated[
        Literal["profile", "membership", "exact"],
        Meta(description="membership: also records of the user's groups; exact: that profile"),
    ] = "profile"
    limit: Annotated[int, Meta(ge=1, le=10_000, description="the most entries of a page")] = 200
    after: AfterName = ""


class AuthorityRecord(Struct):
    """An authority record: the rights of a user or group on the objects that a profile matches."""

    object_type: _Type
    profile: Annotated[str, Meta(description="a name, or one with ? * **; SELF of qmgr")]
    entity_kind: _Kind
    entity: Annotated[str, Meta(description="name of the user or group")]
    authorities: _Words


class AuthorityRecordPage(Struct):
    """Authority records by type, profile and entity."""

    records: list[AuthorityRecord]
    next: Next


class Authorities(Struct, forbid_unknown_fields=True):
    """The body of a PUT: all authorities that a record gives afterwards."""

    authorities: _Words


class AlteredAuthorities(Struct, forbid_unknown_fields=True):
    """Authorities to add to a record, and to remove from it."""

    add: _Words = []
    remove: _Words = []


class Asked(Struct, forbid_unknown_fields=True):
    """The query for granted authority: an object, and a user or group."""

    object_type: _Type
    name: Annotated[str, Meta(description="the name of an object; of qmgr it is not looked at")]
    principal: Annotated[str | None, Meta(description="a user, whose groups count as well")] = None
    group: Annotated[str | None, Meta(description="a group")] = None


class Granted(Struct):
    """All authorities of a user or group over an object, from all records together."""

    object_type: _Type
    name: str
    entity_kind: _Kind
    entity: str
    authorities: _Words


class ForeseenRecord(Struct, forbid_unknown_fields=True):
    """A change of a record that is not made: all authorities that it would have afterwards."""

    authorities: _Words = []
    deletes: Annotated[bool, Meta(description="the record would go")] = False


class AuthorityWords(Struct):
    """The authorities that each type of object has."""

    object_types: Annotated[
        dict[str, list[str]], Meta(description="by type in lower case; ALL, ALLMQI … last")
    ]


def words(_call: Call[NoQuery, None]) -> AuthorityWords:
    """List the authorities of each type of object, as SET AUTHREC knows them."""
    return AuthorityWords(
        {each.lower(): list(admin.authorities_of(each)) for each in admin.OBJECT_TYPES}
    )


def listed(call: Call[AuthorityListing, None]) -> AuthorityRecordPage:
    """List the authority records that match all parameters, by type, profile and entity.

    A page has at most ``limit`` records; ``next`` is null on the last page.
    """
    asked = call.query
    object_type = None if asked.object_type is None else _object_type(asked.object_type)
    entities = _entities(asked.principal, asked.group)
    found = admin.inquire_authority(
        call.manager.engine,
        entities,
        profile=asked.profile,
        object_type=object_type,
        match=asked.match.upper(),
    )
    named = (
        (f"{one.object_type} {one.profile} {one.entity_kind} {one.entity}", one)
        for one in map(_to_record, found)
    )
    page, following = page_by_name(named, asked.limit, asked.after)
    return AuthorityRecordPage(page, following)


def granted(call: Call[Asked, None]) -> Granted:
    """Show all authorities of a user or group over one object, from all records together.

    The list is empty without any. 400 if neither a user nor a group is named, or both.
    """
    asked = call.query
    object_type = _object_type(asked.object_type)
    entities = _entities(asked.principal, asked.group)
    if not entities:
        raise HttpError(HTTPStatus.BAD_REQUEST, "principal and group are missing")
    name = admin.SELF if object_type == admin.QMGR else asked.name
    found = admin.inquire_entity(call.manager.engine, entities[0], object_type, name)
    kind, entity = entities[0]
    return Granted(object_type.lower(), name, kind.lower(), entity, _authorities_of(found))


def shown(call: Call[NoQuery, None]) -> Answered[AuthorityRecord]:
    """Show one authority record, with its ETag; 404 if it does not exist."""
    return _with_etag(_find_existing(call, _key(call)))


def put(call: Call[NoQuery, Authorities]) -> Answered[AuthorityRecord]:
    """Create a record (201), or replace one (200), which requires If-Match.

    A queue manager checks authority as soon as it has its first record. 428 without If-Match for an
    existing record, 412 for another ETag, 400 for an unknown authority.
    """
    key, engine = _key(call), call.manager.engine
    wanted = _folded(call.body.authorities)
    with admin.definitions_unchanged(engine):
        before = _find(call, key)
        check_put(call.request, None if before is None else etag_of(before))
        kept = _expanded(key.object_type, wanted)
        gone = set() if before is None else set(before.authorities) - kept
        admin.set_authority(
            engine, key.object_type, key.profile, [key.entity], add=wanted, remove=gone
        )
        after = _find_existing(call, key)
    return _with_etag(after, HTTPStatus.CREATED if before is None else HTTPStatus.OK)


def altered(call: Call[NoQuery, AlteredAuthorities]) -> Answered[AuthorityRecord]:
    """Add authorities to a record and remove some, as SET AUTHREC; a missing record is created.

    412 if If-Match names another ETag, 400 for an unknown authority.
    """
    key, engine = _key(call), call.manager.engine
    add, remove = _folded(call.body.add), _folded(call.body.remove)
    with admin.definitions_unchanged(engine):
        before = _find(call, key)
        check_match(call.request, None if before is None else etag_of(before))
        admin.set_authority(
            engine, key.object_type, key.profile, [key.entity], add=add, remove=remove
        )
        return _with_etag(_find_existing(call, key))


def deleted(call: Call[NoQuery, None]) -> None:
    """Delete a record; authorities from other records stay.

    404 if the record does not exist, 428 without If-Match, 412 for another ETag.
    """
    key, engine = _key(call), call.manager.engine
    with admin.definitions_unchanged(engine):
        check_required_match(call.request, etag_of(_find_existing(call, key)))
        admin.delete_authority(engine, key)


def command(call: Call[NoQuery, ForeseenRecord]) -> MqscCommand:
    """Show the MQSC that a change of a record would be; nothing is changed.

    The record may exist: then it is the difference. 400 for an unknown authority.
    """
    key = _key(call)
    admin.check_profile(key.profile)
    admin.check_entity(key.entity)
    if call.body.deletes:
        return MqscCommand(delete_authority_command(key))
    wanted = _folded(call.body.authorities)
    known = admin.authorities_of(key.object_type)
    for word in wanted:
        if word not in known:
            text = f"{word} is no authority of {key.object_type}, which has {', '.join(known)}"
            raise HttpError(HTTPStatus.BAD_REQUEST, text, attribute="authorities", value=word)
    before = _find(call, key)
    gone = set() if before is None else set(before.authorities) - _expanded(key.object_type, wanted)
    return MqscCommand(set_authority_command(key, wanted or [_NO_AUTHORITY], sorted(gone)))


def _key(call: Call[Any, Any]) -> admin.AuthorityKey:
    """Return the record key in the path of a request.

    Raises HttpError (404) for an unknown object type or entity kind.
    """
    names = call.names
    kind = {"principal": admin.PRINCIPAL, "group": admin.GROUP}.get(names["entity_kind"])
    if kind is None:
        text = f"{names['entity_kind']!r} is neither principal nor group"
        raise HttpError(HTTPStatus.NOT_FOUND, text)
    object_type = _object_type(names["object_type"], HTTPStatus.NOT_FOUND)
    return admin.AuthorityKey(object_type, names["profile"], admin.Entity(kind, names["entity"]))


def _object_type(given: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> str:
    """Return an object type in capitals: ``'queue'`` -> ``'QUEUE'``.

    Raises HttpError with ``status`` for an unknown type.
    """
    known = {object_type.lower(): object_type for object_type in admin.OBJECT_TYPES}
    if given not in known:
        raise HttpError(status, f"object_type {given!r} is none of {', '.join(known)}")
    return known[given]


def _entities(principal: str | None, group: str | None) -> list[admin.Entity]:
    """Return the user (``principal``) or group of a query in a list, [] for neither.

    Raises HttpError (400) for both.
    """
    if principal is not None and group is not None:
        raise HttpError(HTTPStatus.BAD_REQUEST, f"group {group!r} contradicts principal")
    given = ((admin.PRINCIPAL, principal), (admin.GROUP, group))
    return [admin.Entity(kind, name) for kind, name in given if name is not None]


def _find(call: Call[Any, Any], key: admin.AuthorityKey) -> AuthorityRecord | None:
    """Return the record with a key; None if it does not exist."""
    records = admin.inquire_authority(
        call.manager.engine,
        [key.entity],
        profile=key.profile,
        object_type=key.object_type,
        match="EXACT",
    )
    return _to_record(records[0]) if records else None


def _find_existing(call: Call[Any, Any], key: admin.AuthorityKey) -> AuthorityRecord:
    """Return the record with a key; raises HttpError (404) if it does not exist."""
    found = _find(call, key)
    if found is None:
        text = f"there is no such record of {call.names['entity_kind']} {call.names['entity']!r}"
        raise HttpError(HTTPStatus.NOT_FOUND, text)
    return found


def _to_record(record: admin.Record) -> AuthorityRecord:
    """Return an AUTHREC record as the API shows it."""
    values = record.values
    return AuthorityRecord(
        str(values["OBJTYPE"]).lower(),
        str(values["PROFILE"]),
        str(values["ENTTYPE"]).lower(),
        str(values["ENTITY"]),
        _authorities_of(record),
    )


def _authorities_of(record: admin.Record) -> list[str]:
    """Return the authorities in an AUTHREC or ENTAUTH record as a list; [] for NONE."""
    return [word for word in str(record.values["AUTHLIST"]).split(",") if word != _NO_AUTHORITY]


def _folded(words: list[str]) -> list[str]:
    """Return words in upper case (ASCII letters only)."""
    return [admin.fold(word) for word in words]


def _expanded(object_type: str, words: list[str]) -> set[str]:
    """Return authorities one by one: ALL, ALLMQI and ALLADM become the authorities in them.

    Unknown words are left out.
    """
    known = admin.authorities_of(object_type)
    bits = 0
    for word in words:
        bits |= known.get(word, 0)
    return {word for word, bit in known.items() if bit and bits & bit == bit}


def _with_etag(
    found: AuthorityRecord, status: HTTPStatus = HTTPStatus.OK
) -> Answered[AuthorityRecord]:
    """Return a record as answer, with its ETag."""
    return Answered(found, {"ETag": etag_of(found)}, status)


_PATH: Final = f"{OF_MANAGER}/authority-records"
_ONE: Final = f"{_PATH}/{{object_type}}/{{profile}}/{{entity_kind}}/{{entity}}"
_NONE: Final = {HTTPStatus.NOT_FOUND: "there is no such record, or type of object"}
_MADE: Final = {**_NONE, **MATCH_REQUIRED, HTTPStatus.CONFLICT: "the type of object has no records"}
OPERATIONS: Final = (
    Operation("GET", _PATH, listed, Role.ADMINISTER),
    Operation("GET", f"{OF_MANAGER}/authority", granted, Role.ADMINISTER),
    Operation("GET", f"{OF_MANAGER}/authorities", words, Role.ADMINISTER),
    Operation("POST", f"{_ONE}/command", command, Role.ADMINISTER, problems=_NONE),
    Operation("GET", _ONE, shown, Role.ADMINISTER, problems=_NONE, has_etag=True),
    Operation(
        "PUT",
        _ONE,
        put,
        Role.ADMINISTER,
        problems=_MADE,
        other_answers={HTTPStatus.CREATED: "The record, which is new."},
        headers=IF_MATCH,
        has_etag=True,
    ),
    Operation(
        "PATCH",
        _ONE,
        altered,
        Role.ADMINISTER,
        problems={**_NONE, **MATCH_PROBLEMS, HTTPStatus.CONFLICT: _MADE[HTTPStatus.CONFLICT]},
        headers=IF_MATCH,
        has_etag=True,
    ),
    Operation(
        "DELETE",
        _ONE,
        deleted,
        Role.ADMINISTER,
        status=HTTPStatus.NO_CONTENT,
        problems={**_NONE, **MATCH_REQUIRED},
        headers=IF_MATCH,
    ),
)
