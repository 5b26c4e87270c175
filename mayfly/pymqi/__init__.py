"""The API of pymqi on Mayfly: a program changes only its import."""

from mayfly.pymqi import CMQC, CMQCFC, CMQXC, CMQZC
from mayfly.pymqi.connection import CD, SCO, QueueManager, connect
from mayfly.pymqi.errors import Error, MQMIError, PYIFError
from mayfly.pymqi.headers import DDH, DLH, IIH, MDE, RFH2, TM, TMC2, XQH
from mayfly.pymqi.message_handle import MessageHandle
from mayfly.pymqi.objects import Queue, Subscription, Topic
from mayfly.pymqi.structures import (
    CMHO,
    DMHO,
    DMPO,
    GMO,
    IMPO,
    MD,
    OD,
    PD,
    PMO,
    SD,
    SMPO,
    SRO,
    STS,
    MQOpts,
)

# pymqi's own older spellings.
cd, gmo, md, od, pmo, sco = CD, GMO, MD, OD, PMO, SCO

__all__ = [
    "CD",
    "CMHO",
    "CMQC",
    "CMQCFC",
    "CMQXC",
    "CMQZC",
    "DDH",
    "DLH",
    "DMHO",
    "DMPO",
    "Error",
    "GMO",
    "IIH",
    "IMPO",
    "MD",
    "MDE",
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
    "gmo",
    "md",
    "od",
    "pmo",
    "sco",
]
