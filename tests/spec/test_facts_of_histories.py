"""Random histories: each life that ends has the facts of the call that ended it, and of its put."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS, read_cap
from mayfly.testing import VirtualClock
from tests.spec.scene import STAGING, START_MS

USERS = ("anna", "bert", "cleo")
#: What a name caps lives at, in tenths; None is not at all.
CAPS = {"Q1": None, "A1": 20, "A2": 50, "Q2": 30, "A3": 30}
SAID = {
    "A1": "CAPEXPRY(20) of QALIAS(A1)",
    "A2": "CAPEXPRY(50) of QALIAS(A2)",
    "Q2": "CAPEXPRY(30) of QLOCAL(Q2)",
    # The lower one is that of the queue.
    "A3": "CAPEXPRY(30) of QLOCAL(Q2)",
}
LIVES_MS = (None, 1_999, 2_000, 2_001, 2_999, 3_000, 3_001, 5_001, 100_000)
_STEPS_MS = (1, 500, 999, 1_000, 2_000, 4_000)


class History:
    """A queue manager, its users, and what the puts have asked for."""

    def __init__(self, qm: QueueManager, clock: VirtualClock, seed: int) -> None:
        self.qm, self.clock, self.random = qm, clock, Random(seed)
        result = qm.mqsc(
            "DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(Q2) CAPEXPRY(30)\n"
            "DEFINE QALIAS(A1) TARGET(Q1) CAPEXPRY(20)\n"
            "DEFINE QALIAS(A2) TARGET(Q1) CAPEXPRY(50)\n"
            "DEFINE QALIAS(A3) TARGET(Q2) CAPEXPRY(40)"
        )
        assert result.ok, result.text
        self.plain = {user: qm.session(user, program=f"p.{user}") for user in USERS}
        self.units = {user: qm.session(user, True, f"p.{user}") for user in USERS}
        #: By MsgId: the name it was put to, and the life it asked for.
        self.puts: dict[bytes, tuple[str, int | None]] = {}
        self.position = 0
        #: How lives have ended, and what has met the expired ones.
        self.met: set[tuple[str, str | None]] = set()

    def step(self) -> None:
        """Do one thing, and compare the lives that have ended by it."""
        user = self.random.choice(USERS)
        session = (self.plain if self.random.random() < 0.5 else self.units)[user]
        what = self.random.choice(
            (
                self.put,
                self.put,
                self.put,
                self.get,
                self.get,
                self.browse,
                self.end_unit,
                self.cancel,
                self.pass_time,
                self.pass_time,
            )
        )
        what(session, user)

    def put(self, session: Session, user: str) -> None:
        name, life_ms = self.random.choice([*CAPS]), self.random.choice(LIVES_MS)
        number = len(self.puts) + 1
        cap = CAPS[name]
        whole_ms = min(x for x in (life_ms, cap and cap * 100, 10_000) if x is not None)
        delay_ms = self.random.choice((0, 0, 0, 1_000, whole_ms - 1, whole_ms))
        msg_id = f"{number}".encode().ljust(24, b"\0")
        self.puts[msg_id] = name, life_ms
        session.put(
            name,
            b"x",
            msg_id=msg_id,
            time_to_live_ms=life_ms,
            delay_ms=delay_ms,
            persistent=self.random.random() < 0.5,
        )
        self.compare({}, user)

    def get(self, session: Session, user: str) -> None:
        session.get(self.random.choice(("Q1", "Q2")))
        self.compare({"got": None, "expired": "get"}, user)

    def browse(self, session: Session, user: str) -> None:
        for _message in session.browse(self.random.choice(("Q1", "Q2"))):
            pass
        self.compare({"expired": "browse"}, user)

    def end_unit(self, _session: Session, user: str) -> None:
        unit = self.units[user]
        if self.random.random() < 0.6:
            unit.commit()
        else:
            unit.backout()
        # A delayed message that is committed past its delivery time is released at once.
        self.clock.advance(0)
        self.compare({"got": None, "expired": "commit"}, user)

    def cancel(self, _session: Session, user: str) -> None:
        if self.puts:
            self.plain[user].schedule.cancel(self.random.choice([*self.puts]))
        self.compare({"cancelled": None}, user)

    def pass_time(self, _session: Session, user: str) -> None:
        self.clock.advance(self.random.choice(_STEPS_MS))
        self.compare({}, user)

    def compare(self, ends: dict[str, str | None], user: str) -> None:
        """Check the lives since the last call: its own ends, and releases by nobody."""
        for row in self.qm.ledger.page(self.position, 10_000):
            self.position = row[0]
            life: dict[str, Any] = dict(zip(LEDGER_COLUMNS, row, strict=True))
            if life["kind"] != KIND_LIFE:
                continue
            is_staged = life["queue"] == STAGING
            self.compare_cap(life, life["correl_id" if is_staged else "msg_id"])
            self.met.add((life["outcome"], life["detected_by"]))
            facts = life["detected_by"], life["ended_by"], life["ended_program"]
            if is_staged and life["outcome"] in ("released", "expired"):
                detected_by = None if life["outcome"] == "released" else "release"
                assert facts == (detected_by, None, None), life
            else:
                assert life["outcome"] in ends, life
                assert facts == (ends[life["outcome"]], user, f"p.{user}"), life

    def compare_cap(self, life: dict[str, Any], msg_id: bytes) -> None:
        name, asked_ms = self.puts[msg_id]
        cap = CAPS[name]
        is_capped = cap is not None and (asked_ms is None or asked_ms > cap * 100)
        assert life["capped_by"] == (SAID[name] if is_capped else None), life
        if is_capped:
            said = read_cap(life["capped_by"])
            assert said is not None
            assert life["expire_at_ms"] - life["put_ms"] == said.tenths * 100


#: The ends that the histories of one run of this test have to meet between them.
_ENDS = {
    ("got", None),
    ("expired", "get"),
    ("expired", "browse"),
    ("expired", "commit"),
    ("expired", "release"),
    ("released", None),
    ("cancelled", None),
}


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_each_end_has_the_facts_of_the_call_that_made_it(tmp_path: Path, is_on_disk: bool) -> None:
    met: set[tuple[str, str | None]] = set()
    for seed in range(3 if is_on_disk else 4):
        clock, folder = VirtualClock(START_MS), tmp_path / f"QM{seed}" if is_on_disk else None
        with QueueManager("QM1", folder, clock) as qm:
            history = History(qm, clock, seed)
            for _ in range(200):
                history.step()
            met |= history.met
            for unit in history.units.values():
                unit.backout()
            assert qm.verify().ok
    assert met == _ENDS
