"""What crosses a process keeps its form under its version number; each fact of it is said once.

To change a contract, raise its VERSION, then write ``told.json`` anew: ``python -m
tests.contracts.test_contracts``.
"""

import ast
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mayfly.bulk import errors
from mayfly.bulk import queue_client as bulk_claims
from mayfly.bulk import stages as bulk_stages
from mayfly.bulk.schema import LEDGER, MESSAGE, schema_of
from mayfly.contracts import channels, claims, ledger, messages, reasons, stages
from mayfly.contracts.columns import Column, names_of
from mayfly.contracts.outcomes import OUTCOME_CODES, pack_counts, unpack_counts
from mayfly.contracts.requests import kinds_of
from mayfly.mqi.descriptor import Descriptor

CONTRACTS: tuple[ModuleType, ...] = (channels, claims, ledger, messages, stages)
TOLD = Path(__file__).parent / "told.json"
SOURCE = Path(__file__).parents[2] / "mayfly"


def rows_of(contract: ModuleType) -> dict[str, dict[str, str]]:
    """Return the fields of each row, request and answer of a contract."""
    return {
        name: dict(vars(row)["__annotations__"])
        for name, row in vars(contract).items()
        if isinstance(row, type) and hasattr(row, "_fields") and row.__module__ == contract.__name__
    }


def told_of(contract: ModuleType) -> dict[str, Any]:
    texts = {
        name: value
        for name, value in vars(contract).items()
        if name.isupper() and isinstance(value, str)
    }
    columns = [list(column) for column in getattr(contract, "COLUMNS", ())]
    return {
        "version": contract.VERSION,
        "texts": texts,
        "columns": columns,
        "rows": {
            name: {k: str(v) for k, v in row.items()} for name, row in rows_of(contract).items()
        },
    }


def all_told() -> dict[str, Any]:
    told = {contract.__name__: told_of(contract) for contract in CONTRACTS}
    decoded: dict[str, Any] = json.loads(json.dumps(told))
    return decoded


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
def test_a_contract_that_has_changed_has_another_version(contract: ModuleType) -> None:
    before, now = json.loads(TOLD.read_text())[contract.__name__], all_told()[contract.__name__]
    if now["version"] == before["version"]:
        assert now == before, "raise VERSION, then write told.json anew"
    else:
        assert now["version"] > before["version"]
        pytest.fail("write told.json anew")


def test_each_row_that_travels_has_fields_that_a_server_can_check() -> None:
    for contract in (claims, ledger, stages):
        for name in rows_of(contract):
            assert kinds_of(getattr(contract, name))


def test_a_parcel_has_the_columns_that_travel() -> None:
    assert names_of(channels.COLUMNS) == channels.PackedParcel._fields
    nullable = {c.name: c.is_nullable for c in channels.COLUMNS}
    assert {
        n: type(None) in kinds for n, kinds in kinds_of(channels.PackedParcel).items()
    } == nullable


def test_messages_travel_with_fields_of_the_descriptor() -> None:
    assert set(messages.DESCRIBED) <= set(Descriptor._fields)
    own = {"manager", "queue", *messages.OWN, "payload"}
    assert own | set(messages.DESCRIBED) == set(names_of(messages.COLUMNS))
    fields = {*stages.NUMBERS, *stages.TEXT_BYTES}
    assert fields <= set(Descriptor._fields)


def test_arrow_schemas_are_those_of_the_contracts() -> None:
    for schema, columns in ((LEDGER, ledger.COLUMNS), (MESSAGE, messages.COLUMNS)):
        assert [(f.name, f.nullable) for f in schema] == [(c.name, c.is_nullable) for c in columns]
    kinds = [
        str(field.type) for field in schema_of([Column("x", c.kind) for c in channels.COLUMNS])
    ]
    assert kinds == [c.kind.value for c in channels.COLUMNS]


def texts_in(path: Path) -> set[str]:
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_reasons_and_verbs_are_spelled_in_their_contract_alone() -> None:
    known = {value for name, value in vars(reasons).items() if name.isupper()}
    known |= {*claims.VERBS, *stages.VERBS, channels.SEND, stages.JOB_PREFIX}
    # These are words of everyday use, too.
    known -= {"claimed", "browse", "claim", "attach", "consumers", "stage"}
    spelled = {
        f"{path.relative_to(SOURCE)}: {text}"
        for package in ("bulk", "engine", "served", "servers", "channel", "spark", "pipeline")
        for path in (SOURCE / package).rglob("*.py")
        for text in texts_in(path) & known
    }
    assert not spelled


def test_each_reason_that_a_client_may_hear_has_an_error() -> None:
    kinds = {
        kind.reason
        for module in (errors, bulk_claims, bulk_stages)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, errors.BulkError) and "reason" in vars(kind)
    }
    assert {value for name, value in vars(reasons).items() if name.isupper()} <= kinds


def test_counts_by_outcome_are_the_same_after_a_round_trip_and_from_lists_of_schema_7() -> None:
    counts = {code: n for n, code in enumerate(OUTCOME_CODES, 1)} | {"unheard_of": 5}
    assert unpack_counts(pack_counts(counts)) == counts
    assert unpack_counts("[1, 0, 0, 0, 0, 2, 0, 0, 0]") == {"got": 1, "released": 2}
    assert unpack_counts(pack_counts({"got": 0})) == {}


@pytest.mark.parametrize("stored", ["3", "[1, 2]", '{"got": "many"}', "{", '{"got": true}'])
def test_counts_that_nobody_writes_are_refused(stored: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack_counts(stored)


if __name__ == "__main__":
    TOLD.write_text(json.dumps(all_told(), indent=1, sort_keys=True) + "\n")
