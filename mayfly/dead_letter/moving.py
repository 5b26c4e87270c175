"""A dead letter is put where a rule says, and taken off its queue, in one unit of work."""

from __future__ import annotations

from mayfly.dead_letter.dead_letters import DeadLetter
from mayfly.dead_letter.rules import Action, Rule
from mayfly.engine import (
    GetRequest,
    Handle,
    Manager,
    Session,
    check_putter,
    forward,
    full_name,
    target_queue,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

_TAKE = c.MQGMO_SYNCPOINT | c.MQGMO_MSG_UNDER_CURSOR


def carry_out(
    manager: Manager, session: Session, letters: Handle, rule: Rule, letter: DeadLetter
) -> None:
    """Do what a rule says to the letter under the cursor and commit.

    The letter is put before it is taken, so that a put that fails raises no backout count; the
    caller backs out then. Raises what the put, the get or the commit does;
    MQRC_NO_MSG_UNDER_CURSOR when the letter has expired or was taken by somebody else.
    """
    if rule.action is not Action.DISCARD:
        _put(manager, session, letters, rule, letter)
    letters.get(GetRequest(), _TAKE)
    session.commit()


def _put(
    manager: Manager, session: Session, letters: Handle, rule: Rule, letter: DeadLetter
) -> None:
    queue, manager_name = rule.destination(letter)
    if not queue:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, "the letter names no queue")
    name = full_name(queue, manager_name, manager.name)
    if rule.puts_as_user:
        check_putter(manager, letter.original.user_identifier, name)
    target = target_queue(manager, name)
    if target is letters.queue:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{name} is the queue the letter comes from")
    if target.is_staging and letter.reason == rc.MQRC_HEADER_ERROR:
        # The delay processor would give it back at once, and for ever.
        raise mq_error(rc.MQRC_HEADER_ERROR, f"{name} has refused the delay header before")
    is_stripped = rule.action is Action.RETRY or not rule.keeps_header
    changed = (letter.original, letter.data) if is_stripped else None
    forward(manager, session, name, letter.message, changed)
