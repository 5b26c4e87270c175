"""The exceptions say what pymqi's say."""

from __future__ import annotations

import pytest

from mayfly import pymqi
from mayfly.pymqi import CMQC


@pytest.mark.parametrize(
    ("comp", "reason", "text"),
    [
        (2, 2033, "MQI Error. Comp: 2, Reason 2033: FAILED: MQRC_NO_MSG_AVAILABLE"),
        (1, 2079, "MQI Error. Comp: 1, Reason 2079: WARNING: MQRC_TRUNCATED_MSG_ACCEPTED"),
        (2, 2020, "MQI Error. Comp: 2, Reason 2020: FAILED: MQRC_INHIBIT_VALUE_ERROR"),
        (2, 1, "MQI Error. Comp: 2, Reason 1: Error code 1 not defined"),
    ],
)
def test_error_as_text(comp: int, reason: int, text: str) -> None:
    error = pymqi.MQMIError(comp, reason)
    assert str(error) == text
    assert text.endswith(error.errorAsString())
    assert (error.comp, error.reason) == (comp, reason)
    assert (error.message, error.original_length) == (b"", 0)


def test_all_errors_are_pymqi_errors() -> None:
    assert issubclass(pymqi.MQMIError, pymqi.Error)
    assert issubclass(pymqi.PYIFError, pymqi.Error)
    assert str(pymqi.PYIFError("not open")) == "PYMQI Error: not open"


def test_cause_names_the_wrong_field(queue: pymqi.Queue) -> None:
    with pytest.raises(pymqi.MQMIError) as caught:
        queue.put(b"x", pymqi.MD(Expiry=-7))
    assert caught.value.reason == CMQC.MQRC_EXPIRY_ERROR
    assert "-7" in str(caught.value.__cause__)
