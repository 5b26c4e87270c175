"""Every constant of the MQI has its exact value and type, here and under pymqi's names."""

from pathlib import Path

import pytest

from mayfly.mqi import command_constants, constants, reasons
from mayfly.mqi.constants import name_of
from mayfly.pymqi import CMQC

HERE = Path(__file__).parent


def _read(path: Path) -> dict[str, int | bytes]:
    lines = path.read_text(encoding="ascii").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len({name for name, _ in rows}) == len(rows)
    return {n: bytes.fromhex(v[4:]) if v.startswith("hex:") else int(v) for n, v in rows}


FACTS = _read(HERE / "data" / "CMQC_facts.tsv")
OURS = {
    name: value
    for module in (constants, reasons)
    for name, value in vars(module).items()
    if name.startswith("MQ")
}
CHARACTERS = ("MQGS_", "MQSS_", "MQSEG_")


def test_mqi_constants_have_the_values_of_MQ() -> None:
    assert len(OURS) > 750
    for name, value in OURS.items():
        fact = FACTS[name]
        if name.startswith(CHARACTERS) and isinstance(fact, int):
            fact = bytes([fact])
        assert (name, type(value), value) == (name, type(fact), fact)


def test_constants_of_commands_have_the_values_of_MQ() -> None:
    found = {name: v for name, v in vars(command_constants).items() if name.startswith("MQ")}
    assert found == _read(HERE / "data" / "CMQCFC_facts.tsv")


def test_CMQC_has_every_name_with_its_value_and_type() -> None:
    found = {name: value for name, value in vars(CMQC).items() if name.startswith("MQ")}
    assert found.keys() == FACTS.keys()
    for name, fact in FACTS.items():
        assert (name, type(found[name]), found[name]) == (name, type(fact), fact)


def test_no_value_stands_in_two_places() -> None:
    assert not OURS.keys() & _read(Path(str(CMQC.__file__)).with_suffix(".tsv")).keys()


def test_CMQC_refuses_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="MQRC_NO_SUCH"):
        _ = CMQC.MQRC_NO_SUCH


def test_composites_are_sums() -> None:
    assert constants.MQGMO_BROWSE_HANDLE == (
        constants.MQGMO_BROWSE_FIRST
        | constants.MQGMO_UNMARKED_BROWSE_MSG
        | constants.MQGMO_MARK_BROWSE_HANDLE
    )
    assert constants.MQRO_EXPIRATION_WITH_FULL_DATA == 0x00E00000
    masks = (
        constants.MQRO_REJECT_UNSUP_MASK,
        constants.MQRO_ACCEPT_UNSUP_MASK,
        constants.MQRO_ACCEPT_UNSUP_IF_XMIT_MASK,
    )
    assert sum(masks) == 0xFFFFFFFF  # rule P2: every bit is in exactly one mask


@pytest.mark.parametrize(
    ("prefix", "value", "name"),
    [
        ("MQQT_", 3, "MQQT_ALIAS"),
        ("MQMT_", 1, "MQMT_REQUEST"),
        ("MQGMO_", 0, "MQGMO_NONE"),
        ("MQRO_", 0, "MQRO_NONE"),
        ("MQAT_", 6, "MQAT_UNIX"),
        ("MQCCSI_", 0, "MQCCSI_Q_MGR"),
        ("MQFMT_", b"MQDEAD  ", "MQFMT_DEAD_LETTER_HEADER"),
        ("MQFB_", 258, "MQFB_EXPIRATION"),
        ("MQFB_", 65535, "MQFB_SYSTEM_LAST"),
        ("MQIA_", 276, "MQIA_CAP_EXPIRY"),
        ("MQRO_", 3, None),
        ("MQNO_", 1, None),
    ],
)
def test_name_of_prefers_the_plain_name(prefix: str, value: int | bytes, name: str | None) -> None:
    assert name_of(prefix, value) == name
