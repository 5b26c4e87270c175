"""The programs of examples/pymqi as clients of ``mayfly serve``, each with the least authority.

They run unchanged where MQSERVER leads to another machine, over TLS where MQCCDTURL names a table,
and those that name a channel where localhost is the server.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from mayfly import pymqi
from mayfly.admin.security.developer import self_signed_certificate
from mayfly.client import Client
from mayfly.mqi import reasons as rc
from mayfly.runtime import SystemClock
from tests.client.processes import Samples, operating, process, samples, serving
from tests.facts import PATIENCE_SECONDS, wait_until
from tests.machines import Machine, TwoMachines, two_machines
from tests.ports import held_port
from tests.pymqi.samples import (
    BY_CHANNEL,
    BY_NAME,
    SAID,
    SAMPLES,
    Right,
    queues,
    rights_of,
    user_of,
)
from tests.servers.certificates import certificate_of

#: A message of a sample lives for 100 ms: a scan in between would send its report too early.
NO_SCAN = ("--expiry-interval", "0")
#: Without this one the program is told nothing: its report becomes a dead letter (R6).
UNTOLD = Right("AIRPORT", "QUEUE", "GATE.REPORTS", "PUT")
#: One authority of each sample that names no channel.
ONE_OF_EACH = [(name, rights_of(name)[-1]) for name in BY_NAME if UNTOLD not in rights_of(name)]
ONLY_CHANNELS_WITH_A_RULE = """
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) CHCKCLNT(OPTIONAL)
SET CHLAUTH('*') TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS) ACTION(REPLACE)
"""


class Scene(NamedTuple):
    """A server, an operator of it, and clients whose table of channels leads to it over TLS."""

    operator: Client
    runner: Samples
    keys: Path

    def run(self, name: str) -> tuple[list[str], str]:
        """Run a sample as its own user, on queues that are empty."""
        clear(self.operator)
        return self.runner.run(name, MQSSLKEYR=str(self.keys / user_of(name) / "key"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("tls")
    own, key = self_signed_certificate(folder, ["127.0.0.1"], SystemClock().now_ms())
    script = [
        "DEFINE CHANNEL(APP.SVRCONN) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER)",
        ONLY_CHANNELS_WITH_A_RULE,
    ]
    for name in BY_NAME:
        user = user_of(name)
        (folder / user).mkdir()
        shown = certificate_of(folder / user / "key.pem", CN=user, O="Airport")
        with (folder / "roots.pem").open("a") as roots:
            roots.write(shown.read_text())
        with shown.open("a") as repository:
            repository.write(own.read_text())
        rule = f"TYPE(SSLPEERMAP) SSLPEER('CN={user},O=Airport') MCAUSER('{user}')"
        script += [f"SET CHLAUTH(APP.SVRCONN) {rule}"]
        script += [right.mqsc(user) for right in rights_of(name)]
    (folder / "who.mqsc").write_text("\n".join(script))
    words = [*NO_SCAN, "--mqsc", str(SAMPLES / "airport.mqsc"), "--mqsc", str(folder / "who.mqsc")]
    words += ["--tls-certificate", str(own), "--tls-key", str(key)]
    words += ["--tls-client-roots", str(folder / "roots.pem")]
    with serving(folder, ["AIRPORT"], "127.0.0.1:0", *words) as ready:
        host, port = ready["mq"].split(":")
        with operating(folder, "AIRPORT") as operator:
            defined = operator.mqsc(
                f"DEFINE CHANNEL(APP.SVRCONN) CHLTYPE(CLNTCONN) CONNAME('{host}({port})') "
                "QMNAME(AIRPORT) SSLCIPH(ANY_TLS12_OR_HIGHER)"
            )
            assert defined.ok, defined.text
            table = (folder / "AIRPORT" / "ccdt.json").as_uri()
            with samples(folder / "elsewhere", MQCCDTURL=table) as runner:
                yield Scene(operator, runner, folder)


def clear(operator: Client) -> None:
    """Empty the queues of the samples; a sample that has failed may have one open for a moment."""
    for queue in queues():
        wait_until(lambda queue=queue: operator.mqsc(f"CLEAR QLOCAL({queue})").ok)  # type: ignore[misc]  # bound here


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_sample_over_TLS_by_a_table_of_channels_with_the_least_authority(
    scene: Scene, name: str
) -> None:
    assert scene.run(name) == (SAID[name], "")


def without(scene: Scene, name: str, right: Right) -> tuple[list[str], str]:
    """Run a sample while its user lacks an authority."""
    user = user_of(name)
    assert scene.operator.mqsc(right.mqsc(user, "AUTHRMV")).ok
    try:
        return scene.run(name)
    finally:
        assert scene.operator.mqsc(right.mqsc(user)).ok


@pytest.mark.slow
@pytest.mark.parametrize(("name", "right"), ONE_OF_EACH)
def test_C7_sample_without_one_of_its_authorities_is_refused(
    scene: Scene, name: str, right: Right
) -> None:
    said, failure = without(scene, name, right)
    assert "MQRC_NOT_AUTHORIZED" in "\n".join([*said, failure])


@pytest.mark.slow
def test_R6_sample_without_the_authority_for_its_report_finds_none(scene: Scene) -> None:
    said, failure = without(scene, "expiry_report.py", UNTOLD)
    assert (said[2], failure) == ("report: FAILED: MQRC_NO_MSG_AVAILABLE", "")
    [letter] = scene.operator.browse("SYSTEM.DEAD.LETTER.QUEUE")
    header = pymqi.DLH()
    header.unpack(letter.body[: header.get_length()])
    assert (header.Reason, header.DestQName.strip()) == (rc.MQRC_NOT_AUTHORIZED, b"GATE.REPORTS")


@pytest.mark.soak
@pytest.mark.parametrize("name", BY_NAME)
def test_C7_sample_needs_each_of_its_authorities(scene: Scene, name: str) -> None:
    for right in rights_of(name):
        said, failure = without(scene, name, right)
        assert said != SAID[name], right
        assert "MQRC_NOT_AUTHORIZED" in "\n".join([*said, failure]) or right == UNTOLD, right
    assert scene.run(name) == (SAID[name], "")


@pytest.fixture(scope="module")
def machines() -> Iterator[TwoMachines]:
    with two_machines() as found:
        yield found


def script_of(names: Sequence[str], client_address: str) -> str:
    """Return MQSC that lets samples in from an address, each by a channel with its user."""
    script = [ONLY_CHANNELS_WITH_A_RULE]
    for name in names:
        user = user_of(name)
        rule = f"TYPE(ADDRESSMAP) ADDRESS({client_address}) USERSRC(CHANNEL)"
        script += [
            f"DEFINE CHANNEL({channel_of(name)}) CHLTYPE(SVRCONN) MCAUSER('{user}') REPLACE",
            f"SET CHLAUTH({channel_of(name)}) {rule} ACTION(REPLACE)",
        ]
        script += [right.mqsc(user) for right in rights_of(name)]
    return "\n".join(script)


def channel_of(name: str) -> str:
    """Return the channel by which a sample comes in."""
    return "APP.SVRCONN" if name in BY_CHANNEL else user_of(name).upper().replace("_", ".")


@contextmanager
def airport(
    home: Path, script: str, address: str, machine: Machine | None = None
) -> Iterator[tuple[str, Client]]:
    """Serve AIRPORT for a block; yields where, and an operator."""
    (home / "who.mqsc").write_text(script)
    words = [*NO_SCAN, "--mqsc", str(SAMPLES / "airport.mqsc"), "--mqsc", str(home / "who.mqsc")]
    with (
        serving(home, ["AIRPORT"], address, *words, machine=machine) as ready,
        operating(home, "AIRPORT") as operator,
    ):
        yield ready["mq"], operator


def run_by_name(runner: Samples, operator: Client, host: str, port: int) -> None:
    """Run the samples that go where MQSERVER says."""
    for name in BY_NAME:
        clear(operator)
        there = f"{channel_of(name)}/TCP/{host}({port})"
        assert runner.run(name, MQSERVER=there) == (SAID[name], ""), name


@pytest.mark.slow
def test_samples_run_with_MQSERVER(tmp_path: Path) -> None:
    with airport(tmp_path, script_of(BY_NAME, "127.0.0.1"), "127.0.0.1:0") as (there, operator):
        host, port = there.split(":")
        with samples(tmp_path / "elsewhere") as runner:
            run_by_name(runner, operator, host, int(port))


@pytest.mark.soak
def test_samples_run_with_MQSERVER_pointing_to_another_machine(
    machines: TwoMachines, tmp_path: Path
) -> None:
    """And on the machine of the server those that name a channel, to which it is localhost."""
    here = ["request_reply.py", "subscriber.py"]
    clients, server = machines.clients, machines.server
    script = script_of(BY_NAME, clients.address) + "\n" + script_of(here, "127.0.0.1")
    with airport(tmp_path, script, "0.0.0.0:1414", server) as (_, operator):
        with samples(tmp_path / "elsewhere", clients) as runner:
            run_by_name(runner, operator, server.address, 1414)
        with samples(tmp_path / "elsewhere", server) as runner:
            for name in here:
                altered = f"ALTER CHANNEL(APP.SVRCONN) CHLTYPE(SVRCONN) MCAUSER('{user_of(name)}')"
                assert operator.mqsc(altered).ok
                assert runner.run(name) == (SAID[name], ""), name


@pytest.mark.slow
def test_sample_of_two_queue_managers_at_the_ports_that_it_names(
    machines: TwoMachines, tmp_path: Path
) -> None:
    """It names two ports of localhost: the server has one, and a relay leads to it."""
    name = "two_managers.py"
    user = user_of(name)
    config = []
    for script in ("hub", "spoke"):
        manager = script.upper()
        lines = [
            (SAMPLES / f"{script}.mqsc").read_text("utf-8"),
            ONLY_CHANNELS_WITH_A_RULE,
            f"DEFINE CHANNEL(APP.SVRCONN) CHLTYPE(SVRCONN) MCAUSER('{user}')",
            "SET CHLAUTH(APP.SVRCONN) TYPE(ADDRESSMAP) ADDRESS(127.0.0.1) USERSRC(CHANNEL)",
        ]
        lines += [right.mqsc(user) for right in rights_of(name) if right.manager == manager]
        (tmp_path / f"{script}.mqsc").write_text("\n".join(lines))
        config += ["[[queue_manager]]", f'name = "{manager}"', f'mqsc = ["{script}.mqsc"]']
    (tmp_path / "config.toml").write_text("\n".join(config))
    here = machines.clients
    ports = BY_CHANNEL[name]
    with (
        serving(tmp_path, [str(tmp_path / "config.toml")], f"127.0.0.1:{ports[0]}", machine=here),
        process(
            tmp_path, "tests.relay", str(ports[1]), "127.0.0.1", str(ports[0]), machine=here
        ) as relay,
        samples(tmp_path / "elsewhere", here) as runner,
    ):
        assert relay.stdout is not None
        assert relay.stdout.readline() == "ready\n"
        assert runner.run(name) == (SAID[name], "")


@pytest.mark.soak
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_waiting_sample_goes_on_when_its_server_has_started_again(
    tmp_path: Path, end: signal.Signals
) -> None:
    name = "departures.py"
    (tmp_path / "who.mqsc").write_text(script_of([name], "127.0.0.1"))
    words = ["--mqsc", str(SAMPLES / "airport.mqsc"), "--mqsc", str(tmp_path / "who.mqsc")]
    program = ("mayfly.pymqi", str(SAMPLES / name), "60")
    with held_port() as port, ExitStack() as programs:
        with serving(tmp_path, ["AIRPORT"], f"127.0.0.1:{port}", *words) as server:
            there = f"{channel_of(name)}/TCP/127.0.0.1({port})"
            started = process(tmp_path / "elsewhere", *program, MQSERVER=there)
            sample = programs.enter_context(started)
            assert sample.stdout is not None
            assert sample.stdout.readline() == "LH400 boards\n"
            os.kill(server["pid"], end)
        with serving(tmp_path, ["AIRPORT"], f"127.0.0.1:{port}", *words):
            announce(tmp_path, "OS87 boards")
            assert sample.stdout.readline() == "OS87 boards\n"
            announce(tmp_path, "closed")
            assert sample.stdout.readline() == "closed\n"
            assert sample.wait(PATIENCE_SECONDS) == 0


def announce(home: Path, text: str) -> None:
    """Put a message for the sample that waits."""
    with operating(home, "AIRPORT") as operator:
        operator.put("ANNOUNCEMENTS", text.encode(), format_name="MQSTR")
