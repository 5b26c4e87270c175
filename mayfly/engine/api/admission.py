"""The engine's API for admission: an operator's definitions about clients and partners.

Only ``mayfly.admin.security`` uses it.
"""

from mayfly.engine.attributes import (
    AUTHCHK_NONE,
    AUTHINFO,
    CHANNEL,
    CHLAUTH,
    AuthenticationDefinition,
    ChannelDefinition,
    ChannelRuleDefinition,
    attributes_of,
)
from mayfly.engine.authority.checks import (
    Caller,
    check_manager_authority,
    known_groups,
    manager_authorities,
    may_do_everything,
)
from mayfly.engine.authority.records import ADMINISTRATORS
from mayfly.engine.events.messages import (
    report_blocked,
    report_channel_full,
    report_password,
    report_tls_refusal,
)
from mayfly.engine.objects.administration import channel_rules, entries_of
from mayfly.engine.objects.views import view_named

__all__ = [
    "ADMINISTRATORS",
    "AUTHCHK_NONE",
    "AUTHINFO",
    "AuthenticationDefinition",
    "CHANNEL",
    "CHLAUTH",
    "Caller",
    "ChannelDefinition",
    "ChannelRuleDefinition",
    "attributes_of",
    "channel_rules",
    "check_manager_authority",
    "entries_of",
    "known_groups",
    "manager_authorities",
    "may_do_everything",
    "report_blocked",
    "report_channel_full",
    "report_password",
    "report_tls_refusal",
    "view_named",
]
