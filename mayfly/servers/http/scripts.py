"""MQSC scripts of HTTP requests: the roles that their commands need, and their run."""

from __future__ import annotations

from mayfly.admin.events import Origin, commanded_by
from mayfly.admin.mqsc.commands import heads_of, role_of
from mayfly.admin.security.roles import Role, check_role
from mayfly.client.connection import Administration
from mayfly.mqi.event_constants import MQEVO_REST
from mayfly.queue_manager import QueueManager
from mayfly.servers.http.service import AuthenticatedUser
from mayfly.verbs.facts import MqscResult


def run_script(manager: QueueManager, authenticated: AuthenticatedUser, script: str) -> MqscResult:
    """Run MQSC commands under the name of a user, and return their replies.

    DISPLAY and PING need the role that may look. START, STOP, RESET and RESOLVE of channels, START
    and STOP of listeners and services, and STOP CONN need the role that may operate; all other
    commands need an administrator. Runs in a thread. Raises MQRC_NOT_AUTHORIZED, before any
    command is run, if the role is missing for one of them.
    """
    for role in {role_of(*head) for head in heads_of(script)} or {Role.LOOK}:
        check_role(manager.engine, authenticated.admitted, role)
    origin = Origin(authenticated.admitted.user, MQEVO_REST)
    with commanded_by(origin), authenticated.operating_connection() as connection:
        return Administration(connection.call).mqsc(script)
