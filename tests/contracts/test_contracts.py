"""What crosses a process keeps its form under its version number; each fact of it is said once.

To change a contract, raise its VERSION, then write ``told.json`` anew: ``python -m
tests.contracts.test_contracts``. The version of requests of programs, and of their rows, is that of
``contracts.wire``; a new verb needs no other one, as an older server refuses it by its number.
"""

import ast
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from mayfly.mqi.descriptor import Descriptor
from mayfly.pipeline.bulk import errors, queue_client
from mayfly.pipeline.bulk.schema import LEDGER, MESSAGE, schema_of
from mayfly.verbs import requests, rows
from mayfly.verbs.contracts import bulk_reasons, channels, claims, ledger, messages, stages
from mayfly.verbs.contracts.bulk import Column, column_names, field_types
from mayfly.verbs.contracts.channels import (
    REQUESTS,
    VERSION,
    ChannelRequest,
    Introduction,
    channel_request_of,
    envelope_of,
    introduction_of,
    row_of_envelope,
)
from mayfly.verbs.contracts.outcomes import OUTCOME_CODES, pack_counts, unpack_counts
from mayfly.verbs.contracts.wire import HIGHEST_VERSION, WrongFrame, decoded, packed
from mayfly.verbs.requests import VERBS

CONTRACTS: tuple[ModuleType, ...] = (channels, claims, ledger, messages, stages)
TOLD = Path(__file__).parent / "told.json"
SOURCE = Path(__file__).parents[2] / "mayfly"


def rows_of(contract: ModuleType) -> dict[str, dict[str, str]]:
    """Return the fields of each row, request and answer of a contract."""
    return {
        name: dict(vars(row).get("__annotations__", {}))
        for name, row in vars(contract).items()
        if isinstance(row, type)
        and (hasattr(row, "_fields") or issubclass(row, msgspec.Struct))
        and row.__module__ == contract.__name__
    }


def told_of(contract: ModuleType) -> dict[str, Any]:
    texts = {
        name: value
        for name, value in vars(contract).items()
        if name.isupper() and isinstance(value, str)
    }
    columns = [list(column) for column in getattr(contract, "COLUMNS", ())]
    verbs = {
        name: kind.__struct_config__.tag
        for name, kind in vars(contract).items()
        if isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and kind.__struct_config__.tag
    }
    return {
        "verbs": verbs,
        "version": contract.VERSION,
        "texts": texts,
        "columns": columns,
        "rows": {
            name: {k: str(v) for k, v in row.items()} for name, row in rows_of(contract).items()
        },
    }


def wire_rows() -> dict[str, dict[str, str]]:
    """Return the fields of the requests of programs, and of the rows in requests and answers."""
    found = rows_of(requests) | rows_of(rows)
    return {
        name: {field: str(getattr(kind, "__forward_arg__", kind)) for field, kind in row.items()}
        for name, row in found.items()
    }


def all_told() -> dict[str, Any]:
    told = {contract.__name__: told_of(contract) for contract in CONTRACTS}
    told["wire"] = {"version": HIGHEST_VERSION, "rows": wire_rows()}
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


def test_a_request_that_has_changed_has_another_version_of_the_wire() -> None:
    told = json.loads(TOLD.read_text())["wire"]
    assert told["version"] == HIGHEST_VERSION, "write told.json anew"
    now = wire_rows()
    changed = [name for name, row in told["rows"].items() if now.get(name, row) != row]
    assert not changed, "raise HIGHEST_VERSION, then write told.json anew"


def test_each_row_that_travels_has_fields_that_a_server_can_check() -> None:
    for contract in (claims, ledger, stages):
        for name in rows_of(contract):
            assert field_types(getattr(contract, name))


def test_what_a_channel_says_comes_over_as_it_was_said() -> None:
    """Each request has a kind for each of its fields, in their order."""
    descriptor = Descriptor(priority=3, format="MQSTR", group_id=b"g" * 24)
    envelope = channels.Envelope("Q", "M", descriptor, b"m" * 24, bytes(24), 7, b"\0x", True)
    endless = envelope._replace(life_ms=None, is_fast=False, body=b"")
    rows = [row_of_envelope(envelope), row_of_envelope(endless)]
    assert [envelope_of(row) for row in rows] == [envelope, endless]
    said: list[ChannelRequest] = [
        Introduction(VERSION, "C", "TO", "FROM", "token", 300_000),
        channels.Negotiation(5, 50, 100, True, 300, "id"),
        channels.Envelopes(rows),
        channels.PutBatch(3, rows[:1]),
        channels.KeepBatch(0, []),
        channels.GoOn(17),
        channels.Confirm("LUW", 55),
        channels.Ping(),
        channels.End(),
    ]
    assert {type(request) for request in said} == set(REQUESTS.values())
    introduction, *others = said
    assert introduction_of(packed(introduction)) == introduction
    for request in others:
        assert channel_request_of(packed(request)) == request
    for answer in (channels.ReceiverState("QM2", "LUW", 4, 50, 100), channels.Welcome("QM2", 5)):
        assert decoded(type(answer), packed(answer), "answer") == answer


def test_the_verbs_of_channels_have_numbers_of_their_own() -> None:
    assert not REQUESTS.keys() & VERBS.keys()


def test_a_channel_of_another_version_is_refused_before_its_fields_are_looked_at() -> None:
    for version in (1, VERSION + 1):
        with pytest.raises(WrongFrame) as refused:
            introduction_of(packed([80, version, ["later form"]]))
        assert f"version {version} are not spoken here: {VERSION}" in str(refused.value)


def test_messages_travel_with_fields_of_the_descriptor() -> None:
    assert set(messages.DESCRIPTOR_COLUMNS) <= set(Descriptor._fields)
    own = {"manager", "queue", *messages.OWN_COLUMNS, "payload"}
    assert own | set(messages.DESCRIPTOR_COLUMNS) == set(column_names(messages.COLUMNS))
    fields = {*stages.NUMBERS, *stages.TEXT_BYTES}
    assert fields <= set(Descriptor._fields)


def test_arrow_schemas_are_those_of_the_contracts() -> None:
    for schema, columns in ((LEDGER, ledger.COLUMNS), (MESSAGE, messages.COLUMNS)):
        assert [(f.name, f.nullable) for f in schema] == [(c.name, c.is_nullable) for c in columns]
    kinds = [
        str(field.type) for field in schema_of([Column("x", c.kind) for c in messages.COLUMNS])
    ]
    assert kinds == [c.kind.value for c in messages.COLUMNS]


def texts_in(path: Path) -> set[str]:
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_reasons_and_verbs_are_spelled_in_their_contract_alone() -> None:
    known = {value for name, value in vars(bulk_reasons).items() if name.isupper()}
    known |= {*claims.VERBS, *stages.VERBS, stages.JOB_PREFIX}
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
        for module in (errors, queue_client)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, errors.BulkError) and "reason" in vars(kind)
    }
    assert {value for name, value in vars(bulk_reasons).items() if name.isupper()} <= kinds


def test_counts_by_outcome_are_the_same_after_a_round_trip() -> None:
    counts = {code: n for n, code in enumerate(OUTCOME_CODES, 1)} | {"unheard_of": 5}
    assert unpack_counts(pack_counts(counts)) == counts
    assert unpack_counts(pack_counts({"got": 0})) == {}


@pytest.mark.parametrize("stored", ["3", "[1, 2]", '{"got": "many"}', "{", '{"got": true}'])
def test_counts_that_nobody_writes_are_refused(stored: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpack_counts(stored)


if __name__ == "__main__":
    TOLD.write_text(json.dumps(all_told(), indent=1, sort_keys=True) + "\n")
