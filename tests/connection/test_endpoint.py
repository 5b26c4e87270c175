"""Where a client connects to: connection names, CipherSpecs and key files."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from mayfly.client.connection.endpoint import Address, Endpoint, Tls, addresses_of
from mayfly.mqi.errors import MQError


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("mq.example", [("mq.example", 1414)]),
        ("mq.example(1415)", [("mq.example", 1415)]),
        ("a(1414),b(1415), c", [("a", 1414), ("b", 1415), ("c", 1414)]),
        ("[2001:db8::1](1416)", [("2001:db8::1", 1416)]),
        ("2001:db8::1(1416)", [("2001:db8::1", 1416)]),
        ("::1", [("::1", 1414)]),
        ("10.0.0.7(65535)", [("10.0.0.7", 65535)]),
    ],
)
def test_connection_names(name: str, addresses: list[tuple[str, int]]) -> None:
    assert list(addresses_of(name)) == addresses
    again = ",".join(str(Address(*each)) for each in addresses)
    assert list(addresses_of(again)) == addresses


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a,,b",
        "a(",
        "a(0)",
        "a(65536)",
        "a(x)",
        "a()",
        "a b",
        "(1414)",
        "a(1)b",
        "a(\u0661)",
        "[a",
    ],
)
def test_connection_names_that_are_none_are_2538(name: str) -> None:
    with pytest.raises(MQError) as raised:
        addresses_of(name)
    assert raised.value.reason == 2538
    assert repr(name) in raised.value.detail


def test_an_endpoint_has_the_defaults_of_a_channel_definition() -> None:
    endpoint = Endpoint(addresses_of("a(1),b"), "APP.SVRCONN")
    assert str(endpoint) == "APP.SVRCONN/TCP/a(1),b(1414)"
    assert endpoint[2:] == ("", None, 300, 10, 4_194_304)


@pytest.mark.parametrize(
    ("cipher", "lowest", "highest"),
    [
        ("ANY_TLS12_OR_HIGHER", "TLSv1_2", "MAXIMUM_SUPPORTED"),
        ("ANY_TLS12", "TLSv1_2", "TLSv1_2"),
        ("ANY_TLS13", "TLSv1_3", "TLSv1_3"),
        ("TLS_AES_256_GCM_SHA384", "TLSv1_3", "MAXIMUM_SUPPORTED"),
        ("ECDHE_RSA_AES_256_GCM_SHA384", "TLSv1_2", "TLSv1_2"),
    ],
)
def test_a_cipher_spec_says_the_versions(cipher: str, lowest: str, highest: str) -> None:
    context = Tls(cipher).context()
    assert (context.minimum_version.name, context.maximum_version.name) == (lowest, highest)
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("cipher", "suite"),
    [
        ("ECDHE_RSA_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("ECDHE_ECDSA_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"),
    ],
)
def test_a_cipher_spec_of_tls_1_2_is_one_suite(cipher: str, suite: str) -> None:
    suites = [each for each in Tls(cipher).context().get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert [each["name"] for each in suites] == [suite]


def test_a_name_of_the_peer_takes_the_place_of_the_host_name() -> None:
    context = Tls(peer_name="CN=qm1").context()
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_an_unknown_cipher_spec_is_2393_and_says_which() -> None:
    with pytest.raises(MQError, match="TRIPLE_DES_SHA_US") as raised:
        Tls("TRIPLE_DES_SHA_US").context()
    assert raised.value.reason == 2393


@pytest.mark.parametrize("field", ["authorities", "certificate"])
def test_a_key_file_that_cannot_be_used_is_2381_and_says_which(tmp_path: Path, field: str) -> None:
    missing, wrong = tmp_path / "missing.pem", tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for path in (missing, wrong):
        tls = Tls(authorities=path) if field == "authorities" else Tls(certificate=path)
        with pytest.raises(MQError) as raised:
            tls.context()
        assert raised.value.reason == 2381
        assert str(path) in raised.value.detail
