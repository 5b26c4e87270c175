"""``…/mqsc``: MQSC as on the terminal of ``mayfly mqsc``: replies, help, and completion."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from mayfly.admin.events import Origin, commanded_by
from mayfly.admin.mqsc.commands import heads_of, role_of
from mayfly.admin.mqsc.completion import completion, has_secret, help_asked
from mayfly.admin.security.roles import Role, check_role
from mayfly.client.connection import Administration
from mayfly.mqi.event_constants import MQEVO_REST
from mayfly.queue_manager import QueueManager
from mayfly.servers.http.resources.operations import OF_MANAGER, Call, NoQuery, Operation
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


_LONGEST_TYPED: Final = 4_096


class MqscCommand(Struct):
    """A command in MQSC."""

    command: Annotated[str, Meta(description="with + at the end of lines that go on; no secrets")]


class Script(Struct, forbid_unknown_fields=True):
    """MQSC commands, or ``HELP``."""

    script: Annotated[str, Meta(description="commands, one in each line unless + or - continues")]


class Transcript(Struct):
    """The output of ``mayfly mqsc`` for a script."""

    text: Annotated[str, Meta(description="each command with its replies, and how many failed")]
    ok: Annotated[bool, Meta(description="whether every command was carried out")]
    is_valid: Annotated[bool, Meta(description="whether no command has a syntax error")]
    has_secret: Annotated[
        bool, Meta(description="whether it names an attribute that is a secret: do not keep it")
    ]


class TypedText(Struct, forbid_unknown_fields=True):
    """Query parameters of a completion."""

    typed: Annotated[
        str, Meta(max_length=_LONGEST_TYPED, description="the script up to the cursor")
    ] = ""


class Words(Struct):
    """The word that is being typed, and what it may become."""

    word: Annotated[str, Meta(description="the letters of it so far; empty before the first")]
    candidates: Annotated[list[str], Meta(description="empty where any text may follow")]


def run(call: Call[NoQuery, Script]) -> Transcript:
    """Run MQSC commands, and answer as ``mayfly mqsc`` does; 200 even if a command fails.

    ``HELP``, ``HELP DEFINE`` and ``HELP DEFINE QLOCAL`` are answered with help. DISPLAY and PING
    need the role that may look, operations of channels that may operate, all others an
    administrator: 403 if it is missing for one of the commands, and none is run.
    """
    script = call.body.script
    told = help_asked(script)
    if told is not None:
        return Transcript(f"{told}\n", ok=True, is_valid=True, has_secret=False)
    result = run_script(call.manager, call.authenticated, script)
    is_valid = all(each.is_valid for each in result.commands)
    return Transcript(result.text, result.ok, is_valid, has_secret(script))


def words(call: Call[TypedText, None]) -> Words:
    """List the words by which the last word of a script that is being typed may go on.

    They are verbs, kinds of objects, keywords that are not there yet, and words that are values.
    """
    found = completion(call.query.typed)
    return Words(found.word, found.candidates)


_PATH: Final = f"{OF_MANAGER}/mqsc"
OPERATIONS: Final = (
    Operation("POST", _PATH, run, Role.LOOK),
    Operation("GET", f"{_PATH}/words", words, Role.LOOK),
)
