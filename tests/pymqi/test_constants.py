"""The modules of constants, CMQC, CMQCFC, CMQXC and CMQZC: each value stands in one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mayfly.pymqi
from mayfly.mqi import command_constants, constants, reasons
from mayfly.pymqi import CMQC, CMQCFC, CMQXC, CMQZC

PROGRAM = """
import pymqi
import CMQCFC
from pymqi import CMQXC, CMQZC
from pymqi.CMQCFC import MQCMD_INQUIRE_Q

print(CMQCFC.MQCMD_INQUIRE_Q, MQCMD_INQUIRE_Q, CMQXC.MQXR_INIT, CMQZC.MQZAO_CONNECT)
print(pymqi.CMQCFC is CMQCFC)
"""
TABLES = ("CMQC", "CMQCFC", "CMQXC", "CMQZC")


def values_in_table(module: str) -> set[str]:
    """Return the names that have their value in the table of a module."""
    path = Path(mayfly.pymqi.__path__[0], f"{module}.tsv")
    lines = path.read_text(encoding="ascii").splitlines()
    return {line.partition("\t")[0] for line in lines if "\t" in line and not line.startswith("#")}


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (CMQC, "MQCA_Q_NAME", 2016),
        (CMQCFC, "MQCMD_INQUIRE_Q", 13),
        (CMQCFC, "MQRCCF_CFH_TYPE_ERROR", 3001),
        # Its value is in mayfly.mqi.
        (CMQCFC, "MQIACH_CHANNEL_TYPE", 1511),
        (CMQXC, "MQXR_INIT", 11),
        (CMQXC, "MQRCN_Q_MGR", 2),
        # Its value is in CMQC.tsv.
        (CMQXC, "MQCD_VERSION_11", 11),
        # pymqi's two modules are of different versions.
        (CMQC, "MQCD_CURRENT_VERSION", 9),
        (CMQXC, "MQCD_CURRENT_VERSION", 12),
        (CMQZC, "MQZAO_ALL", 0x02FE3FFF),
    ],
)
def test_a_constant_is_in_the_module_where_pymqi_has_it(
    module: ModuleType, name: str, value: int
) -> None:
    assert getattr(module, name) == value


def test_no_constant_has_the_same_value_in_two_places() -> None:
    in_mqi = {
        name
        for module in (constants, reasons, command_constants)
        for name in vars(module)
        if name.startswith("MQ")
    }
    places = [in_mqi, *map(values_in_table, TABLES)]
    for number, names in enumerate(places):
        for others in places[:number]:
            both = names & others
            assert all(getattr(CMQC, name) != getattr(CMQXC, name) for name in both)


def test_an_unknown_constant_is_named_in_the_error() -> None:
    with pytest.raises(AttributeError, match="CMQCFC has no MQCMD_NEVER"):
        _ = CMQCFC.MQCMD_NEVER


def test_a_program_that_imports_the_constants_starts(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mayfly.pymqi", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "13 13 11 1\nTrue\n"
