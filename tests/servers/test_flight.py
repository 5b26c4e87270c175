"""The Flight server over real sockets and a real ledger."""

import json
import re
import socket
import stat
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from mayfly.pipeline.bulk.client import SOCKET_FILE, LedgerClient, folder_url
from mayfly.pipeline.bulk.errors import (
    BadRequest,
    BulkError,
    NoCertificate,
    NoRoots,
    NoToken,
    OtherInstance,
    PositionBeyondEnd,
    PositionTrimmed,
    ServerNotReachable,
    UnknownManager,
    WrongToken,
    from_flight,
)
from mayfly.pipeline.bulk.schema import LEDGER
from mayfly.queue_manager import QueueManager
from mayfly.servers.flight import PAGE_ROWS, FlightServer
from mayfly.servers.managers import ManagerTable, OwnerPlace
from mayfly.verbs.contracts.ledger import LedgerInfo
from tests.bulk.books import TOKEN, KeptBooks, kept_books, life
from tests.ports import held_port
from tests.servers.certificates import certificate


@pytest.fixture
def books() -> Iterator[KeptBooks]:
    with kept_books() as books:
        yield books


@pytest.fixture
def server(books: KeptBooks) -> Iterator[FlightServer]:
    with FlightServer(books, port=0, token=TOKEN) as server:
        yield server


@pytest.fixture
def client(server: FlightServer) -> Iterator[LedgerClient]:
    with LedgerClient(server.url, token=TOKEN) as client:
        yield client


def positions(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [position for batch in batches for position in batch.column("position").to_pylist()]


def ask(server: FlightServer, ticket: bytes) -> BulkError:
    """Return what the server answers to a ticket no client of ours would send."""
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with (
        flight.connect(server.url) as connection,
        pytest.raises(flight.FlightError) as raised,
    ):
        connection.do_get(flight.Ticket(ticket), options).read_all()
    return from_flight(raised.value, server.url)


def test_an_empty_ledger_begins_where_it_ends(books: KeptBooks, client: LedgerClient) -> None:
    assert client.info() == LedgerInfo("QM1", books.ledger.instance_id, 1, 0)
    assert list(client.read(0, 0)) == []


def test_a_range_comes_whole_and_in_order(books: KeptBooks, client: LedgerClient) -> None:
    books.end_many(2 * PAGE_ROWS + 5)
    # The store adds a balance row of its own.
    assert client.info().last_position == books.ledger.last_position() == 2 * PAGE_ROWS + 6
    assert positions(client.read(10, 2 * PAGE_ROWS + 3)) == list(range(11, 2 * PAGE_ROWS + 4))


def test_the_ledger_knows_how_far_a_reader_has_come(books: KeptBooks, client: LedgerClient) -> None:
    books.end_many(100)
    assert books.ledger.asked_position is None
    for after, until, known in ((0, 40, 0), (40, 100, 40), (10, 20, 40)):
        assert len(positions(client.read(after, until))) == until - after
        assert books.ledger.asked_position == known


def test_rows_arrive_as_the_ledger_has_them(books: KeptBooks, client: LedgerClient) -> None:
    ended = life(3, expire_at_ms=1_800_000_000_000, correl_id=b"c" * 24)
    books.end(ended)
    [batch] = client.read(0, 1)
    assert batch.schema == LEDGER
    [row] = batch.to_pylist()
    assert {name: row[name] for name in ended._fields} == ended._asdict()
    assert (row["manager"], row["instance_id"]) == ("QM1", books.ledger.instance_id)


def test_batches_stay_under_the_limit_asked_for(books: KeptBooks, client: LedgerClient) -> None:
    books.end_many(1_000)
    batches = list(client.read(0, 1_000, max_bytes=20_000))
    assert len(batches) > 10
    assert max(batch.nbytes for batch in batches) <= 20_000


def test_a_row_larger_than_grpc_allows_by_default_arrives(
    books: KeptBooks, client: LedgerClient
) -> None:
    books.end(life(1), life(2, correl_id=bytes(8 * 1024 * 1024)), life(3))
    assert [len(b.column("correl_id")[0].as_py()) for b in client.read(0, 3, max_bytes=1)] == [
        24,
        8 * 1024 * 1024,
        24,
    ]


@pytest.mark.parametrize("token", ["correct hors", "correct horse!", "correct horsf"])
def test_a_wrong_token_is_refused_on_every_call(server: FlightServer, token: str) -> None:
    with LedgerClient(server.url, token=token) as client:
        with pytest.raises(WrongToken, match="missing or wrong"):
            client.info()
        with pytest.raises(WrongToken, match=server.url):
            list(client.read(0, 0))


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer ")]], ids=["none", "empty"])
def test_a_call_without_a_token_is_refused(
    server: FlightServer, headers: list[tuple[bytes, bytes]]
) -> None:
    with (
        flight.connect(server.url) as connection,
        pytest.raises(flight.FlightUnauthenticatedError, match="mayfly: wrong-token"),
    ):
        list(connection.list_actions(flight.FlightCallOptions(headers=headers)))


def test_an_empty_token_is_refused_by_server_and_client(books: KeptBooks) -> None:
    with pytest.raises(ValueError, match="token is empty"):
        FlightServer(books, token="")
    with pytest.raises(ValueError, match="token is empty"):
        LedgerClient("grpc://127.0.0.1:1", token="")


@pytest.mark.parametrize("token", ["pferd-ü", "two\nlines", " spaced "])
def test_a_token_that_no_header_can_hold_is_refused_unshown(books: KeptBooks, token: str) -> None:
    for refused in (
        lambda: LedgerClient("grpc://127.0.0.1:1", token=token),
        lambda: FlightServer(books, token=token),
    ):
        with pytest.raises(ValueError, match="other than printable ASCII") as raised:
            refused()
        assert token not in str(raised.value)


def test_the_token_shows_in_no_representation(server: FlightServer, client: LedgerClient) -> None:
    assert repr(client) == f"LedgerClient('{server.url}')"
    assert TOKEN not in repr(server)


def test_the_token_comes_from_the_file_then_from_the_environment(
    server: FlightServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    with LedgerClient(server.url, token_file=file) as client:
        assert client.info().manager == "QM1"
    with pytest.raises(NoToken, match="MAYFLY_TOKEN"):
        LedgerClient(server.url)
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    with LedgerClient(server.url) as client:
        assert client.info().manager == "QM1"
    file.write_text("\n")
    with pytest.raises(NoToken, match="is empty"):
        LedgerClient(server.url, token_file=file)
    with pytest.raises(NoToken, match="gone cannot be read"):
        LedgerClient(server.url, token_file=tmp_path / "gone")


def test_a_trimmed_position_is_named_with_the_first_one_held(
    books: KeptBooks, client: LedgerClient
) -> None:
    books.end_many(100)
    books.trim(40)
    assert client.info().first_position == 61
    with pytest.raises(PositionTrimmed, match=r"position 60 is trimmed.*61"):
        list(client.read(59, 100))
    assert positions(client.read(60, 100)) == list(range(61, 101))


def test_rows_trimmed_while_they_are_read_end_the_call(
    books: KeptBooks, client: LedgerClient
) -> None:
    books.end_many(20 * PAGE_ROWS)
    # Small batches: the server cannot run ahead of the reader by more than gRPC's window.
    batches = client.read(0, 20 * PAGE_ROWS, max_bytes=20_000)
    next(batches)
    books.trim(0)
    # The store trims in steps; how far it has come by then is its affair.
    with pytest.raises(PositionTrimmed, match=r"is trimmed; the first one held is \d+"):
        list(batches)


def test_a_position_past_the_end_is_refused(books: KeptBooks, client: LedgerClient) -> None:
    books.end_many(5)
    with pytest.raises(
        PositionBeyondEnd, match="position 6 was asked for and the ledger ends at 5"
    ):
        list(client.read(0, 6))


def test_positions_of_another_store_are_refused(books: KeptBooks, client: LedgerClient) -> None:
    books.end_many(5)
    assert positions(client.read(0, 5, instance_id=books.ledger.instance_id)) == [1, 2, 3, 4, 5]
    with pytest.raises(OtherInstance, match=f"store feed.*store {books.ledger.instance_id}"):
        list(client.read(0, 5, instance_id="feed"))


def test_one_server_serves_several_queue_managers(books: KeptBooks) -> None:
    with (
        kept_books(name="QM2") as other,
        FlightServer([books, other], port=0, token=TOKEN) as server,
    ):
        other.end_many(3)
        with LedgerClient(server.url, token=TOKEN, manager="QM2") as client:
            assert client.info() == LedgerInfo("QM2", other.ledger.instance_id, 1, 3)
            assert positions(client.read(0, 3)) == [1, 2, 3]
        for manager in (None, "QM3"):
            with (
                LedgerClient(server.url, token=TOKEN, manager=manager) as client,
                pytest.raises(UnknownManager, match="served: QM1, QM2"),
            ):
                client.info()


@pytest.mark.parametrize(
    ("ticket", "text"),
    [
        (b"\xff", "must be a JSON object"),
        (b"[" * 100_000, "must be a JSON object"),
        (b"[]", "must be a JSON object"),
        (b"{}", "a ticket has the one verb 'ledger'"),
        (b'{"claim": {}}', "not \\['claim'\\]"),
        (b'{"ledger": {"after": 0}}', "until"),
        (b'{"ledger": {"after": 0, "until": 0, "limit": 1}}', "limit"),
        (b'{"ledger": {"after": "0", "until": 0}}', "whole numbers"),
        (b'{"ledger": {"after": true, "until": 1}}', "whole numbers"),
        (b'{"ledger": {"after": -1, "until": 0}}', "does not hold"),
        (b'{"ledger": {"after": 1, "until": 0}}', "does not hold"),
        (
            b'{"ledger": {"after": 0, "until": 0, "max_bytes": 0}}',
            "max_bytes must be at least 1, not 0",
        ),
        (
            b'{"ledger": {"after": 0, "until": 0, "max_bytes": "1"}}',
            "max_bytes must be a whole number, not '1'",
        ),
    ],
)
def test_a_ticket_that_makes_no_sense_is_refused(
    server: FlightServer, ticket: bytes, text: str
) -> None:
    error = ask(server, ticket)
    assert isinstance(error, BadRequest)
    with pytest.raises(BadRequest, match=text):
        raise error


def test_the_reason_stands_in_the_message_and_as_json(server: FlightServer) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    ticket = json.dumps({"ledger": {"after": 0, "until": 9}}).encode()
    with (
        flight.connect(server.url) as connection,
        pytest.raises(flight.FlightServerError, match="mayfly: position-beyond-end ") as raised,
    ):
        connection.do_get(flight.Ticket(ticket), options).read_all()
    assert json.loads(raised.value.extra_info)["reason"] == "position-beyond-end"


def test_an_unknown_action_is_refused(server: FlightServer) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with (
        flight.connect(server.url) as connection,
        pytest.raises(flight.FlightServerError, match="mayfly: bad-request unknown action 'drop'"),
    ):
        list(connection.do_action(flight.Action("drop", b"{}"), options))


def test_nobody_there_names_the_url(books: KeptBooks) -> None:
    with (
        held_port() as port,
        FlightServer(books, port=port, token=TOKEN) as server,
        LedgerClient(server.url, token=TOKEN) as client,
    ):
        url = server.url
        assert client.info().manager == "QM1"
        server.stop()
        with pytest.raises(
            ServerNotReachable, match=f"no Mayfly server answers at {url}"
        ) as raised:
            client.info()
    assert raised.value.text.endswith("Connection refused")
    assert "".join(traceback.format_exception(raised.value)).count("Traceback") == 1


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9414", "http://127.0.0.1:9414", "grpc://127.0.0.1", "grpc://h:port", "://"]
)
def test_a_url_of_another_form_is_refused_by_name(url: str) -> None:
    with pytest.raises(ValueError, match=re.escape(url.rsplit(":", 1)[-1])):
        LedgerClient(url, token=TOKEN)


def test_a_port_that_is_taken_is_an_os_error(books: KeptBooks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = FlightServer(books, port=port, token=TOKEN)
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            server.start()


def test_a_server_that_cannot_listen_says_why(books: KeptBooks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use$"):
            FlightServer(books, port=port, token=TOKEN).start()
    elsewhere = FlightServer(books, "192.0.2.1", 0, token=TOKEN, without_client_certificates=True)
    with pytest.raises(OSError, match=r"192\.0\.2\.1:0: Cannot assign requested address$"):
        elsewhere.start()
    with pytest.raises(OSError, match="the certificate, its key or the authorities of clients"):
        FlightServer(books, port=0, token=TOKEN, tls_certificate=(b"x", b"y")).start()


def test_roots_that_hold_no_certificate_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, said in (("gone", "cannot be read: No such file"), ("key", "has no certificate")):
        (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----")
        monkeypatch.setenv("MAYFLY_TLS_ROOTS", str(tmp_path / name))
        with pytest.raises(NoRoots, match=f"MAYFLY_TLS_ROOTS: {tmp_path / name} {said}"):
            LedgerClient("grpc+tls://127.0.0.1:1", token=TOKEN)


def test_a_stopped_server_can_be_started_again(books: KeptBooks) -> None:
    server = FlightServer(books, port=0, token=TOKEN)
    for _ in range(2):
        server.start()
        with LedgerClient(server.url, token=TOKEN) as client:
            assert client.info().manager == "QM1"
        server.stop()
    server.stop()


@pytest.mark.slow
def test_a_client_that_reads_no_more_does_not_hold_the_server(books: KeptBooks) -> None:
    books.end_many(20 * PAGE_ROWS)
    server = FlightServer(books, port=0, token=TOKEN)
    server.start()
    with LedgerClient(server.url, token=TOKEN) as client:
        batches = client.read(0, 20 * PAGE_ROWS, max_bytes=20_000)
        next(batches)
        server.stop()
        batches.close()  # type: ignore[attr-defined]  # it is a generator


@pytest.mark.slow
def test_tls_keeps_the_token_from_the_wire(
    books: KeptBooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, private = certificate(tmp_path)
    pair = chain.read_bytes(), private.read_bytes()
    with FlightServer(books, port=0, token=TOKEN, tls_certificate=pair) as server:
        assert server.url.startswith("grpc+tls://127.0.0.1:")
        monkeypatch.setenv("MAYFLY_TLS_ROOTS", str(chain))
        with LedgerClient(server.url, token=TOKEN) as client:
            assert client.info().manager == "QM1"
        monkeypatch.delenv("MAYFLY_TLS_ROOTS")
        with (
            LedgerClient(server.url, token=TOKEN) as client,
            pytest.raises(ServerNotReachable, match="certificate"),
        ):
            client.info()


# Who can connect


def action(server: FlightServer, name: str, body: bytes) -> BulkError:
    """Return what the server answers to an action no client of ours would ask for."""
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with (
        flight.connect(server.url) as connection,
        pytest.raises(flight.FlightError) as raised,
    ):
        list(connection.do_action(flight.Action(name, body), options))
    return from_flight(raised.value, server.url)


def test_an_action_that_is_nested_too_deeply_is_refused(server: FlightServer) -> None:
    refused = action(server, "ledger-info", b"[" * 100_000)
    assert isinstance(refused, BadRequest)
    assert refused.text == f"a ticket or action body must be a JSON object (server {server.url})"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "localhost", "::1", "[::1]"])
def test_loopback_asks_for_no_client_certificates(books: KeptBooks, host: str) -> None:
    assert FlightServer(books, host, 0, token=TOKEN).url.endswith(f"{host}:0")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "mq1.example", ""])
def test_a_host_of_other_machines_asks_for_client_certificates_unless_told_not_to(
    books: KeptBooks, host: str
) -> None:
    with pytest.raises(ValueError, match=f"host '{host}' is open to other machines"):
        FlightServer(books, host, 0, token=TOKEN)
    FlightServer(books, host, 0, token=TOKEN, without_client_certificates=True)


def test_client_certificates_that_contradict_are_refused(books: KeptBooks) -> None:
    with pytest.raises(ValueError, match="over TLS alone: name tls_certificate"):
        FlightServer(books, token=TOKEN, client_roots=b"x")
    with pytest.raises(ValueError, match="contradict each other"):
        FlightServer(
            books,
            token=TOKEN,
            tls_certificate=(b"x", b"x"),
            client_roots=b"x",
            without_client_certificates=True,
        )


def test_a_server_for_other_machines_is_reached_on_each_of_its_addresses(
    books: KeptBooks,
) -> None:
    with (
        FlightServer(books, "0.0.0.0", 0, token=TOKEN, without_client_certificates=True) as server,
        LedgerClient(f"grpc://127.0.0.2:{server.port}", token=TOKEN) as client,
    ):
        assert client.info().manager == "QM1"


@pytest.mark.slow
def test_a_client_without_a_certificate_cannot_connect_where_one_is_asked_for(
    books: KeptBooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {}
    for owner in ("server", "client", "stranger"):
        (tmp_path / owner).mkdir()
        files[owner] = certificate(tmp_path / owner)
    chain, key = (file.read_bytes() for file in files["server"])
    authority = files["client"][0].read_bytes()
    with FlightServer(
        books, "0.0.0.0", 0, token=TOKEN, tls_certificate=(chain, key), client_roots=authority
    ) as server:
        url = f"grpc+tls://127.0.0.1:{server.port}"
        monkeypatch.setenv("MAYFLY_TLS_ROOTS", str(files["server"][0]))

        def ask(owner: str | None) -> LedgerInfo:
            for name, file in zip(
                ("MAYFLY_TLS_CERTIFICATE", "MAYFLY_TLS_KEY"),
                ("", "") if owner is None else files[owner],
                strict=True,
            ):
                monkeypatch.setenv(name, str(file))
            with LedgerClient(url, token=TOKEN) as client:
                return client.info()

        for unknown in (None, "stranger"):
            with pytest.raises(ServerNotReachable, match=re.escape(url)):
                ask(unknown)
        assert ask("client").manager == "QM1"
        monkeypatch.setenv("MAYFLY_TLS_KEY", "")
        with pytest.raises(NoCertificate, match="_CERTIFICATE and MAYFLY_TLS_KEY go together"):
            LedgerClient(url, token=TOKEN)
        monkeypatch.setenv("MAYFLY_TLS_KEY", str(tmp_path / "gone"))
        with pytest.raises(NoCertificate, match="gone cannot be read: No such file"):
            LedgerClient(url, token=TOKEN)
        # The two mixed up.
        own_chain, own_key = files["client"]
        monkeypatch.setenv("MAYFLY_TLS_KEY", str(own_chain))
        with pytest.raises(NoCertificate, match=f"_KEY: {own_chain} has no private key, PEM"):
            LedgerClient(url, token=TOKEN)
        monkeypatch.setenv("MAYFLY_TLS_CERTIFICATE", str(own_key))
        with pytest.raises(NoCertificate, match=f"_CERTIFICATE: {own_key} has no certificate, PEM"):
            LedgerClient(url, token=TOKEN)


@pytest.mark.slow
def test_nothing_but_our_own_errors_is_said_where_tls_or_a_server_fails(tmp_path: Path) -> None:
    """gRPC writes of its own accord to stderr: handshakes that fail, ports that are taken."""
    certificate(tmp_path)
    answer = subprocess.run(
        [sys.executable, "-m", "tests.servers.failures", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.split() == ["ServerNotReachable"] * 3 + ["OSError"] * 2


# The socket in the folder


def test_commands_of_the_machine_reach_the_server_by_the_folder(
    books: KeptBooks, tmp_path: Path
) -> None:
    """A path of more than 107 bytes, which is what a socket may have; QM2 has one of its own."""
    folder = tmp_path / ("x" * 120) / "QM 1#%?"
    other = tmp_path / "QM2"
    for each in (folder, other):
        each.mkdir(parents=True)
    with (
        kept_books(name="QM2") as second,
        FlightServer(
            [books, second], port=0, token=TOKEN, folders={"QM1": folder, "QM2": other}
        ) as server,
    ):
        assert stat.S_IMODE((folder / SOCKET_FILE).stat().st_mode) == 0o600
        with LedgerClient(folder_url(folder), token=TOKEN) as client:
            assert client.info().manager == "QM1"
            assert client.address() == server.url
            moved = folder.rename(tmp_path / "moved")
            assert client.info().manager == "QM1"
        with (
            LedgerClient(folder_url(moved), token=TOKEN, manager="QM2") as client,
            pytest.raises(UnknownManager, match="no queue manager 'QM2' here; served: QM1"),
        ):
            client.info()
        with (
            LedgerClient(folder_url(moved), token="guessed") as client,
            pytest.raises(WrongToken),
        ):
            client.info()
        with LedgerClient(folder_url(other), token=TOKEN) as client:
            assert client.info().manager == "QM2"
    assert not list(moved.iterdir())
    with (
        LedgerClient(folder_url(moved), token=TOKEN) as client,
        pytest.raises(ServerNotReachable, match=r"no Mayfly server answers at grpc\+unix:///"),
    ):
        client.info()


def test_a_socket_that_a_kill_has_left_is_taken_over(books: KeptBooks, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / SOCKET_FILE))
    with (
        FlightServer(books, port=0, token=TOKEN, folders={"QM1": tmp_path}),
        LedgerClient(folder_url(tmp_path), token=TOKEN) as client,
    ):
        assert client.info().manager == "QM1"


def test_a_folder_that_can_have_no_socket_is_named(books: KeptBooks, tmp_path: Path) -> None:
    (tmp_path / SOCKET_FILE).mkdir()
    server = FlightServer(books, port=0, token=TOKEN, folders={"QM1": tmp_path})
    with pytest.raises(OSError, match=f"a socket in {tmp_path}"):
        server.start()
    with pytest.raises(ServerNotReachable, match="gone: No such file"):
        LedgerClient(folder_url(tmp_path / "gone"), token=TOKEN)
    with pytest.raises(ValueError, match=r"grpc\+unix:///FOLDER"):
        LedgerClient("grpc+unix://host/folder", token=TOKEN)


def test_a_token_file_that_holds_no_token_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x80\xff")
    other = tmp_path / "other"
    other.write_bytes(b"\0\1")
    for file, text in (
        (binary, "is not text"),
        (other, "holds none: the token has characters other than printable ASCII"),
        (Path("/dev/zero"), "has more than 4096 bytes"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(NoToken, match=f"token file {file} .*{text}"):
            LedgerClient("grpc://127.0.0.1:1", token_file=file)


# Memory


@pytest.mark.slow
@pytest.mark.long
def test_a_stream_with_a_wrong_token_is_refused_before_it_is_read() -> None:
    """gRPC hands a stream over when it begins: 128 MiB with a wrong token are never in memory."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.servers.memory"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        before = peak_bytes(process.pid)
        options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer guessed")])
        descriptor = flight.FlightDescriptor.for_command(bytes(128 * 2**20))
        for kind in ("upload", "exchange"):
            with (
                flight.connect(url) as connection,
                pytest.raises(flight.FlightUnauthenticatedError, match="mayfly: wrong-token"),
            ):
                begin(connection, kind, descriptor, options)
        # What the server loads meanwhile, pandas among it, takes some 50 MiB.
        assert peak_bytes(process.pid) - before < 96 * 2**20


def begin(connection: Any, kind: str, descriptor: Any, options: Any) -> None:
    """Begin a stream and wait for what the server says to it."""
    if kind == "upload":
        connection.do_put(descriptor, pa.schema([]), options)[0].close()
    else:
        writer, reader = connection.do_exchange(descriptor, options)
        with writer:
            reader.read_chunk()


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", text)[0]) * 1024


def test_a_client_of_a_standby_learns_where_the_owner_is(tmp_path: Path) -> None:
    owner = OwnerPlace("elsewhere, process 7", {"flight": "qm.example.com:9414"})
    place = "QM1 is a standby here; its owner is elsewhere, process 7 at qm.example.com:9414"
    with QueueManager("QM2", tmp_path / "QM2") as manager:
        table = ManagerTable([manager], ["QM1", "QM2"])
        table.stand_by("QM1", owner)
        with (
            FlightServer(table, port=0, token=TOKEN) as server,
            LedgerClient(server.url, token=TOKEN, manager="QM1") as refused,
            LedgerClient(server.url, token=TOKEN, manager="QM2") as client,
        ):
            assert client.info().manager == "QM2"
            # This is what Flight's FlightUnavailableError stands for.
            with pytest.raises(ServerNotReachable, match=place):
                refused.info()
