"""Where pipelines and ledger runs show their progress: metrics, and the note for `status`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.values import local_path
from mayfly.servers.addresses import ListenAddress, listen_address

if TYPE_CHECKING:
    from mayfly.pipeline.metrics import AnyProgress, MetricsFile, MetricsServer

    MetricsTargets: TypeAlias = list[MetricsFile | MetricsServer]


def _address(text: str | ListenAddress) -> ListenAddress:
    """Return the address in an option's text; raises BadParameter if it is none."""
    try:
        return listen_address(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


MetricsFileOption = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        parser=local_path,
        metavar="FILE",
        help="Keep metrics for Prometheus there.",
    ),
]
MetricsListenOption = Annotated[
    ListenAddress | None,
    typer.Option(
        "--metrics-listen",
        parser=_address,
        metavar="HOST:PORT",
        help="Answer GET /metrics at this address, without a password; port 0 is any.",
    ),
]


@contextlib.contextmanager
def metrics_targets(
    begun: AnyProgress, file: Path | None, listen: ListenAddress | None
) -> Iterator[tuple[MetricsTargets, str | None]]:
    """Return a context with (the outputs for metrics, the URL of their server or None).

    ``file`` and ``listen`` say where the outputs are; None is no such output. At first they show
    the snapshot ``begun`` as that of a run that does not work yet. A server is closed at the end.
    Raises CommandFailed if its address cannot be used, OSError if the file cannot be written.
    """
    if file is None and listen is None:
        yield [], None
        return
    from mayfly.pipeline.metrics import MetricsFile, MetricsServer

    targets: MetricsTargets = [] if file is None else [MetricsFile(file)]
    with contextlib.ExitStack() as stack:
        url = None
        if listen is not None:
            try:
                server = stack.enter_context(contextlib.closing(MetricsServer(*listen)))
            except OSError as error:
                text = f"--metrics-listen {listen}: {error.strerror}"
                raise CommandFailed(ExitCode.PIPELINE, text) from error
            url = server.url
            targets.append(server)
        for target in targets:
            target.show(begun, is_up=False)
        yield targets, url
