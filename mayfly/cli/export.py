"""``mayfly export``: write the script that defines a queue manager again, as dmpmqcfg does."""

from __future__ import annotations

from mayfly.admin.mqsc.export import exported
from mayfly.cli.managers import Name, PlaceOption, connected
from mayfly.client.connection import Administration


def export(name: Name, *, path: PlaceOption = None) -> None:
    """Write the MQSC script that defines a queue manager again, as dmpmqcfg does.

    It has all objects with all attributes, authority records, rules for channels and settings.
    Users, messages and secrets are not in it.

    \b
    Examples:
      mayfly export QM1 > qm1.mqsc
      mayfly mqsc QM2 qm1.mqsc
      mayfly export QM1 --url mqs://mq1.example:1414
    """
    with connected(name, path, program="mayfly export") as connection:
        print(exported(Administration(connection.call).mqsc), end="")
