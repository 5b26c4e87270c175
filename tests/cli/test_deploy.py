"""deploy/: the unit, the image and the example that an operator begins with."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from mayfly import QueueManager, __version__
from mayfly.cli.outcomes import ExitCode
from mayfly.servers.settings import read_settings
from tests.cli.conftest import ROOT, Invoke
from tests.servers.certificates import certificate

DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "mayfly.service").read_text("utf-8")
#: Of the user in the image.
UID = 1414
#: As the example says.
DRAIN_SECONDS = 30
#: An image is made of others, which are loaded over the network, and of packages.
BUILD_SECONDS = 1_800


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile, each as its word and the rest."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


INSTRUCTIONS = instructions()


def in_folder(text: str, root: Path) -> str:
    """Return a text whose absolute paths begin at a folder."""
    return re.sub(r"(?<![\w.])/(opt|etc|var)/", rf"{root}/\1/", text)


def copied(root: Path) -> None:
    """Copy what the Containerfile copies from the checkout, to a folder in the place of its root.

    What git does not know, as compiled files, is not looked at.
    """
    for word, rest in INSTRUCTIONS:
        if word != "COPY" or rest.startswith("--from="):
            continue
        *files, target = rest.split()
        folder = root / (target[1:] if target.startswith("/") else f"source/{target}")
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            if (ROOT / file).is_dir():
                unwanted = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / file, folder, dirs_exist_ok=True, ignore=unwanted)
            else:
                shutil.copy(ROOT / file, folder)


def manifests() -> list[Any]:
    """Return the Service and the StatefulSet."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not here")
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))


def run(
    *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of this machine to its end."""
    return subprocess.run(
        words,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the configuration with a certificate, as /etc/mayfly has it."""
    (tmp_path / "tls").mkdir()
    for name in ("config.toml", "qm1.mqsc"):
        shutil.copy(DEPLOY / name, tmp_path)
    chain, key = certificate(tmp_path / "tls")
    chain.rename(chain.with_name("tls.crt"))
    key.rename(key.with_name("tls.key"))
    return tmp_path / "config.toml"


def test_the_example_is_right_and_its_script_can_run_at_each_start(
    mayfly: Invoke, installed: Path
) -> None:
    checked = mayfly("serve", str(installed), "--check")
    assert (checked.exit_code, checked.stderr) == (ExitCode.DONE, "")
    [served] = read_settings(installed).queue_managers
    with QueueManager(served.name) as manager:
        for script in served.mqsc * 2:
            assert manager.mqsc(script.read_text("utf-8")).ok


def test_the_example_does_not_start_without_a_certificate(mayfly: Invoke, installed: Path) -> None:
    (installed.parent / "tls/tls.key").unlink()
    refused = mayfly("serve", str(installed), "--check")
    assert refused.exit_code == ExitCode.USAGE
    assert f"[tls], key: there is no file {installed.parent / 'tls/tls.key'}" in refused.stderr


def test_the_unit_runs_commands_that_are_there(mayfly: Invoke) -> None:
    """systemd waits for READY=1, and gives a drain more time than the example says."""
    assert f"drain_seconds = {DRAIN_SECONDS}\n" in (DEPLOY / "config.toml").read_text("utf-8")
    starts = re.findall(r"^ExecStart(?:Pre)?=(.*)$", UNIT, re.MULTILINE)
    assert [shlex.split(start)[1] for start in starts] == ["serve", "serve"]
    assert "Type=notify\n" in UNIT
    [stop_seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(stop_seconds) > DRAIN_SECONDS


def test_the_image_builds_from_what_is_copied(tmp_path: Path) -> None:
    copied(tmp_path)
    made = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", cwd=tmp_path / "source")
    assert made.returncode == 0, made.stderr
    [wheel] = (tmp_path / "source/dist").iterdir()
    assert wheel.name == f"mayfly_mq-{__version__}-py3-none-any.whl"


def test_the_image_serves_other_machines_as_a_user_and_is_looked_after(installed: Path) -> None:
    last = dict(INSTRUCTIONS)
    assert last["USER"] == "mayfly"
    assert f"useradd --system --uid {UID} " in "".join(rest for _, rest in INSTRUCTIONS)
    settings = read_settings(installed)
    assert settings.listen.mq is not None
    assert settings.listen.http is not None
    assert {settings.listen.mq.host, settings.listen.http.host} == {"0.0.0.0"}
    assert last["EXPOSE"].split() == [str(settings.listen.mq.port), str(settings.listen.http.port)]
    _, _, probe = last["HEALTHCHECK"].partition("CMD ")
    assert json.loads(probe) == ["mayfly", "ping", settings.queue_managers[0].name]
    assert json.loads(last["CMD"]) == ["/etc/mayfly/config.toml"]


@pytest.mark.soak
def test_the_steps_of_the_image_lead_to_a_server_that_is_ready(
    tmp_path: Path, installed: Path
) -> None:
    """In a folder in the place of its root, without an engine of containers.

    A new user and the rights of its folder are left out, for they need root.
    """
    copied(tmp_path)
    for word, rest in INSTRUCTIONS:
        if word == "RUN" and not rest.startswith(("useradd", "chmod")):
            done = run("sh", "-ec", in_folder(rest, tmp_path), cwd=tmp_path / "source")
            assert done.returncode == 0, done.stderr
    # The ports of the example may be somebody's.
    etc = tmp_path / "etc/mayfly"
    shutil.copytree(installed.parent / "tls", etc / "tls")
    config = etc / "config.toml"
    config.write_text(re.sub(r":\d+\"$", ':0"', config.read_text("utf-8"), flags=re.MULTILINE))
    last = dict(INSTRUCTIONS)
    variables = [word.split("=", 1) for word in shlex.split(last["ENV"])]
    environment = {
        name: in_folder(value, tmp_path).replace("$PATH", os.environ["PATH"])
        for name, value in variables
    }
    command = [*json.loads(last["ENTRYPOINT"]), in_folder(json.loads(last["CMD"])[0], tmp_path)]
    mayfly = str(tmp_path / "opt/mayfly/bin" / command[0])
    with subprocess.Popen([mayfly, *command[1:]], env=environment, stdout=PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        _, _, probe = last["HEALTHCHECK"].partition("CMD ")
        healthy = run(mayfly, *json.loads(probe)[1:], env=environment)
        assert (healthy.returncode, healthy.stdout) == (0, "QM1: ready\n")
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


@pytest.mark.soak
def test_the_image_is_built_and_says_its_version(tmp_path: Path) -> None:
    engine = next(filter(None, map(shutil.which, ("podman", "docker"))), None)
    if engine is None or run(engine, "info").returncode:
        pytest.skip("no engine of containers runs here")
    image = run(engine, "build", "-q", "-f", str(DEPLOY / "Containerfile"), str(ROOT))
    assert image.returncode == 0, image.stderr
    said = run(engine, "run", "--rm", "--entrypoint", "mayfly", image.stdout.strip(), "--version")
    assert said.stdout.startswith("mayfly "), said.stderr


def test_the_manifests_are_right_to_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not here")
    for manifest in manifests():
        validate.validate(manifest, validate.latest_version(), strict=True)


def test_the_manifests_say_what_image_and_configuration_say(installed: Path) -> None:
    service, state = manifests()
    pod = state["spec"]["template"]["spec"]
    [container] = pod["containers"]
    settings = read_settings(installed)
    assert settings.listen.mq is not None
    assert settings.listen.http is not None
    ports = [settings.listen.mq.port, settings.listen.http.port]
    assert [port["port"] for port in service["spec"]["ports"]] == ports
    assert [port["containerPort"] for port in container["ports"]] == ports
    assert container["image"] == f"mayfly:{__version__}"
    assert pod["securityContext"]["runAsUser"] == UID
    assert pod["terminationGracePeriodSeconds"] > settings.drain_seconds
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"/var/lib/mayfly", "/etc/mayfly", "/tmp"}
    [configuration] = [v for v in pod["volumes"] if v["name"] == "configuration"]
    _, secret = configuration["projected"]["sources"]
    places = {str(installed.parent / item["path"]) for item in secret["secret"]["items"]}
    assert places == {str(settings.tls.certificate), str(settings.tls.key)}
    assert state["spec"]["replicas"] == 1
