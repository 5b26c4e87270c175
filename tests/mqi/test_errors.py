"""Reason codes have names, completion codes and texts; errors have the class a caller catches."""

import pickle
from pathlib import Path

import pytest

from mayfly.mqi import errors, reasons
from mayfly.mqi.errors import (
    ConnectionBroken,
    FolderInUse,
    InhibitedError,
    MQError,
    NewerSchema,
    NoMessage,
    NotAuthorized,
    ObjectError,
    OptionsError,
    ResourceError,
    StoreDamaged,
    StoreError,
    mq_error,
)

TREE: dict[type[MQError], list[int]] = {
    ObjectError: [2001, 2042, 2052, 2055, 2057, 2082, 2085, 2086, 2087, 2100, 2152, 2394],
    OptionsError: [
        2013, 2014, 2026, 2027, 2029, 2044, 2046, 2047, 2050, 2061, 2090, 2141, 2148, 2173, 2186,
        2191, 2247, 2248, 2260, 2265, 2334,
    ],
    ResourceError: [2017, 2024, 2030, 2031, 2053, 2056, 2102, 2192],
    NoMessage: [2033, 2034],
    NotAuthorized: [2035],
    ConnectionBroken: [2009, 2018, 2059, 2161, 2162],
    InhibitedError: [2016, 2051],
}  # fmt: skip

WARNINGS = [2049, 2070, 2079, 2080, 2104, 2110, 2111, 2119, 2120, 2190, 2209, 2243, 2244, 2550]


@pytest.mark.parametrize(("error", "reason"), [(e, r) for e, codes in TREE.items() for r in codes])
def test_reason_has_the_class_a_caller_catches(error: type[MQError], reason: int) -> None:
    raised = mq_error(reason, "why")
    assert type(raised) is error
    assert (raised.comp, raised.reason, raised.detail) == (2, reason, "why")


def test_every_failure_but_a_few_has_a_class_and_no_warning_has() -> None:
    failures = {r for r, known in reasons.REASONS.items() if known.comp == 2}
    assert errors.ERROR_CLASSES.keys() <= failures
    plain = failures - errors.ERROR_CLASSES.keys()
    assert plain == {2003, 2137, 2195, 2200, 2362, 2363, 2471, 2479, 2502, 2541, 2586}
    assert sum(map(len, errors._REASONS_BY_CLASS.values())) == len(errors.ERROR_CLASSES)


def test_unknown_reason_is_a_plain_MQError() -> None:
    assert type(mq_error(2599)) is MQError
    assert str(mq_error(2599)) == "MQRC_2599 (2599): Reason code 2599."


def test_str_names_reason_and_detail() -> None:
    detail = "Expiry 0 is neither positive nor MQEI_UNLIMITED"
    assert str(mq_error(2013, detail)) == f"MQRC_EXPIRY_ERROR (2013): {detail}"
    assert str(mq_error(2085)) == (
        "MQRC_UNKNOWN_OBJECT_NAME (2085): No object of this name is defined here."
    )
    assert MQError(2241, comp=1).comp == 1


def test_errors_survive_pickling() -> None:
    again = pickle.loads(pickle.dumps(mq_error(2053, "Q1 holds 5000")))
    assert (type(again), again.reason, again.detail) == (ResourceError, 2053, "Q1 holds 5000")
    damaged = pickle.loads(pickle.dumps(StoreDamaged("page 7 fails its check", "/q/m.db")))
    assert (damaged.path, damaged.message) == (Path("/q/m.db"), "page 7 fails its check")


@pytest.mark.parametrize("error", [StoreDamaged, FolderInUse, NewerSchema])
def test_store_errors_name_the_path_and_are_no_MQErrors(error: type[StoreError]) -> None:
    raised = error("what is wrong", Path("/queues/QM1"))
    assert isinstance(raised, StoreError)
    assert not isinstance(raised, MQError)
    assert str(raised) == "what is wrong: /queues/QM1"
    assert raised.path == Path("/queues/QM1")
    assert str(error("/queues/QM1 is wrong", "/queues/QM1")) == "/queues/QM1 is wrong"


def test_completion_codes() -> None:
    assert reasons.REASONS[0].comp == 0
    assert [r for r in WARNINGS if reasons.REASONS[r].comp != 1] == []
    assert reasons.REASONS[2033].comp == 2


def test_every_reason_attribute_is_in_the_table_once() -> None:
    values = [v for name, v in vars(reasons).items() if name.startswith("MQRC_")]
    assert set(values) == reasons.REASONS.keys()
    for reason, known in reasons.REASONS.items():
        assert getattr(reasons, known.name) == reason
        assert known.text.endswith(".")
        assert reasons.reason_name(reason) == known.name
        assert reasons.reason_text(reason) == known.text
    assert reasons.reason_name(2192) == "MQRC_STORAGE_MEDIUM_FULL"
