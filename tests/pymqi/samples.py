"""The programs of examples/pymqi: the output of each, and the least authority that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
SAMPLES: Final = ROOT / "examples" / "pymqi"
#: The output of each program, line by line.
SAID: Final = {
    "browse_and_lock.py": [
        "left:  LH400 suitcase",
        "taken: OS87 skis",
        "left:  LH400 pram",
        "2 on the belt",
    ],
    "dead_letters.py": ["BAGGAGE.LATER OS87 skis True True"],
    "departures.py": ["LH400 boards", "FAILED: MQRC_NO_MSG_AVAILABLE"],
    "expiry_report.py": [
        "report: FAILED: MQRC_NO_MSG_AVAILABLE",
        "message: FAILED: MQRC_NO_MSG_AVAILABLE",
        "report: LH400 boards at gate A1",
        "True True",
    ],
    "forward.py": [
        "LH400 boards at gate A1",
        "carla True",
        "the same moment of the put: True",
    ],
    "groups.py": [
        "after 1 of 3: FAILED: MQRC_NO_MSG_AVAILABLE",
        "after 2 of 3: FAILED: MQRC_NO_MSG_AVAILABLE",
        "after 3 of 3: (1, 'suitcase')",
        "[(2, 'skis'), (3, 'pram')]",
    ],
    "properties.py": ["a red bag 23 kg", "FAILED: MQRC_NO_MSG_AVAILABLE", "2 left"],
    "request_reply.py": ["LH400: gate A1 - in time: True"],
    "subscriber.py": [
        "LH400 boards - for a minute",
        "OS87 boards - for ever",
        "FAILED: MQRC_NO_MSG_AVAILABLE",
    ],
    "trigger_monitor.py": [
        "print_tags for TAGS -1",
        "tag: LH400 pram in black and white",
        "tag: OS87 skis in black and white",
        "FAILED: MQRC_NO_MSG_AVAILABLE",
    ],
    "two_managers.py": [
        "put to TRANSFERS.IN of HUB",
        "OS87 skis, from A1 to B7",
        "the same message: True - what is left: True",
        "LH400 pram",
    ],
    "two_readers.py": [
        "reader 0 sees suitcase",
        "reader 1 sees skis",
        "reader 0 sees pram",
        "reader 0 takes suitcase",
        "reader 1 takes skis",
        "reader 0 takes pram",
        "0 left",
    ],
}
#: The scripts that make what a sample needs, one a queue manager.
SCRIPTS: Final = {"two_managers.py": ("hub", "spoke")}
#: The programs that name a channel, and the ports of their servers.
BY_CHANNEL: Final = {
    "request_reply.py": [1414],
    "subscriber.py": [1414],
    "two_managers.py": [1414, 1415],
}
#: The programs that go where the environment says.
BY_NAME: Final = [name for name in SAID if name not in BY_CHANNEL]
#: The authority that the user of a sample needs beside CONNECT, behind its queue manager.
NEEDS: Final = {
    "browse_and_lock.py": "AIRPORT: QUEUE(BAGGAGE) PUT BROWSE GET INQ",
    "dead_letters.py": """
        AIRPORT: QUEUE(SYSTEM.DEAD.LETTER.QUEUE) PUT GET
        AIRPORT: QUEUE(BAGGAGE.LATER) PUT
    """,
    "departures.py": "AIRPORT: QUEUE(ANNOUNCEMENTS) PUT GET",
    "expiry_report.py": """
        AIRPORT: QUEUE(BOARDING) PUT GET
        AIRPORT: QUEUE(GATE.REPORTS) GET PUT
    """,
    "forward.py": """
        AIRPORT: QMGR(SELF) SETID
        AIRPORT: QUEUE(BOARDING) PUT SETID GET
        AIRPORT: QUEUE(AUDIT) PUT PASSALL GET
    """,
    "groups.py": "AIRPORT: QUEUE(BAGGAGE.LATER) PUT GET",
    "properties.py": "AIRPORT: QUEUE(ANNOUNCEMENTS) PUT GET INQ",
    "request_reply.py": """
        AIRPORT: QUEUE(REPLY.MODEL) DSP GET
        AIRPORT: QUEUE(GATE.REQUESTS) PUT GET
    """,
    "subscriber.py": "AIRPORT: TOPIC(SYSTEM.BASE.TOPIC) SUB RESUME PUB",
    "trigger_monitor.py": """
        AIRPORT: QUEUE(START.QUEUE) GET
        AIRPORT: QUEUE(TAGS) PUT GET
    """,
    "two_managers.py": """
        SPOKE: QUEUE(TRANSFERS) PUT
        SPOKE: QUEUE(HUB) PUT
        HUB: QUEUE(TRANSFERS.IN) GET
    """,
    "two_readers.py": "AIRPORT: QUEUE(BAGGAGE.LATER) PUT BROWSE GET INQ",
}


class Right(NamedTuple):
    """One authority on one object, as ``SET AUTHREC`` gives and takes it."""

    manager: str
    kind: str
    profile: str
    word: str

    def mqsc(self, user: str, verb: str = "AUTHADD") -> str:
        """Return the command for a user; the other verb is AUTHRMV."""
        profile = "" if self.kind == "QMGR" else f" PROFILE('{self.profile}')"
        return f"SET AUTHREC OBJTYPE({self.kind}){profile} PRINCIPAL('{user}') {verb}({self.word})"


def user_of(name: str) -> str:
    """Return the user as whom a sample runs: a name has at most 12 characters."""
    return name.removesuffix(".py")[:12]


def rights_of(name: str) -> list[Right]:
    """Return all that the user of a sample is allowed."""
    managers = [script.upper() for script in SCRIPTS.get(name, ("airport",))]
    found = [Right(manager, "QMGR", "SELF", "CONNECT") for manager in managers]
    for line in NEEDS[name].strip().splitlines():
        manager, what, *words = line.split()
        kind, profile = what.removesuffix(")").split("(")
        found += [Right(manager.removesuffix(":"), kind, profile, word) for word in words]
    return found


def queues() -> list[str]:
    """Return the queues of AIRPORT that the programs without a channel use."""
    found = (right for name in BY_NAME for right in rights_of(name))
    return sorted({right.profile for right in found if right.kind == "QUEUE"})


def run(name: str, home: Path, **environment: str) -> list[str]:
    """Run a sample; return what it has said."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-m", "mayfly.pymqi", str(SAMPLES / name)],
        env={**os.environ, "MAYFLY_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout.splitlines()
