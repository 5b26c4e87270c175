"""The names of pymqi, on Mayfly: a program changes its import and nothing else."""

from mayfly.pymqi import CMQC
from mayfly.pymqi.connection import QueueManager, connect
from mayfly.pymqi.connection_options import CD, SCO
from mayfly.pymqi.errors import Error, MQMIError, PYIFError
from mayfly.pymqi.queue import Queue
from mayfly.pymqi.structures import GMO, MD, OD, PMO, MQOpts

# pymqi's own older spellings.
cd, gmo, md, od, pmo, sco = CD, GMO, MD, OD, PMO, SCO

__all__ = [
    "CD",
    "CMQC",
    "Error",
    "GMO",
    "MD",
    "MQMIError",
    "MQOpts",
    "OD",
    "PMO",
    "PYIFError",
    "Queue",
    "QueueManager",
    "SCO",
    "cd",
    "connect",
    "gmo",
    "md",
    "od",
    "pmo",
    "sco",
]
