"""A dead letter is put where a rule says, and taken off its queue, in one unit of work."""

from __future__ import annotations

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import mq_error
from mayfly.services.dead_letter.dead_letters import DeadLetter
from mayfly.services.dead_letter.rules import Action, Rule

_TAKE = c.MQGMO_SYNCPOINT | c.MQGMO_MSG_UNDER_CURSOR


def carry_out(connection: Connection, letters: int, rule: Rule, letter: DeadLetter) -> int:
    """Do what a rule says to the letter under the cursor and commit.

    Returns a number above which the arrival numbers of letters are that come later; 0 when the
    letter was discarded. Raises what the put, the get or the commit does, and the caller backs out
    then; MQRC_NO_MSG_UNDER_CURSOR when the letter has expired or was taken by somebody else.
    """
    arrival_number = 0
    if rule.action is Action.DISCARD:
        connection.get(letters, _TAKE)
    else:
        arrival_number = _move(connection, letters, rule, letter)
    connection.commit()
    return arrival_number


def _move(connection: Connection, letters: int, rule: Rule, letter: DeadLetter) -> int:
    queue, manager = rule.destination(letter)
    if not queue:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, "the letter names no queue")
    is_elsewhere = manager not in ("", connection.name)
    if letter.reason == rc.MQRC_HEADER_ERROR and not is_elsewhere:
        _check_not_staging(connection, queue)
    is_stripped = rule.action is Action.RETRY or not rule.keeps_header
    return connection.onward.move(
        letters,
        f"{queue}@{manager}" if is_elsewhere else queue,
        descriptor=letter.original if is_stripped else None,
        header_bytes=len(letter.message.body) - len(letter.data) if is_stripped else 0,
        putter=letter.original.user_identifier if rule.puts_as_user else None,
    )


def _check_not_staging(connection: Connection, queue: str) -> None:
    """Refuse the staging queue, whose delay processor would give the letter back for ever."""
    opened = connection.open(queue, c.MQOO_OUTPUT, dynamic_name="")
    connection.close_object(opened.handle)
    if opened.queue == STAGING_QUEUE:
        raise mq_error(rc.MQRC_HEADER_ERROR, f"{queue} has refused the delay header before")
