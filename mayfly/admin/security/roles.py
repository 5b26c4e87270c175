"""Roles of users that watch, operate or administer a queue manager, by their authority records."""

from __future__ import annotations

from enum import Enum

from mayfly.admin.security.applicant import Admitted
from mayfly.engine import Engine
from mayfly.engine.api.admission import (
    check_manager_authority,
    known_groups,
    manager_authorities,
    may_do_everything,
)
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


class Role(Enum):
    """A right of users to watch or manage a queue manager; the value is its name in HTTP.

    LOOK needs DSP on the queue manager. OPERATE needs CHG, and includes LOOK. ADMINISTER includes
    all; members of mqm, the user who has opened the queue manager, and holders of the operator's
    token have it. Other users need an authority record also with AUTHCHK(NONE).
    """

    LOOK = "look"
    OPERATE = "operate"
    ADMINISTER = "administer"


#: The authority on the queue manager that makes a role.
AUTHORITY_OF_ROLE = {Role.LOOK: "DSP", Role.OPERATE: "CHG"}


def admitted_as(manager: Engine, user: str) -> Admitted:
    """Return the user in whose name a message was put, with the groups known now.

    An administrator, and the user who opened the queue manager, is an operator; the empty name is a
    user without rights.
    """
    groups = known_groups(manager, user)
    is_operator = may_do_everything(manager, user, groups)
    return Admitted(user=user, groups=groups, is_operator=is_operator)


def roles_of(manager: Engine, admitted: Admitted) -> tuple[Role, ...]:
    """Return the roles of an admitted user, lowest first; empty if the user has no role."""
    if admitted.is_operator:
        return tuple(Role)
    found = manager_authorities(manager, admitted.user, admitted.groups)
    if AUTHORITY_OF_ROLE[Role.OPERATE] in found:
        return Role.LOOK, Role.OPERATE
    return (Role.LOOK,) if AUTHORITY_OF_ROLE[Role.LOOK] in found else ()


def check_role(manager: Engine, admitted: Admitted, role: Role) -> None:
    """Raise MQRC_NOT_AUTHORIZED unless a user has ``role``, and CONNECT on the queue manager.

    ``admitted`` is the user's connection. The error text names the missing authority. An operator
    always passes.
    """
    if admitted.is_operator:
        return
    found = roles_of(manager, admitted)
    word = AUTHORITY_OF_ROLE.get(found[-1] if role in found else role)
    if word is None:
        text = f"user {admitted.user!r} is no administrator: a member of mqm, or the opener"
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, text)
    check_manager_authority(manager, admitted.user, admitted.groups, word)
