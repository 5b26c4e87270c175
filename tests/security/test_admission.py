"""Admission: who is let in, and the reason code and log line of a refusal."""

import logging
from dataclasses import replace

import pytest

import mayfly
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.security.admission import Admission, Applicant

TOKEN = "operator-token"


def test_operator_comes_in_with_the_token_as_password_whatever_the_user_name() -> None:
    with mayfly.QueueManager("QM1") as qm:
        admission = Admission([qm], token=TOKEN)
        for address in ("", "127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1"):
            applicant = Applicant(queue_manager="QM1", address=address, user="anna", password=TOKEN)
            admitted = admission.admit(applicant)
            assert (admitted.user, admitted.is_operator) == ("anna", True)


def test_token_is_taken_from_another_machine_over_tls_only() -> None:
    with mayfly.QueueManager("QM1") as qm:
        admission = Admission([qm], token=TOKEN)
        far = Applicant(queue_manager="QM1", address="192.0.2.7", password=TOKEN)
        assert admission.admit(replace(far, has_tls=True)).is_operator
        with pytest.raises(MQError) as refused:
            admission.admit(far)
        assert refused.value.reason == rc.MQRC_NOT_AUTHORIZED


@pytest.mark.parametrize("password", ["", "wrong", TOKEN + " ", "ä"])
def test_nobody_comes_in_without_a_channel_and_without_the_token(password: str) -> None:
    with mayfly.QueueManager("QM1") as qm:
        with pytest.raises(MQError) as refused:
            Admission([qm], token=TOKEN).admit(
                Applicant(queue_manager="QM1", address="", password=password)
            )
        assert refused.value.reason == rc.MQRC_NOT_AUTHORIZED
        # Without a token of the server none is right, an empty one neither.
        with pytest.raises(MQError):
            Admission([qm]).admit(Applicant(queue_manager="QM1", address="", password=password))


def test_client_is_told_the_reason_alone_and_the_log_the_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    applicant = Applicant(
        queue_manager="OTHER", address="192.0.2.7", user="anna", password="secret"
    )
    with mayfly.QueueManager("QM1") as qm, pytest.raises(MQError) as refused:
        Admission([qm]).admit(applicant)
    assert refused.value.reason == rc.MQRC_Q_MGR_NAME_ERROR
    assert refused.value.detail == ""
    [record] = [r for r in caplog.records if r.name == "mayfly.security"]
    assert record.levelno == logging.WARNING
    told = vars(record)
    assert (told["amq"], told["reason"]) == ("AMQ9524E", 2058)
    assert (told["address"], told["user"]) == ("192.0.2.7", "anna")
    assert "'OTHER' is not served here" in record.getMessage()
    assert "secret" not in record.getMessage() + repr(applicant)
