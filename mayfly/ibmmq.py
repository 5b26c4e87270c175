"""The API of ibmmq, IBM's package for Python, on Mayfly: a program changes only its import.

It is :mod:`mayfly.pymqi`, from which ibmmq comes, under ibmmq's name. See docs/PYMQI.md.
"""

from __future__ import annotations

from typing import Any

from mayfly import pymqi
from mayfly.pymqi import (
    BNO,
    CBC,
    CBD,
    CD,
    CFBF,
    CFBS,
    CFGR,
    CFH,
    CFIF,
    CFIL,
    CFIL64,
    CFIN,
    CFIN64,
    CFSF,
    CFSL,
    CFST,
    CMHO,
    CMQC,
    CMQCFC,
    CMQSTRC,
    CMQXC,
    CMQZC,
    CNO,
    CSP,
    CTLO,
    DDH,
    DLH,
    DMHO,
    DMPO,
    GMO,
    IIH,
    IMPO,
    INTEGER64_TYPE,
    MD,
    MDE,
    MQLONG_TYPE,
    OD,
    PD,
    PMO,
    RFH2,
    SCO,
    SD,
    SMPO,
    SRO,
    STS,
    TM,
    TMC2,
    XQH,
    ByteString,
    Error,
    Filter,
    FilterOperator,
    IntegerFilter,
    MessageHandle,
    MQMIError,
    MQOpts,
    PYIFError,
    Queue,
    QueueManager,
    StringFilter,
    Subscription,
    Topic,
    cd,
    connect,
    ensure_bytes,
    gmo,
    md,
    od,
    pmo,
    py23long,
    sco,
    to_string,
)

#: The version of ibmmq whose API this is.
__version__ = "2.1.2"
#: The command level of the structures and constants.
__cmdlevel__ = CMQC.MQCMDL_LEVEL_940
__mqbuild__ = "client"

__all__ = [
    "BNO",
    "ByteString",
    "CBC",
    "CBD",
    "CD",
    "CFBF",
    "CFBS",
    "CFGR",
    "CFH",
    "CFIF",
    "CFIL",
    "CFIL64",
    "CFIN",
    "CFIN64",
    "CFSF",
    "CFSL",
    "CFST",
    "CMHO",
    "CMQC",
    "CMQCFC",
    "CMQSTRC",
    "CMQXC",
    "CMQZC",
    "CNO",
    "CSP",
    "CTLO",
    "DDH",
    "DLH",
    "DMHO",
    "DMPO",
    "Error",
    "Filter",
    "FilterOperator",
    "GMO",
    "IIH",
    "IMPO",
    "INTEGER64_TYPE",
    "IntegerFilter",
    "MD",
    "MDE",
    "MQLONG_TYPE",
    "MQMIError",
    "MQOpts",
    "MessageHandle",
    "OD",
    "PCFExecute",
    "PD",
    "PMO",
    "PYIFError",
    "Queue",
    "QueueManager",
    "RFH2",
    "SCO",
    "SD",
    "SMPO",
    "SRO",
    "STS",
    "StringFilter",
    "Subscription",
    "TM",
    "TMC2",
    "Topic",
    "XQH",
    "cd",
    "connect",
    "ensure_bytes",
    "get_versions",
    "gmo",
    "md",
    "od",
    "pmo",
    "py23long",
    "sco",
    "to_string",
]


def get_versions() -> dict[str, str | int]:
    """Return the version of this API, ``module``, and the command level behind it, ``MQ``."""
    return {"module": __version__, "MQ": __cmdlevel__}


class PCFExecute(pymqi.PCFExecute):
    """Commands of pymqi's PCFExecute; texts of answers end before the NULs that pad them."""

    @staticmethod
    def unpack(message: bytes) -> tuple[dict[int, Any], CFH]:
        """Return the values of a PCF message by parameter number, and its header.

        Raises MQMIError as pymqi's does.
        """
        values, header = pymqi.PCFExecute.unpack(message)
        return _without_nuls(values), header


def _without_nuls(value: Any) -> Any:
    """Return a value of an answer with the NULs at the end of its bytes left out."""
    if isinstance(value, bytes):
        return value.rstrip(b"\0")
    if isinstance(value, list):
        return [_without_nuls(each) for each in value]
    if isinstance(value, dict):
        return {parameter: _without_nuls(each) for parameter, each in value.items()}
    return value
