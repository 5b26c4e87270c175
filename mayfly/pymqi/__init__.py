"""The API of pymqi on Mayfly: a program changes only its import."""

from mayfly.pymqi import CMQC, CMQCFC, CMQXC, CMQZC
from mayfly.pymqi.callbacks import CBC, CBD, CTLO
from mayfly.pymqi.connection import BNO, CD, CNO, CSP, SCO, QueueManager, connect
from mayfly.pymqi.errors import Error, MQMIError, PYIFError
from mayfly.pymqi.headers import DDH, DLH, IIH, MDE, RFH2, TM, TMC2, XQH
from mayfly.pymqi.message_handle import MessageHandle
from mayfly.pymqi.objects import Queue, Subscription, Topic
from mayfly.pymqi.pcf import (
    ByteString,
    Filter,
    FilterOperator,
    IntegerFilter,
    PCFExecute,
    StringFilter,
)
from mayfly.pymqi.pcf_structures import (
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
)
from mayfly.pymqi.structures import (
    CMHO,
    DMHO,
    DMPO,
    GMO,
    IMPO,
    INTEGER64_TYPE,
    MD,
    MQLONG_TYPE,
    OD,
    PD,
    PMO,
    SD,
    SMPO,
    SRO,
    STS,
    MQOpts,
    ensure_bytes,
    py23long,
    to_string,
)

#: The version of pymqi whose API this is.
__version__ = "1.12.11"
#: As pymqi built with the libraries of a client: a queue manager may be on another machine.
__mqbuild__ = "client"
#: The levels of the MQI whose structures there are.
__mqlevels__ = ("5.0", "6.0", "7.0", "7.1", "8.0.0", "9.0.0", "9.1.0", "9.2.0", "9.3.0", "9.4.0")

# pymqi's own older spellings.
cd, gmo, md, od, pmo, sco = CD, GMO, MD, OD, PMO, SCO

__all__ = [
    "BNO",
    "CBC",
    "CBD",
    "CD",
    "CMHO",
    "CMQC",
    "CMQCFC",
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
    "GMO",
    "IIH",
    "IMPO",
    "INTEGER64_TYPE",
    "MD",
    "MDE",
    "MQLONG_TYPE",
    "MQMIError",
    "MQOpts",
    "MessageHandle",
    "OD",
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
    "Subscription",
    "TM",
    "TMC2",
    "Topic",
    "XQH",
    "cd",
    "connect",
    "ensure_bytes",
    "py23long",
    "to_string",
    "gmo",
    "md",
    "od",
    "pmo",
    "sco",
    "ByteString",
    "Filter",
    "FilterOperator",
    "IntegerFilter",
    "PCFExecute",
    "StringFilter",
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
]
