"""Errors as plain data: class, reason code and detail, and back."""

from __future__ import annotations

import json

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import (
    ERROR_CLASSES,
    ConnectionBroken,
    Failure,
    LostAnswer,
    MQError,
    error_of,
    failure_of,
    mq_error,
)


def test_an_error_is_the_same_after_a_journey_as_plain_data() -> None:
    for reason in (*ERROR_CLASSES, rc.MQRC_UNEXPECTED_ERROR):
        error = mq_error(reason, "field 7")
        arrived = error_of(Failure(*json.loads(json.dumps(failure_of(error)))))
        assert (type(arrived), arrived.reason, arrived.detail) == (type(error), reason, "field 7")


def test_a_lost_answer_stays_one_and_is_caught_as_a_broken_connection() -> None:
    arrived = error_of(failure_of(LostAnswer(rc.MQRC_CONNECTION_BROKEN, "commit")))
    assert (type(arrived), arrived.reason) == (LostAnswer, rc.MQRC_CONNECTION_BROKEN)
    assert isinstance(arrived, ConnectionBroken)


def test_a_class_that_is_not_known_has_that_of_its_reason() -> None:
    arrived = error_of(Failure("Newer", rc.MQRC_NO_MSG_AVAILABLE, ""))
    assert type(arrived) is type(mq_error(rc.MQRC_NO_MSG_AVAILABLE))
    assert isinstance(arrived, MQError)
