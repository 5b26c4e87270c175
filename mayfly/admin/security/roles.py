"""Roles of users who watch, operate or administer a queue manager, by their authority records."""

from __future__ import annotations

from enum import Enum

from mayfly.admin.security.applicant import Admitted
from mayfly.engine import Engine
from mayfly.engine.api.admission import check_manager_authority, manager_authorities
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error


class Role(Enum):
    """The rights of a user beside putting and getting messages; a value is the word of the role.

    LOOK needs DSP on the queue manager. OPERATE needs CHG on it, and includes LOOK. ADMINISTER is
    for members of mqm, the opener of the queue manager and the bearer of the operator's token, who
    may do all. Other users need an authority record also with AUTHCHK(NONE).
    """

    LOOK = "look"
    OPERATE = "operate"
    ADMINISTER = "administer"


#: The authority on the queue manager that makes a role.
AUTHORITY_OF_ROLE = {Role.LOOK: "DSP", Role.OPERATE: "CHG"}


def roles_of(manager: Engine, admitted: Admitted) -> tuple[Role, ...]:
    """Return the roles of a user who was admitted, none for a program."""
    if admitted.is_operator:
        return tuple(Role)
    found = manager_authorities(manager, admitted.user, admitted.groups)
    if AUTHORITY_OF_ROLE[Role.OPERATE] in found:
        return Role.LOOK, Role.OPERATE
    return (Role.LOOK,) if AUTHORITY_OF_ROLE[Role.LOOK] in found else ()


def check_role(manager: Engine, admitted: Admitted, role: Role) -> None:
    """Raise MQRC_NOT_AUTHORIZED, with the authority that is missing, for a user without a role."""
    if admitted.is_operator:
        return
    found = roles_of(manager, admitted)
    word = AUTHORITY_OF_ROLE.get(found[-1] if role in found else role)
    if word is None:
        text = f"user {admitted.user!r} is no administrator: a member of mqm, or the opener"
        raise mq_error(rc.MQRC_NOT_AUTHORIZED, text)
    check_manager_authority(manager, admitted.user, admitted.groups, word)
