"""Objects for clients in each new queue manager: models of channels, the first rules."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

from mayfly.engine.attributes.attribute import AUTHINFO, CHANNEL, CHLAUTH, CLNTCONN
from mayfly.engine.attributes.definition import Definition
from mayfly.engine.attributes.of_admission import AuthenticationDefinition, ChannelRuleDefinition
from mayfly.engine.attributes.of_channels import ChannelDefinition
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import save_together
from mayfly.engine.objects.channel_rules import named_rule
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c

DEFAULT_AUTHENTICATION: Final = "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
#: The model of a new channel, by type.
CHANNEL_MODELS: Final = {
    c.MQCHT_SVRCONN: "SYSTEM.DEF.SVRCONN",
    c.MQCHT_CLNTCONN: "SYSTEM.DEF.CLNTCONN",
}


def set_up_client_objects(core: Core) -> None:
    """Define what clients connect by, once in the life of a queue manager.

    Every client needs a password, so that a new queue manager lets nobody in; IBM MQ asks only
    administrators (REQDADM), whose other users the operating system knows.
    """
    manager = core.registry.queue_manager
    if manager.has_client_objects:
        return
    made = [one for one in _objects() if (one.kind, one.name) not in core.registry.named]
    connauth = manager.connauth or DEFAULT_AUTHENTICATION
    changed = replace(manager, connauth=connauth, has_client_objects=1)
    save_together(core, changed, *made)
    with core.engine_lock:
        core.registry.queue_manager.take(changed)
        core.registry.queue_manager.has_client_objects = 1
        core.registry.named.update({(one.kind, one.name): one for one in made})


@cache
def _objects() -> tuple[Definition, ...]:
    """Return what is defined; no definition of these kinds is changed in its place."""
    models = [
        ChannelDefinition(
            CLNTCONN if channel_type == c.MQCHT_CLNTCONN else CHANNEL,
            name,
            chltype=channel_type,
            trptype=c.MQXPT_TCP,
        )
        for channel_type, name in CHANNEL_MODELS.items()
    ]
    authentication = AuthenticationDefinition(
        AUTHINFO, DEFAULT_AUTHENTICATION, chckclnt=k.MQCHK_REQUIRED
    )
    return (*models, authentication, *map(named_rule, _first_rules()))


def _first_rules() -> list[ChannelRuleDefinition]:
    """Return the three rules with which IBM MQ begins as well.

    No administrator comes in, nobody by a channel of the system, but by the one for administration.
    """
    return [
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="*",
            type=k.MQCAUT_BLOCKUSER,
            userlist="*MQADMIN",
            descr="Administrators are kept out",
        ),
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="SYSTEM.*",
            type=k.MQCAUT_ADDRESSMAP,
            address="*",
            usersrc=c.MQUSRC_NOACCESS,
            descr="Channels of the system are closed",
        ),
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="SYSTEM.ADMIN.SVRCONN",
            type=k.MQCAUT_ADDRESSMAP,
            address="*",
            usersrc=c.MQUSRC_CHANNEL,
            descr="The channel for administration is open",
        ),
    ]
