"""``…/users``: the users of a queue manager and their groups; answers never show a password."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from mayfly.admin.security.applicant import is_administrator
from mayfly.admin.security.roles import Role
from mayfly.admin.security.users import User, Users, users_of
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.resources.operations import (
    IF_MATCH,
    MATCH_REQUIRED,
    OF_MANAGER,
    SECRET,
    AfterName,
    Answered,
    Call,
    Next,
    NoQuery,
    Operation,
    check_match,
    check_required_match,
    etag_of,
    page_by_name,
)

_LOG = logging.getLogger("mayfly.security")
_Password = Annotated[str, Meta(description="1 to 1,024 bytes in UTF-8", extra=SECRET)]
_Groups = Annotated[list[str], Meta(description="1 to 64 characters of A-Z a-z 0-9 . _ @ - each")]


class UserListing(Struct, forbid_unknown_fields=True):
    """Query parameters of the list of users."""

    limit: Annotated[int, Meta(ge=1, le=10_000, description="the most entries of a page")] = 200
    after: AfterName = ""


class ShownUser(Struct):
    """A user, without the password."""

    name: str
    groups: list[str]
    is_administrator: Annotated[
        bool, Meta(description="of group mqm, or the opener of the queue manager")
    ]


class UserList(Struct):
    """Users by name."""

    users: list[ShownUser]
    next: Next


class NewUser(Struct, forbid_unknown_fields=True):
    """The password and the groups of a user."""

    password: _Password
    groups: _Groups = []


class AlteredUser(Struct, forbid_unknown_fields=True):
    """A change of a user; a missing field stays as it is."""

    password: _Password | UnsetType = UNSET
    groups: _Groups | UnsetType = UNSET


def listed(call: Call[UserListing, None]) -> UserList:
    """List the users by name.

    A page has at most ``limit`` users; ``next`` is null on the last page.
    """
    asked, found = call.query, _users(call).all()
    page, following = page_by_name(((one.name, one) for one in found), asked.limit, asked.after)
    return UserList([_to_user(call, one) for one in page], following)


def shown(call: Call[NoQuery, None]) -> Answered[ShownUser]:
    """Show a user, with its ETag, which changes with the groups; 404 for an unknown user."""
    found = _users(call).find(call.names["user"])
    if found is None:
        raise HttpError(HTTPStatus.NOT_FOUND, f"there is no user {call.names['user']!r}")
    return _with_etag(call, HTTPStatus.OK)


def put(call: Call[NoQuery, NewUser]) -> Answered[ShownUser]:
    """Add a user (201), or replace one's password and groups (200), which requires If-Match.

    428 without If-Match for an existing user, 412 for another ETag, 400 for an invalid name,
    password or group.
    """
    users, name = _users(call), call.names["user"]
    is_new = users.find(name) is None
    if is_new:
        check_match(call.request, None)
        _apply(lambda: users.add(name, call.body.password, call.body.groups))
    else:
        _change(call, password=call.body.password, groups=call.body.groups)
    _log_change(call, "added" if is_new else "replaced")
    return _with_etag(call, HTTPStatus.CREATED if is_new else HTTPStatus.OK)


def altered(call: Call[NoQuery, AlteredUser]) -> Answered[ShownUser]:
    """Change the password or the groups of a user.

    A new password takes effect at once: logins with the old one end. New groups apply to
    connections that are opened from now on. 404 for an unknown user, 428 without If-Match, 412 for
    another ETag.
    """
    given = {name: getattr(call.body, name) for name in call.body.__struct_fields__}
    _change(call, **{name: value for name, value in given.items() if value is not UNSET})
    _log_change(call, "altered")
    return _with_etag(call, HTTPStatus.OK)


def deleted(call: Call[NoQuery, None]) -> None:
    """Remove a user; connections that are open stay open.

    404 for an unknown user, 428 without If-Match, 412 for another ETag.
    """
    _users(call).remove(call.names["user"], check=_match_check(call))
    _log_change(call, "removed")


def _change(call: Call[Any, Any], **changes: Any) -> None:
    """Change password or groups of the user in the path, if If-Match is right.

    Raises HttpError (412, 428, 400), and MQRC_UNKNOWN_OBJECT_NAME for an unknown user.
    """
    name, check = call.names["user"], _match_check(call)
    _apply(lambda: _users(call).change(name, **changes, check=check))


def _match_check(call: Call[Any, Any]) -> Callable[[User], None]:
    """Return a function that raises HttpError (412, 428) unless If-Match is a user's ETag."""
    return lambda before: check_required_match(call.request, _etag(before))


def _apply(change: Callable[[], None]) -> None:
    """Call ``change``; its ValueError, for an invalid name, password or group, becomes a 400."""
    try:
        change()
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from error


def _users(call: Call[Any, Any]) -> Users:
    """Return the users of the queue manager in the path."""
    return users_of(call.manager.engine)


def _to_user(call: Call[Any, Any], found: User) -> ShownUser:
    """Return a user as the API shows it, without the password."""
    is_admin = is_administrator(call.manager.engine, found)
    return ShownUser(found.name, list(found.groups), is_admin)


def _with_etag(call: Call[Any, Any], status: HTTPStatus) -> Answered[ShownUser]:
    """Return the present state of the user in the path, with its ETag.

    A user who was removed meanwhile is shown without groups.
    """
    name = call.names["user"]
    # Somebody may have removed it meanwhile; then the answer shows it without groups.
    found = _users(call).find(name) or User(name)
    return Answered(_to_user(call, found), {"ETag": _etag(found)}, status)


def _etag(found: User) -> str:
    """Return the ETag of a user, made of name and groups."""
    return etag_of((found.name, found.groups))


def _log_change(call: Call[Any, Any], what: str) -> None:
    """Log that a user was changed (``what`` says how), and by which administrator."""
    manager, user = call.manager.name, call.names["user"]
    _LOG.info("%s: user %s was %s by %s", manager, user, what, call.authenticated.admitted.user)


_PATH: Final = f"{OF_MANAGER}/users"
_ONE: Final = f"{_PATH}/{{user}}"
_NONE: Final = {HTTPStatus.NOT_FOUND: "there is no such user"}
_CHANGED: Final = {**_NONE, **MATCH_REQUIRED}
OPERATIONS: Final = (
    Operation("GET", _PATH, listed, Role.ADMINISTER),
    Operation("GET", _ONE, shown, Role.ADMINISTER, problems=_NONE, has_etag=True),
    Operation(
        "PUT",
        _ONE,
        put,
        Role.ADMINISTER,
        problems={**_CHANGED, HTTPStatus.CONFLICT: "somebody else has just added this user"},
        other_answers={HTTPStatus.CREATED: "The user, who is new."},
        headers=IF_MATCH,
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
