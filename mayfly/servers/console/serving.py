"""The console below ``/console/``: static files, which use the public resources alone."""

from __future__ import annotations

from importlib import resources
from typing import Final

from mayfly.servers.http.pages import Pages

CONSOLE: Final = Pages("/console/", resources.files(__package__) / "page")
