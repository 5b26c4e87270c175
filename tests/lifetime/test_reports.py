"""Which report is owed and what it looks like, for every combination of option bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.lifetime.reports import DATA_BYTES, Cause, Original, build_report, is_owed
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor

MSG_ID, CORREL_ID = b"M" * 24, b"C" * 24
FULL = {
    Cause.EXCEPTION: c.MQRO_EXCEPTION_WITH_FULL_DATA,
    Cause.EXPIRATION: c.MQRO_EXPIRATION_WITH_FULL_DATA,
    Cause.COA: c.MQRO_COA_WITH_FULL_DATA,
    Cause.COD: c.MQRO_COD_WITH_FULL_DATA,
}
WITH_DATA = {
    Cause.EXCEPTION: c.MQRO_EXCEPTION_WITH_DATA,
    Cause.EXPIRATION: c.MQRO_EXPIRATION_WITH_DATA,
    Cause.COA: c.MQRO_COA_WITH_DATA,
    Cause.COD: c.MQRO_COD_WITH_DATA,
}
OTHERS = (
    c.MQRO_PAN
    | c.MQRO_NAN
    | c.MQRO_ACTIVITY
    | c.MQRO_PASS_MSG_ID
    | c.MQRO_PASS_CORREL_ID
    | c.MQRO_DISCARD_MSG
    | c.MQRO_PASS_DISCARD_AND_EXPIRY
)
options = st.integers(-(2**31), 2**31 - 1)
causes = st.sampled_from(list(Cause))


def original(report: int, body: bytes = b"", remaining_ms: int | None = None) -> Original:
    descriptor = Descriptor(report=report, reply_to_q="R", format="MQSTR", version=2)
    return Original(descriptor, MSG_ID, CORREL_ID, body, remaining_ms)


@pytest.mark.parametrize("cause", list(Cause))
def test_R_request_bits_are_those_of_the_cause_and_of_no_other(cause: Cause) -> None:
    for form in (cause.value, WITH_DATA[cause], FULL[cause]):
        assert [other for other in Cause if is_owed(other, Descriptor(report=form))] == [cause]
    assert not is_owed(cause, Descriptor(report=OTHERS))


@given(causes, options)
def test_R_owed_exactly_when_the_plain_bit_is_set(cause: Cause, report: int) -> None:
    assert is_owed(cause, Descriptor(report=report)) == bool(report & cause.value)


@given(causes, options, st.binary(max_size=300))
def test_R1_data_follows_from_the_bits(cause: Cause, report: int, body: bytes) -> None:
    """Full data wins over the first 100 bytes, those over none; the format goes with the data."""
    made = build_report(cause, original(report, body), "QM1", 2053)
    if report & FULL[cause] & ~WITH_DATA[cause]:
        assert made.body == body
    elif report & WITH_DATA[cause] & ~cause.value:
        assert made.body == body[:DATA_BYTES]
    else:
        assert made.body == b""
    assert made.descriptor.format == ("MQSTR" if made.body else "")
    assert made.descriptor.original_length == len(body)


@given(causes, options, st.none() | st.integers(1, 2**31))
def test_R_ids_life_and_options_follow_from_the_bits(
    cause: Cause, report: int, remaining_ms: int | None
) -> None:
    made = build_report(cause, original(report, b"x", remaining_ms), "QM1", 2053)
    assert made.msg_id == (MSG_ID if report & c.MQRO_PASS_MSG_ID else None)
    assert made.correl_id == (CORREL_ID if report & c.MQRO_PASS_CORREL_ID else MSG_ID)
    passes_on = report & c.MQRO_PASS_DISCARD_AND_EXPIRY
    left_ms = 60_000 if cause is Cause.EXPIRATION else remaining_ms
    assert made.life_ms == (left_ms if passes_on else None)
    assert made.descriptor.report == (report & c.MQRO_DISCARD_MSG if passes_on else 0)
    assert made.descriptor.msg_type == c.MQMT_REPORT
    assert made.reply_to_q == "R"


@given(causes, options)
def test_R10_no_report_asks_for_a_report(cause: Cause, report: int) -> None:
    made = build_report(cause, original(report), "QM1", 2053)
    assert not any(is_owed(other, made.descriptor) for other in Cause)


@pytest.mark.parametrize(
    ("format_name", "arrives", "delivered"),
    [("MQXMIT", False, True), ("MQDEAD", False, False), ("", True, True), ("mqdead", True, True)],
)
def test_R_formats_that_are_never_confirmed(
    format_name: str, arrives: bool, delivered: bool
) -> None:
    descriptor = Descriptor(report=-1, format=format_name)
    assert is_owed(Cause.COA, descriptor) == arrives
    assert is_owed(Cause.COD, descriptor) == delivered
    assert is_owed(Cause.EXPIRATION, descriptor)
    assert is_owed(Cause.EXCEPTION, descriptor)


@pytest.mark.parametrize(
    ("cause", "feedback"),
    [(Cause.EXPIRATION, 258), (Cause.COA, 259), (Cause.COD, 260), (Cause.EXCEPTION, 2053)],
)
def test_R_feedback(cause: Cause, feedback: int) -> None:
    """Only an exception report says the reason."""
    assert build_report(cause, original(0), "QM1", 2053).descriptor.feedback == feedback


def test_R_manager_name_fits_put_appl_name() -> None:
    made = build_report(Cause.COA, original(0), "M" * 48)
    assert made.descriptor.put_appl_name == "M" * 28
    assert made.descriptor.reply_to_q_mgr == "M" * 48
