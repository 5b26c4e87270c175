"""``mayfly serve`` by a file: log, service manager, reload and end; and ``--check``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mayfly import QueueManager
from mayfly.cli import ping
from mayfly.cli.outcomes import ExitCode
from mayfly.cli.served import SERVED_FILE
from mayfly.client.connection import Administration
from mayfly.client.connection.endpoint import Address, Endpoint, Tls
from mayfly.client.connection.remote import connect
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from tests.cli.conftest import COMMAND, Invoke, environment, run_process
from tests.facts import PATIENCE_SECONDS
from tests.servers.certificates import certificate

CONFIG = """\
log = "json"
drain_seconds = 5

[listen]
mq = "127.0.0.1:0"
flight = "127.0.0.1:0"

[tls]
certificate = "cert.pem"
key = "key.pem"

[[queue_manager]]
name = "QM1"
path = "here"
mqsc = ["qm1.mqsc"]
lake = "lake"

[[queue_manager]]
name = "QM2"
"""


class ServiceManager(NamedTuple):
    """The socket of a service manager, which hears what a server tells it."""

    path: Path
    heard: socket.socket

    def next(self) -> list[str]:
        return self.heard.recv(4096).decode().splitlines()


@pytest.fixture
def service_manager(tmp_path: Path) -> Iterator[ServiceManager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(PATIENCE_SECONDS)
        yield ServiceManager(tmp_path / "notify", heard)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    certificate(tmp_path)
    (tmp_path / "qm1.mqsc").write_text("DEFINE QLOCAL(Q1) REPLACE\n")
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path / "config.toml"


@pytest.mark.slow
def test_a_server_by_a_file_from_its_start_to_its_end(
    config: Path, tmp_path: Path, service_manager: ServiceManager
) -> None:
    """Ready, reloaded by SIGHUP with a file that is wrong, then right; ended by SIGTERM."""
    process = subprocess.Popen(
        [*COMMAND, "serve", str(config), "--json"],
        env={**environment(tmp_path), "NOTIFY_SOCKET": str(service_manager.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            ready = json.loads(process.stdout.readline())
            assert service_manager.next() == ["READY=1", "STATUS=serving QM1, QM2"]
            listed = run_process(
                tmp_path, "mqsc", "QM1", "--path", str(tmp_path / "here"), "-c", "DISPLAY Q(Q1)"
            )
            assert "QUEUE(Q1)" in listed.stdout

            token = Path(ready["token_file"]).read_text().strip()
            announced = json.loads((tmp_path / "here" / SERVED_FILE).read_text())
            assert announced["mq_socket"] == str(tmp_path / "here" / "mq.sock")
            host, port = ready["mq"].split(":")
            over_tls = Tls(authorities=tmp_path / "cert.pem", peer_name="CN=localhost")
            for name, place, tls in (
                ("QM1", tmp_path / "here" / "mq.sock", None),
                ("QM2", Address(host, int(port)), over_tls),
            ):
                program = connect(
                    Endpoint((place,), "", name, tls), "anna", token, application="a.py"
                )
                [shown] = (
                    Administration(program.call)
                    .mqsc("DISPLAY CONN(*) WHERE(APPLTAG EQ 'a.py')")
                    .rows
                )
                assert (shown["USERID"], shown["CHANNEL"]) == ("anna", "")
                assert shown["CONNAME"] == ("127.0.0.1" if tls else "")
                lake = str(tmp_path / "lake") if name == "QM1" else ""
                assert lake in " ".join(Administration(program.call).traces.of(b"x").notes)
                program.close()

            config.write_text(CONFIG.replace('"json"', '"xml"'))
            process.send_signal(signal.SIGHUP)
            log = [json.loads(process.stderr.readline()) for _ in range(8)]
            config.write_text(CONFIG.replace("= 5", "= 6").replace("QM2", "QM3"))
            process.send_signal(signal.SIGHUP)
            assert service_manager.next() == ["RELOADING=1"]
            assert service_manager.next() == ["READY=1"]
            process.terminate()
            assert service_manager.next() == ["STOPPING=1", "STATUS=draining"]
            assert process.wait(PATIENCE_SECONDS) == 0
            log += [json.loads(line) for line in process.stderr]
        finally:
            process.kill()
    said = [row["message"] for row in log]
    assert said[:2] == [
        f"made queue manager QM1 in {tmp_path / 'here'}",
        f"made queue manager QM2 in {tmp_path / 'QM2'}",
    ]
    assert said[2:7] == [
        "made figures.db of QM1",
        "made figures.db of QM2",
        f"mq listens on {ready['mq']}",
        f"flight listens on {ready['flight']}",
        "ready: QM1, QM2",
    ]
    assert "config.toml, line 1: log: 'xml' is none of" in said[7]
    assert said[8:] == [
        "reloads",
        "queue_managers: the change counts from the next start",
        "ends: SIGTERM",
        "draining for at most 6 s",
    ]
    assert (log[4]["listener"], log[7]["level"]) == ("mq", "error")
    keys = "ready queue_managers mq flight token_file tls_certificate"
    assert list(ready) == keys.split()
    assert (ready["ready"], ready["queue_managers"]) == (True, ["QM1", "QM2"])
    assert ready["flight"].startswith("grpc+tls://127.0.0.1:")
    assert ready["token_file"] == str(tmp_path / "here" / "token")


def test_check_finds_what_is_wrong_before_anything_is_made(
    mayfly: Invoke, config: Path, tmp_path: Path
) -> None:
    right = mayfly("serve", str(config), "--check")
    assert (right.exit_code, right.stdout) == (ExitCode.DONE, f"{config}: nothing is wrong\n")
    (tmp_path / "qm1.mqsc").write_text("* Queues\nDEFINE QLOCAL(Q1\n")
    broken = mayfly("serve", str(config), "--check")
    assert broken.exit_code == ExitCode.USAGE
    assert "qm1.mqsc, line 2, column 8: the parenthesis of QLOCAL" in broken.stderr
    (tmp_path / "qm1.mqsc").unlink()
    missing = mayfly("serve", str(config), "--check")
    assert (missing.exit_code, "qm1.mqsc: No such file" in missing.stderr) == (4, True)
    config.write_text(CONFIG.replace('flight = "127.0.0.1:0"', 'flight = "127.0.0.1"'))
    wrong = mayfly("serve", str(config), "--check")
    said = f"mayfly: {config}, line 6: [listen], flight: '127.0.0.1' is not HOST:PORT"
    assert (wrong.exit_code, wrong.stderr.startswith(said)) == (ExitCode.USAGE, True)
    assert not (tmp_path / "here").exists()
    assert not (tmp_path / "QM2").exists()


def test_check_looks_for_each_channel_that_is_named(
    mayfly: Invoke, config: Path, tmp_path: Path
) -> None:
    """At each queue manager: in its scripts, in its folder, open or not; and only for clients."""
    named = '[listen]\namqp_channel = "SYSTEM.DEF.SVRCONN"\nhttp_channel = "APPS"\n'
    config.write_text(CONFIG.replace("[listen]\n", named))

    def missing() -> str:
        checked = mayfly("serve", str(config), "--check")
        assert checked.exit_code in (ExitCode.DONE, ExitCode.USAGE)
        return checked.stderr

    text = (
        "mayfly: http_channel: no channel APPS with CHLTYPE(SVRCONN) is defined at {}: "
        "neither in its folder nor by its mqsc scripts\n"
    )
    define = "DEFINE CHANNEL(APPS) CHLTYPE({})"
    assert missing() == text.format("QM1")
    (tmp_path / "qm1.mqsc").write_text(define.format("RCVR"))
    assert missing() == text.format("QM1")
    (tmp_path / "qm1.mqsc").write_text(define.format("SVRCONN") + " REPLACE\n")
    assert missing() == text.format("QM2")
    folder = tmp_path / "QM2"
    with QueueManager("QM2", folder) as manager:
        assert missing() == text.format("QM2")
        # It is in the log of the database, and nowhere else.
        assert manager.mqsc(define.format("SVRCONN")).ok
        assert missing() == ""
    files = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert missing() == ""
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == files
    (tmp_path / "qm1.mqsc").write_text(f"{define.format('SVRCONN')}\nDELETE CHANNEL(APPS)\n")
    assert missing() == text.format("QM1")
    (folder / "mayfly.db").write_bytes(b"no database")
    (tmp_path / "qm1.mqsc").write_text(define.format("SVRCONN"))
    damaged = mayfly("serve", str(config), "--check")
    assert damaged.exit_code == ExitCode.FILE
    assert f"mayfly: {folder / 'mayfly.db'} cannot be read: " in damaged.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{config}", "QM1"], "names its queue managers: 'QM1' cannot"),
        (["{config}", "--expiry-interval", "5"], "write what is about one queue manager into"),
        (["nowhere.toml"], "nowhere.toml: No such file"),
        (["QM1", "QM1"], "queue manager QM1 is named twice"),
        (["QM1", "--flight", "9414"], "--flight: '9414' is not HOST:PORT"),
        (["QM1", "--mqsc", "/nowhere.mqsc"], "/nowhere.mqsc: No such file"),
        (["QM1", "--log", "xml"], "xml"),
    ],
)
def test_a_wrong_command_line_is_refused(
    mayfly: Invoke, config: Path, words: list[str], said: str
) -> None:
    answer = mayfly("serve", *(word.format(config=config) for word in words))
    assert answer.exit_code in (ExitCode.USAGE, ExitCode.FILE)
    assert said in answer.stderr


@pytest.mark.slow
def test_a_script_with_a_wrong_command_ends_the_start(mayfly: Invoke, home: Path) -> None:
    (home / "a.mqsc").write_text("DEFINE QLOCAL(Q1) DISTL(YES)\nDEFINE QLOCAL(Q2) MAXDEPTH(-1)\n")
    answer = mayfly("serve", "QM1", "--flight", "127.0.0.1:0", "--mqsc", str(home / "a.mqsc"))
    assert answer.exit_code == ExitCode.MQ
    place = "DEFINE QLOCAL(Q2) MAXDEPTH(-1): line 2, column 19: MAXDEPTH(-1) is not right"
    assert f"{home / 'a.mqsc'}: {place}" in answer.stderr
    assert (home / "QM1").is_dir()
    # Nothing is half done.
    assert "AMQ8147E" in mayfly("mqsc", "QM1", "-c", "DISPLAY QLOCAL(Q1)").output


@pytest.mark.slow
def test_time_stands_still_until_an_operator_moves_it(
    home: Path, mayfly: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delayed message is there when the command ends, and gone when its life has ended."""
    words = ("QM1", "--dev", "--tls", "--virtual-clock", "--mq", "127.0.0.1:0", "--json")
    with subprocess.Popen(
        [*COMMAND, "serve", *words],
        env=environment(home),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            token = Path(ready["token_file"]).read_text().strip()
            host, port = ready["mq"].split(":")
            keys = "ready queue_managers mq user password token_file tls_certificate"
            assert list(ready) == keys.split()
            endpoint = Endpoint(
                (Address(host, int(port)),),
                "DEV.APP.SVRCONN",
                "QM1",
                Tls(authorities=Path(ready["tls_certificate"])),
            )
            program = connect(endpoint._replace(channel=""), "anna", token)
            assert Administration(program.call).mqsc("DEFINE QLOCAL(LATER)").ok
            app = connect(endpoint, ready["user"], ready["password"])
            app.call(ask.Open("DEV.QUEUE.1", c.MQOO_OUTPUT))
            with pytest.raises(MQError, match="MQRC_NOT_AUTHORIZED"):
                app.call(ask.Open("LATER", c.MQOO_OUTPUT))
            with pytest.raises(MQError, match="MQRC_NOT_AUTHORIZED"):
                connect(endpoint, ready["user"], "guessed")
            app.close()
            queue = program.call(ask.Open("LATER", c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED)).handle
            program.put(queue, b"x", Descriptor(), time_to_live_ms=90_000, delay_ms=60_000)
            for step, live in (("59999ms", 0), ("1ms", 1), ("29999ms", 1), ("1ms", 0)):
                moved = mayfly("clock", "advance", "QM1", step)
                assert moved.exit_code == ExitCode.DONE, moved.output
                assert Administration(program.call).counts("LATER").live == live
            assert mayfly("clock", "advance", "QM1", "5").exit_code == ExitCode.USAGE
            assert json.loads(mayfly("ping", "QM1", "--json").stdout)["state"] == "ready"
            monkeypatch.setattr(ping, "ANSWER_SECONDS", 0.1)
            process.send_signal(signal.SIGSTOP)
            # It has stopped, and not only been told to.
            os.waitpid(process.pid, os.WUNTRACED)
            silent = json.loads(mayfly("ping", "QM1", "--json", "--live").stdout)
            process.send_signal(signal.SIGCONT)
            assert (silent["state"], silent["live"]) == ("silent", False)
            program.close()
        finally:
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0


def test_what_is_for_developers_needs_dev_and_the_loopback_interface(
    mayfly: Invoke, config: Path
) -> None:
    for words, said in (
        (["--virtual-clock"], "--virtual-clock is for development: it needs --dev"),
        (["--tls"], "--tls is for development: it needs --dev"),
        (["--dev", "--mq", "0.0.0.0:0"], "--dev listens on 0.0.0.0:0, beyond the loopback"),
    ):
        for place in ("QM1", str(config)):
            if place == "QM1" or "--dev" not in words:
                answer = mayfly("serve", place, *words)
                assert (answer.exit_code, said in answer.stderr) == (ExitCode.USAGE, True)


def test_the_clock_of_a_queue_manager_that_nobody_serves_is_not_moved(queue: Invoke) -> None:
    answer = queue("clock", "advance", "QM1", "60s")
    assert (answer.exit_code, "QM1 is not served" in answer.stderr) == (ExitCode.PIPELINE, True)
