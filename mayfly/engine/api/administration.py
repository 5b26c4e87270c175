"""The engine's API for administration: kinds of objects, their definitions and status.

Only ``mayfly.admin`` uses it; codecs such as MQSC, and people, use ``mayfly.admin``.
"""

from mayfly.engine.attribute_type import Attribute
from mayfly.engine.attributes import (
    ANY_TLS,
    AUTHINFO,
    AUTHREC,
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    PROCESS,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    SECONDS,
    SUB,
    TOPIC,
    TYPED_BY,
    ChannelDefinition,
    ChannelRuleDefinition,
    Definition,
    attributes_of,
    has_attribute,
)
from mayfly.engine.authority.records import (
    CLASS_PROFILE,
    GROUP,
    PRINCIPAL,
    SELF,
    Entity,
    check_profile,
)
from mayfly.engine.authority.records import RecordKey as AuthorityKey
from mayfly.engine.authority.records import is_generic as is_generic_profile
from mayfly.engine.authority.records import pattern_of as profile_pattern
from mayfly.engine.authority.words import OBJECT_TYPES
from mayfly.engine.authority.words import allowed_words as authorities_of
from mayfly.engine.authority.words import spelled as spelled_authorities
from mayfly.engine.configuration import COMMAND_LEVEL, reconfigure
from mayfly.engine.events.catalog import (
    CHANGE_OBJECT,
    COMMAND_CONTEXT,
    COMMAND_MQSC,
    COMMAND_PCF,
    CREATE_OBJECT,
    DELETE_OBJECT,
    NOT_AUTHORIZED_COMMAND,
    REFRESH_OBJECT,
    EventType,
)
from mayfly.engine.events.catalog import QUEUES as EVENT_QUEUES
from mayfly.engine.events.messages import emit as emit_event
from mayfly.engine.events.messages import is_on as is_event_on
from mayfly.engine.events.messages import structures_of as event_structures
from mayfly.engine.events.performance import reset_statistics
from mayfly.engine.expiry import discard_now
from mayfly.engine.kept_attributes import (
    COMMINFO,
    KEPT_CHANNEL_TYPES,
    KEPT_KINDS,
    LISTENER,
    NAMELIST,
    NOT_OBEYED,
    POLICY,
    SECRETS,
    SERVICE,
    STGCLASS,
    kept_attributes_of,
)
from mayfly.engine.objects.administration import ACTIONS as RULE_ACTIONS
from mayfly.engine.objects.administration import (
    CHANNEL_MODELS,
    DEFAULT_AUTHENTICATION,
    alter_named,
    channel_rules,
    check_entity,
    define_named,
    definitions_unchanged,
    delete_authority,
    delete_named,
    find_named,
    set_authority,
    set_rule,
)
from mayfly.engine.objects.administration import LISTS as RULE_LISTS
from mayfly.engine.objects.administration import alter as alter_definition
from mayfly.engine.objects.administration import clear as clear_queue
from mayfly.engine.objects.administration import define as define_queue
from mayfly.engine.objects.administration import delete as delete_queue
from mayfly.engine.objects.inquire import fixed_attributes as fixed_attributes_of_manager
from mayfly.engine.objects.inquire import manager_identifier
from mayfly.engine.objects.registry import DEFAULT_OBJECTS
from mayfly.engine.objects.views import (
    QueueStatus,
    SubscriptionView,
    entities_of,
    granted,
    is_disk_full,
    matches,
    stop_connection,
    view_authority,
    view_connections,
    view_manager,
    view_members,
    view_named,
    view_neighbours,
    view_queue,
    view_queue_status,
    view_queues,
    view_subscriptions,
    view_topic_string,
    view_topic_strings,
    view_topic_subscriptions,
    view_topics,
)
from mayfly.engine.pubsub.administration import (
    CHANGEABLE as CHANGEABLE_OF_SUBSCRIPTIONS,
)
from mayfly.engine.pubsub.administration import (
    alter_subscription,
    alter_topic,
    define_subscription,
    define_topic,
    delete_subscription,
    delete_topic,
)
from mayfly.engine.pubsub.publish import clear_retained
from mayfly.engine.pubsub.topics import BASE_VALUES as TOPIC_VALUES
from mayfly.engine.pubsub.topics import DEFAULT_TOPIC
from mayfly.engine.settings import defaults_on

__all__ = [
    "ANY_TLS",
    "AUTHINFO",
    "AUTHREC",
    "Attribute",
    "QueueStatus",
    "SubscriptionView",
    "discard_now",
    "view_topic_strings",
    "view_topic_subscriptions",
    # Events and statistics of queues.
    "CHANGE_OBJECT",
    "COMMAND_CONTEXT",
    "COMMAND_MQSC",
    "COMMAND_PCF",
    "CREATE_OBJECT",
    "DELETE_OBJECT",
    "EVENT_QUEUES",
    "EventType",
    "NOT_AUTHORIZED_COMMAND",
    "REFRESH_OBJECT",
    "emit_event",
    "event_structures",
    "is_event_on",
    "reset_statistics",
    "AuthorityKey",
    "CHANGEABLE_OF_SUBSCRIPTIONS",
    "CHANNEL",
    "CHANNEL_MODELS",
    "CHLAUTH",
    "CLASS_PROFILE",
    "CLNTCONN",
    "COMMAND_LEVEL",
    "ChannelDefinition",
    "ChannelRuleDefinition",
    "COMMINFO",
    "DEFAULT_AUTHENTICATION",
    "DEFAULT_OBJECTS",
    "DEFAULT_TOPIC",
    "Definition",
    "Entity",
    "GROUP",
    "KEPT_CHANNEL_TYPES",
    "KEPT_KINDS",
    "LISTENER",
    "NAMELIST",
    "NOT_OBEYED",
    "OBJECT_TYPES",
    "PRINCIPAL",
    "POLICY",
    "PROCESS",
    "QALIAS",
    "QLOCAL",
    "QMGR",
    "QMODEL",
    "QREMOTE",
    "QUEUE_KINDS",
    "RULE_ACTIONS",
    "RULE_LISTS",
    "SECONDS",
    "SECRETS",
    "SELF",
    "SERVICE",
    "STGCLASS",
    "SUB",
    "TOPIC",
    "TOPIC_VALUES",
    "TYPED_BY",
    "alter_definition",
    "alter_named",
    "alter_subscription",
    "alter_topic",
    "attributes_of",
    "authorities_of",
    "channel_rules",
    "check_entity",
    "check_profile",
    "clear_queue",
    "clear_retained",
    "defaults_on",
    "define_named",
    "define_queue",
    "definitions_unchanged",
    "define_subscription",
    "define_topic",
    "delete_authority",
    "delete_named",
    "delete_queue",
    "delete_subscription",
    "delete_topic",
    "entities_of",
    "find_named",
    "granted",
    "has_attribute",
    "is_generic_profile",
    "fixed_attributes_of_manager",
    "is_disk_full",
    "manager_identifier",
    "kept_attributes_of",
    "matches",
    "profile_pattern",
    "reconfigure",
    "set_authority",
    "stop_connection",
    "set_rule",
    "spelled_authorities",
    "view_authority",
    "view_connections",
    "view_manager",
    "view_members",
    "view_named",
    "view_neighbours",
    "view_queue",
    "view_queue_status",
    "view_queues",
    "view_subscriptions",
    "view_topic_string",
    "view_topics",
]
