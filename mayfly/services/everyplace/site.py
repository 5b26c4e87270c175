"""The surroundings of a queue: its queue manager's name, clock, journal and peers."""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.lifetime.everyplace import Timepiece
from mayfly.services.everyplace.journal import Journal
from mayfly.services.everyplace.peers import Peers
from mayfly.services.everyplace.rules import RuleOwner


@dataclass(frozen=True)
class Site:
    """One queue manager as its own queues know it; ``journal`` None keeps nothing on the disk."""

    name: str
    clock: Timepiece
    journal: Journal | None
    peers: Peers
    #: The queue manager that a rule is given to call.
    rule_owner: RuleOwner
