"""deploy/kubernetes-replica.yaml: what its containers run, run for real beside PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from typing import Any, ClassVar
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from mayfly import __version__
from mayfly.servers.settings import read_settings
from tests.cli.conftest import ROOT
from tests.facts import wait_until
from tests.postgres import Postgres
from tests.servers.certificates import certificate

DEPLOY = ROOT / "deploy"
#: What the secret of the database has, by the variables that it becomes.
SECRET = {"PGHOST": "host", "PGPORT": "port", "PGDATABASE": "dbname"} | {
    "PGUSER": "username",
    "PGPASSWORD": "password",
}


def manifests() -> dict[str, Any]:
    """Return the manifests by kind; of the two Services the one for clients."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not here")
    found = list(yaml.safe_load_all((DEPLOY / "kubernetes-replica.yaml").read_text("utf-8")))
    # The headless one comes later.
    return {each["kind"]: each for each in reversed(found)} | {"all": found}


def containers() -> dict[str, Any]:
    pod = manifests()["StatefulSet"]["spec"]["template"]["spec"]
    return {each["name"]: each for each in pod["containers"]}


def test_the_manifests_are_right_to_kubernetes() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not here")
    for manifest in manifests()["all"]:
        validate.validate(manifest, validate.latest_version(), strict=True)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The configuration with a certificate, as the pods have it in /etc/mayfly."""
    folder = tmp_path / "etc"
    (folder / "tls").mkdir(parents=True)
    shutil.copy(DEPLOY / "replica.toml", folder / "config.toml")
    shutil.copy(DEPLOY / "qm1.mqsc", folder)
    shutil.copy(DEPLOY / "owner_endpoint.py", folder)
    chain, key = certificate(folder / "tls")
    chain.rename(chain.with_name("tls.crt"))
    key.rename(key.with_name("tls.key"))
    return folder


def test_the_manifests_say_what_image_and_configuration_say(installed: Path) -> None:
    found, inside = manifests(), containers()
    settings = read_settings(installed / "config.toml")
    listen = settings.listen
    assert listen.mq is not None
    assert listen.http is not None
    ports = [listen.mq.port, listen.http.port]
    assert [port["port"] for port in found["Service"]["spec"]["ports"]] == ports
    assert [port["port"] for port in found["EndpointSlice"]["ports"]] == ports
    assert [port["containerPort"] for port in inside["mayfly"]["ports"]] == ports
    assert {each["image"] for each in inside.values()} == {f"mayfly:{__version__}"}
    assert "replica" in (DEPLOY / "Containerfile").read_text("utf-8")
    spec = found["StatefulSet"]["spec"]
    assert spec["replicas"] > 1
    [_service, headless] = [each for each in found["all"] if each["kind"] == "Service"]
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["metadata"]["name"] == spec["serviceName"]
    # Nobody but the owner is an endpoint of the other Service.
    service = found["Service"]
    assert "selector" not in service["spec"]
    labels = found["EndpointSlice"]["metadata"]["labels"]
    assert labels["kubernetes.io/service-name"] == service["metadata"]["name"]
    name = found["EndpointSlice"]["metadata"]["name"]
    assert found["Role"]["rules"][0]["resourceNames"] == [name]
    assert plain_variables(inside["endpoint"])["ENDPOINT_SLICE"] == name
    pod = spec["template"]["spec"]
    waits = 20 + settings.drain_seconds
    assert "--wait 20" in pre_stop()[-1]
    assert pod["terminationGracePeriodSeconds"] > waits
    [queue_manager] = settings.queue_managers
    assert pre_stop()[-1].count(f" {queue_manager.name}") == 2
    assert f"--replica {queue_manager.replica} " in pre_stop()[-1]
    references = {
        each["name"]: each["valueFrom"]["secretKeyRef"]["key"]
        for each in inside["mayfly"]["env"]
        if "secretKeyRef" in each.get("valueFrom", {})
    }
    assert references == SECRET


def plain_variables(container: Any) -> dict[str, str]:
    """Return those variables of a container whose value is in the manifest."""
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def pre_stop() -> list[str]:
    command: list[str] = containers()["mayfly"]["lifecycle"]["preStop"]["exec"]["command"]
    return command


class EndpointSlices(BaseHTTPRequestHandler):
    """The one resource of Kubernetes' API that the container `endpoint` writes."""

    path_of_slice: ClassVar = (
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/mayfly-owner"
    )
    #: Addresses of the latest patch; a test empties it.
    addresses: ClassVar[list[str]] = []

    def do_PATCH(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_right = (
            self.path == self.path_of_slice
            and self.headers["Authorization"] == "Bearer a token"
            and self.headers["Content-Type"] == "application/merge-patch+json"
        )
        if is_right:
            [endpoint] = content["endpoints"]
            assert endpoint["conditions"] == {"ready": True}
            self.addresses[:] = endpoint["addresses"]
        self.send_response(200 if is_right else 403)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@contextmanager
def kubernetes_api(installed: Path) -> Iterator[int]:
    """Serve the API with the certificate of the pods; return its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(installed / "tls/tls.crt", installed / "tls/tls.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), EndpointSlices) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class Pod:
    """The processes of one pod, with the commands and variables of the manifest."""

    def __init__(
        self, installed: Path, ip: str, database: Mapping[str, str], stack: ExitStack
    ) -> None:
        self.ip, self._installed, self._stack = ip, installed, stack
        self._log = installed.with_name(f"{ip}.log")
        self._environment: dict[str, str] = {
            "PATH": f"{installed.with_name('bin')}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "MAYFLY_HOME": str(installed.with_name(ip)),
            **database,
        }
        config = installed / f"{ip}.toml"
        config.write_text((installed / "config.toml").read_text().replace("0.0.0.0", ip))
        self.server = self._started("mayfly", ["mayfly", "serve", str(config), "--json"], {})
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        assert line, self._log.read_text()
        self.role = json.loads(line)["role"]

    def _started(
        self, name: str, command: list[str], more: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        """Start a process with the variables of a container, which ends with the test."""
        environment = self._environment | plain_variables(containers()[name]) | dict(more)
        with self._log.open("a") as log:
            process = subprocess.Popen(command, env=environment, stdout=PIPE, stderr=log, text=True)
        self._stack.callback(process.communicate)
        self._stack.callback(process.kill)
        return process

    def begin_endpoint(self, api_port: int, account: Path) -> None:
        """Start the container beside the server."""
        container = containers()["endpoint"]
        command = [
            each.replace("/etc/mayfly", str(self._installed)) for each in container["command"]
        ]
        more = {
            "READY_URL": plain_variables(container)["READY_URL"].replace("127.0.0.1", self.ip),
            "SERVICE_ACCOUNT": str(account),
            "POD_IP": self.ip,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(api_port),
        }
        self._endpoint = self._started("endpoint", command, more)

    def end_endpoint(self) -> None:
        """End that container, as Kubernetes does when the end of its pod begins."""
        self._endpoint.send_signal(signal.SIGTERM)
        assert self._endpoint.wait() == 0

    def pre_stop(self) -> None:
        """Run the hook that Kubernetes runs meanwhile, before it ends the server."""
        done = subprocess.run(
            pre_stop(), env=self._environment, capture_output=True, text=True, check=False
        )
        assert not done.returncode, done.stderr

    def is_ready(self) -> bool:
        """Ask the probe of the manifest; as Kubernetes does it, any certificate will do."""
        probe = containers()["mayfly"]["readinessProbe"]["httpGet"]
        url = f"{probe['scheme'].lower()}://{self.ip}:9443{probe['path']}"
        context = ssl._create_unverified_context()
        try:
            with urlopen(url, context=context):
                return True
        except HTTPError as error:
            with error:
                return False


def addresses() -> tuple[str, str]:
    """Return two addresses of the loopback interface that no other test process has."""
    first, second = divmod(os.getpid() % 2**16, 2**8)
    return f"127.{first}.{second}.11", f"127.{first}.{second}.12"


@pytest.mark.soak
def test_pods_of_an_owner_and_a_standby_are_ready_and_the_service_follows_a_switch(
    tmp_path: Path, installed: Path
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("a token")
    (account / "namespace").write_text("default")
    shutil.copy(installed / "tls/tls.crt", account / "ca.crt")
    programs = installed.with_name("bin")
    programs.mkdir()
    (programs / "mayfly").write_text(f'#!/bin/sh\nexec {sys.executable} -m mayfly "$@"\n')
    (programs / "mayfly").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    with ExitStack() as stack:
        server = Postgres()
        stack.callback(server.close)
        values = {"host": str(server.folder), "port": "5432", "dbname": "postgres"}
        values |= {"username": "mayfly", "password": "unused"}
        database = {variable: values[key] for variable, key in SECRET.items()}
        api_port = stack.enter_context(kubernetes_api(installed))
        pods = [Pod(installed, ip, database, stack) for ip in addresses()]
        owner, standby = pods
        assert (owner.role, standby.role) == ("owner", "standby")
        for pod in pods:
            pod.begin_endpoint(api_port, account)
        wait_until(lambda: all(pod.is_ready() for pod in pods))
        wait_until(lambda: EndpointSlices.addresses == [owner.ip])
        # A standby ends without a switch, else the owner would hand over to a pod that ends.
        standby.pre_stop()
        assert EndpointSlices.addresses == [owner.ip]
        owner.end_endpoint()
        owner.pre_stop()
        wait_until(lambda: EndpointSlices.addresses == [standby.ip])
        owner.server.send_signal(signal.SIGTERM)
        assert owner.server.wait() == 0
        assert EndpointSlices.addresses == [standby.ip]
