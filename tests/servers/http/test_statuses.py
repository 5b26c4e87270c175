"""The status of each reason code: one table for IBM's resources and our own."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import ERROR_CLASSES, InhibitedError, LostAnswer, mq_error
from mayfly.servers.http import problems
from mayfly.servers.http.problems import status_of
from mayfly.servers.http.rest.calls import of_mq_error

#: The queue manager has failed, or what it has done is not known.
FAILURES = {rc.MQRC_UNEXPECTED_ERROR, rc.MQRC_OBJECT_DAMAGED}
#: Reasons that say that a name leads nowhere, or that something has gone.
MISSING = {
    rc.MQRC_NO_MSG_AVAILABLE,
    rc.MQRC_NO_MSG_UNDER_CURSOR,
    rc.MQRC_NO_RETAINED_MSG,
    rc.MQRC_NO_SUBSCRIPTION,
    rc.MQRC_Q_DELETED,
    rc.MQRC_Q_MGR_NAME_ERROR,
    rc.MQRC_UNKNOWN_ALIAS_BASE_Q,
    rc.MQRC_UNKNOWN_DEF_XMIT_Q,
    rc.MQRC_UNKNOWN_OBJECT_NAME,
    rc.MQRC_UNKNOWN_OBJECT_Q_MGR,
    rc.MQRC_UNKNOWN_REMOTE_Q_MGR,
    rc.MQRC_UNKNOWN_XMIT_Q,
}
#: Errors that are raised without a class of their own.
PLAIN = {rc.MQRC_PUBLICATION_FAILURE, rc.MQRC_BACKED_OUT}


@pytest.mark.parametrize("reason", sorted({*ERROR_CLASSES, *PLAIN}), ids=rc.reason_name)
def test_a_reason_code_has_the_status_of_its_meaning(reason: int) -> None:
    error = mq_error(reason)
    status = status_of(error)
    assert (status is HTTPStatus.NOT_FOUND) == (reason in MISSING)
    assert (status is HTTPStatus.INTERNAL_SERVER_ERROR) == (reason in FAILURES)
    assert problems.problem_of(error).status_code == status
    rest = of_mq_error(error, "")
    expected = HTTPStatus.METHOD_NOT_ALLOWED if isinstance(error, InhibitedError) else status
    assert (rest.status, rest.reason) == (expected, reason)


def test_a_call_whose_outcome_is_unknown_is_not_to_come_again_at_once() -> None:
    for reason in (rc.MQRC_CONNECTION_BROKEN, rc.MQRC_UNKNOWN_CHANNEL_NAME):
        assert status_of(LostAnswer(reason)) is HTTPStatus.INTERNAL_SERVER_ERROR


def test_an_error_that_nobody_expects_is_a_failure_of_the_server() -> None:
    assert status_of(mq_error(rc.MQRC_UNEXPECTED_ERROR)) is HTTPStatus.INTERNAL_SERVER_ERROR
