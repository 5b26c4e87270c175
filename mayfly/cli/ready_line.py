"""The first line of ``mayfly serve``: where it listens, and what a client shows there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import typer

from mayfly.admin.security.developer import APP, Credentials
from mayfly.cli.served import Served
from mayfly.cli.show import print_json


class ReadyLine(NamedTuple):
    """The content of the line; ``credentials`` are those of ``--dev``."""

    names: Sequence[str]
    addresses: Mapping[str, str]
    credentials: Credentials | None
    served: Served

    def say(self, *, as_json: bool) -> None:
        """Print it on stdout, as text or as JSON for programs."""
        facts: dict[str, str | None] = dict(self.addresses)
        if self.credentials is not None:
            facts |= {"user": APP, "password": self.credentials.app}
        facts["token_file"] = self.served.token_file
        facts["tls_certificate"] = self.served.tls_certificate
        if as_json:
            line = {"ready": True, "queue_managers": list(self.names), **facts}
            print_json(line, indent=None)
        else:
            said = ", ".join(f"{key} {value}" for key, value in facts.items() if value)
            print(f"serving {', '.join(self.names)}: {said}")
        typer.get_text_stream("stdout").flush()
