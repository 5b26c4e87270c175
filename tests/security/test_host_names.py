"""Host names in ADDRESS of rules for channels: REVDNS, which rule counts, and lookups that wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mayfly import MQError, QueueManager
from mayfly.admin.security import rules
from mayfly.admin.security.admission import Admission, Admitted, Applicant
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.facts import PATIENCE_SECONDS

HOST = "192.0.2.7"
RULES = """
ALTER QMGR AUTHCHK(SEND)
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) CHCKCLNT(NONE)
DEFINE CHANNEL(BY.NAME) CHLTYPE(SVRCONN)
DEFINE CHANNEL(BY.NUMBER) CHLTYPE(SVRCONN)
SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)
SET CHLAUTH(BY.NAME) TYPE(ADDRESSMAP) ADDRESS('*.Shop.example') MCAUSER('till')
SET CHLAUTH(BY.NUMBER) TYPE(ADDRESSMAP) ADDRESS('192.0.2.*') MCAUSER('office')
"""


class Names:
    """Names of addresses as a DNS server has them, which answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.names: tuple[str, ...] = ("till-7.SHOP.example",)
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, address: str) -> tuple[str, ...]:
        self.asked.append(address)
        assert self.may_answer.wait(PATIENCE_SECONDS)
        return self.names


@pytest.fixture
def qm() -> Iterator[QueueManager]:
    with QueueManager("QM1") as manager:
        result = manager.mqsc(RULES)
        assert result.ok, result.text
        yield manager


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_700_000_000_000)


@pytest.fixture
def admission(qm: QueueManager, names: Names, clock: VirtualClock) -> Iterator[Admission]:
    admission = Admission([qm.engine], clock=clock, resolve=names)
    yield admission
    names.may_answer.set()
    admission.close()


def applicant(channel: str = "BY.NAME", address: str = HOST) -> Applicant:
    return Applicant(queue_manager="QM1", address=address, channel=channel, user="anna")


def user(admission: Admission, channel: str = "BY.NAME") -> str:
    return admission.submit(applicant(channel)).result(PATIENCE_SECONDS).user


def reason(admission: Admission) -> int:
    with pytest.raises(MQError) as raised:
        user(admission)
    return raised.value.reason


def test_a_host_name_maps_in_either_case_and_is_kept_for_a_minute(
    admission: Admission, names: Names, clock: VirtualClock, qm: QueueManager
) -> None:
    assert user(admission) == "till"
    names.names = ("elsewhere.example",)
    clock.advance(59_999)
    assert user(admission) == "till"
    assert names.asked == [HOST]
    clock.advance(1)
    assert reason(admission) == rc.MQRC_NOT_AUTHORIZED
    names.names = ("x.shop.example",)
    assert qm.mqsc("REFRESH SECURITY").ok
    assert user(admission) == "till"
    assert names.asked == [HOST] * 3


def test_nobody_waits_for_a_lookup_but_who_needs_it(admission: Admission, names: Names) -> None:
    """And a channel without a host name in its rules looks nothing up."""
    names.may_answer.clear()
    waiting = admission.submit(applicant())
    assert user(admission, "BY.NUMBER") == "office"
    assert not waiting.done()
    names.may_answer.set()
    found: Admitted = waiting.result(PATIENCE_SECONDS)
    assert (found.user, names.asked) == ("till", [HOST])


def test_more_lookups_than_may_wait_are_2537(admission: Admission, names: Names) -> None:
    """They are let go again when DNS answers."""
    names.may_answer.clear()
    begun = [admission.submit(applicant(address=f"192.0.2.{n}")) for n in range(200)]
    refused = [each for each in begun if each.done()]
    assert refused
    for each in refused:
        error = each.exception()
        assert isinstance(error, MQError)
        assert error.reason == rc.MQRC_CHANNEL_NOT_AVAILABLE
    names.may_answer.set()
    admitted = [each.result(PATIENCE_SECONDS) for each in begun if each not in refused]
    assert {each.user for each in admitted} == {"till"}


def test_REVDNS_DISABLED_looks_nothing_up(
    admission: Admission, names: Names, qm: QueueManager
) -> None:
    assert qm.mqsc("ALTER QMGR REVDNS(DISABLED)").ok
    assert "REVDNS(DISABLED)" in qm.mqsc("DISPLAY QMGR REVDNS").text
    assert reason(admission) == rc.MQRC_NOT_AUTHORIZED
    assert names.asked == []


def test_an_address_goes_before_a_host_name_and_that_before_any(
    admission: Admission, qm: QueueManager
) -> None:
    assert qm.mqsc("SET CHLAUTH(BY.NAME) TYPE(ADDRESSMAP) ADDRESS('*') MCAUSER('any')").ok
    assert user(admission) == "till"
    more = "SET CHLAUTH(BY.NAME) TYPE(ADDRESSMAP) ADDRESS('till-7.*') MCAUSER('seven')"
    assert qm.mqsc(more).ok
    assert user(admission) == "seven"
    more = "SET CHLAUTH(BY.NAME) TYPE(ADDRESSMAP) ADDRESS('*.7') MCAUSER('number')"
    assert qm.mqsc(more).ok
    assert user(admission) == "number"


@pytest.mark.parametrize("wrong", ["a_b", "-a", "a..b", "a.", "x" * 254, "a b"])
def test_what_is_no_host_name_is_refused(qm: QueueManager, wrong: str) -> None:
    result = qm.mqsc(f"SET CHLAUTH(BY.NAME) TYPE(ADDRESSMAP) ADDRESS('{wrong}') MCAUSER('x')")
    assert not result.ok


def test_ADDRLIST_has_addresses_alone(qm: QueueManager) -> None:
    assert not qm.mqsc("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('bad.example')").ok


def test_RUNCHECK_looks_up_the_names_of_this_machine(qm: QueueManager) -> None:
    if "localhost" not in rules.names_of("127.0.0.1"):
        pytest.skip("127.0.0.1 is not localhost here")
    assert qm.mqsc("SET CHLAUTH(BY.NAME) TYPE(ADDRESSMAP) ADDRESS('local*') MCAUSER('here')").ok
    ask = "DISPLAY CHLAUTH(BY.NAME) MATCH(RUNCHECK) ADDRESS('127.0.0.1') CLNTUSER('anna')"
    [rule] = qm.mqsc(ask).rows
    assert (rule["ADDRESS"], rule["MCAUSER"]) == ("local*", "here")


def test_a_name_counts_only_when_it_leads_back() -> None:
    assert rules._resolves_to("127.0.0.1", "::ffff:127.0.0.1")
    assert not rules._resolves_to("127.0.0.1", "127.0.0.2")
    assert rules.names_of("no address") == ()
