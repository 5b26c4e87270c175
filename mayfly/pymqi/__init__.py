"""The names of pymqi, on Mayfly: a program changes its import and nothing else."""

from mayfly.pymqi import CMQC
from mayfly.pymqi.connection import QueueManager, connect
from mayfly.pymqi.connection_options import CD, SCO
from mayfly.pymqi.errors import Error, MQMIError, PYIFError
from mayfly.pymqi.headers import DDH, DLH, IIH, MDE, TM, TMC2, XQH
from mayfly.pymqi.message_handle import MessageHandle
from mayfly.pymqi.property_structures import CMHO, DMHO, DMPO, IMPO, PD, SMPO
from mayfly.pymqi.queue import Queue
from mayfly.pymqi.rfh2 import RFH2
from mayfly.pymqi.structures import GMO, MD, OD, PMO, SD, SRO, STS, MQOpts
from mayfly.pymqi.subscription import Subscription
from mayfly.pymqi.topic import Topic

# pymqi's own older spellings.
cd, gmo, md, od, pmo, sco = CD, GMO, MD, OD, PMO, SCO

__all__ = [
    "CD",
    "CMHO",
    "CMQC",
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
