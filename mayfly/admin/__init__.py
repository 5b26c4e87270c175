"""Administration: one model of objects, attributes, status and authority, without text or bytes.

MQSC is a codec of it: text becomes a call here, and its records become text. Definitions by HTTP
are another one. The names below are all that a codec needs; it does not enter the engine.
"""

from mayfly.admin.authority import MATCHES, inquire_entity
from mayfly.admin.authority import inquire as inquire_authority
from mayfly.admin.channel_rules import (
    RULE_MATCHES,
    channel_rule_for,
    inquire_channel_rules,
    set_channel_rule,
)
from mayfly.admin.channels import SEQUENCE
from mayfly.admin.connections import OpenConnection, open_connections, stop_channel
from mayfly.admin.connections import stop as stop_connection
from mayfly.admin.errors import AdminError, UnknownModel, WrongObject, WrongValue
from mayfly.admin.filters import LIKE, NOT_LIKE, ORDERINGS, UNORDERED, Filter
from mayfly.admin.model import (
    CHSTATUS,
    CONN,
    ENTAUTH,
    GROUP_STATUS,
    HANDLE,
    PUBSUB,
    QMSTATUS,
    QSTATUS,
    SETTING,
    TPSTATUS,
    ObjectType,
    Record,
    displayed,
    object_type,
)
from mayfly.admin.operations import DEFINABLE, INQUIRABLE, alter, define, delete, inquire
from mayfly.admin.security.refreshing import refresh_security
from mayfly.admin.security.rules import Partner
from mayfly.admin.settings import alter as alter_setting
from mayfly.admin.settings import reset as reset_setting
from mayfly.admin.settings import value_of as setting_value
from mayfly.admin.topics import clear as clear_topic
from mayfly.admin.values import allowed, checked, fold, named, number_of, with_numbers
from mayfly.channel import channels_of
from mayfly.engine import Engine
from mayfly.engine.face.administration import (
    AUTHINFO,
    AUTHREC,
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    GROUP,
    OBJECT_TYPES,
    PRINCIPAL,
    PROCESS,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    RULE_ACTIONS,
    SELF,
    SUB,
    TOPIC,
    Attribute,
    AuthorityKey,
    Entity,
    authorities_of,
    check_entity,
    check_profile,
    clear_queue,
    definitions_unchanged,
    delete_authority,
    matches,
    set_authority,
)
from mayfly.verbs.checks import check_name
from mayfly.verbs.facts import Value

__all__ = [
    "AUTHINFO",
    "AUTHREC",
    "CHANNEL",
    "CHLAUTH",
    "CHSTATUS",
    "CONN",
    "CLNTCONN",
    "DEFINABLE",
    "ENTAUTH",
    "GROUP",
    "GROUP_STATUS",
    "HANDLE",
    "INQUIRABLE",
    "LIKE",
    "MATCHES",
    "NOT_LIKE",
    "OBJECT_TYPES",
    "ORDERINGS",
    "PRINCIPAL",
    "PROCESS",
    "PUBSUB",
    "QALIAS",
    "QLOCAL",
    "QMGR",
    "QMODEL",
    "QMSTATUS",
    "QREMOTE",
    "QSTATUS",
    "QUEUE_KINDS",
    "RULE_ACTIONS",
    "RULE_MATCHES",
    "SELF",
    "SEQUENCE",
    "SETTING",
    "SUB",
    "TOPIC",
    "TPSTATUS",
    "UNORDERED",
    "AdminError",
    "Attribute",
    "AuthorityKey",
    "Entity",
    "Filter",
    "Engine",
    "ObjectType",
    "OpenConnection",
    "Partner",
    "Record",
    "UnknownModel",
    "Value",
    "WrongObject",
    "WrongValue",
    "allowed",
    "alter",
    "alter_setting",
    "authorities_of",
    "channel_rule_for",
    "channels_of",
    "check_entity",
    "check_name",
    "check_profile",
    "checked",
    "clear_queue",
    "clear_topic",
    "define",
    "definitions_unchanged",
    "delete",
    "delete_authority",
    "displayed",
    "fold",
    "inquire",
    "inquire_authority",
    "inquire_channel_rules",
    "inquire_entity",
    "matches",
    "named",
    "number_of",
    "with_numbers",
    "object_type",
    "refresh_security",
    "reset_setting",
    "set_authority",
    "stop_channel",
    "open_connections",
    "stop_connection",
    "set_channel_rule",
    "setting_value",
]
