"""The attributes of IBM MQ that are kept without effect, one row each, for all kinds of objects.

A definition keeps such values beside its own attributes: they are checked, stored, shown when they
are asked for, and exported, but nothing obeys them. An attribute that gets an effect moves as it is
into the tables of ``engine/attributes``: numbers, words and the stored form are the same there. The
numbers of words are those of IBM MQ; the constants are named in comments. Source: IBM MQ 9.4,
DEFINE, ALTER and SET commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from mayfly.engine.attribute_type import Attribute
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c

#: Objects that are kept as a whole without effect.
LISTENER: Final = "LISTENER"
SERVICE: Final = "SERVICE"
NAMELIST: Final = "NAMELIST"
COMMINFO: Final = "COMMINFO"
STGCLASS: Final = "STGCLASS"
POLICY: Final = "POLICY"
KEPT_KINDS: Final = (LISTENER, SERVICE, NAMELIST, COMMINFO, STGCLASS, POLICY)

_LARGEST = 999_999_999
_SECONDS_MAX = 999_999
_PORT_MAX = 65_535
_NAME, _DESCRIPTION, _CHANNEL_NAME = 48, 64, 20
_EXIT, _EXIT_DATA, _PATH = 128, 32, 255
_DISTINGUISHED_NAME = 1_024

_Words = tuple[tuple[str, int], ...]
_NO_YES: _Words = (("NO", 0), ("YES", 1))
#: MQEVR_*, and other switches with the same numbers.
_SWITCH: _Words = (("DISABLED", 0), ("ENABLED", 1))
_EXCEPTIONS: _Words = (*_SWITCH, ("EXCEPTION", 2))
#: MQMON_*.
_OFF_ON: _Words = (("OFF", 0), ("ON", 1))
_NONE: _Words = (("NONE", -1),)
_AS_MANAGER: _Words = (("QMGR", -3),)
_LEVELS: _Words = (("OFF", 0), ("LOW", 17), ("MEDIUM", 33), ("HIGH", 65))
#: MQOTEL_TRACE_* and MQOTEL_PCTL_*.
_TRACES: _Words = (("OFF", 1), ("ON", 2), ("NONE", 3))
_TRACE_CONTROL: _Words = (("MANUAL", 1), ("AUTO", 2))
#: MQPRT_*.
_RESPONSES: _Words = (("SYNC", 1), ("ASYNC", 2))
#: MQSVC_CONTROL_*.
_CONTROL: _Words = (("MANUAL", 2), ("QMGR", 0), ("STARTONLY", 1))
#: MQQSGD_*, in a queue-sharing group of z/OS.
_DISPOSITIONS: _Words = (("QMGR", 0), ("COPY", 1), ("GROUP", 3))
#: MQRECORDING_*.
_RECORDING: _Words = (("DISABLED", 0), ("QUEUE", 1), ("MSG", 2))


def _word(keyword: str, selector: int, default: str, words: _Words, *objects: str) -> Attribute:
    """Return the row of an attribute whose value is one of ``words``.

    For ``selector`` and ``objects`` see :func:`_number`.
    """
    return _number(keyword, selector, dict(words)[default], 0, -1, *objects, words=words)


def _number(
    keyword: str,
    selector: int,
    default: int,
    low: int,
    high: int,
    *objects: str,
    words: _Words = (),
    unit: str = "",
) -> Attribute:
    """Return the row of an attribute whose value is a number from ``low`` to ``high``, or a word.

    ``selector`` is its number in MQINQ and PCF commands. ``objects`` are the types of queues,
    channels or AUTHINFO objects that have it, none for all.
    """
    return Attribute(keyword, "", objects, default, selector, low, high, words, 0, unit)


def _text(
    keyword: str,
    selector: int,
    length: int,
    *objects: str,
    default: str = "",
    choices: tuple[str, ...] = (),
    is_list: bool = False,
    takes_any_text: bool = False,
) -> Attribute:
    """Return the row of an attribute whose value is a text of at most ``length`` bytes.

    For ``selector`` and ``objects`` see :func:`_number`, for the others :class:`Attribute`.
    """
    return Attribute(
        keyword,
        "",
        objects,
        default,
        selector,
        0,
        -1,
        (),
        length,
        choices=choices,
        is_list=is_list,
        takes_any_text=takes_any_text,
    )


_DISPOSITION: Final = _word("QSGDISP", c.MQIA_QSG_DISP, "QMGR", _DISPOSITIONS)

# Queues; the objects of a row are types of queues

_HOLDERS = ("QLOCAL", "QMODEL")
_CLUSTERED = ("QLOCAL", "QALIAS", "QREMOTE")

_QUEUES = (
    _word("ACCTQ", c.MQIA_ACCOUNTING_Q, "QMGR", (*_AS_MANAGER, *_OFF_ON), *_HOLDERS),
    _text("CFSTRUCT", c.MQCA_CF_STRUC_NAME, 12, *_HOLDERS),
    _text("CLCHNAME", c.MQCA_CLUS_CHL_NAME, _CHANNEL_NAME, *_HOLDERS),
    _text("CLUSNL", c.MQCA_CLUSTER_NAMELIST, _NAME, *_CLUSTERED),
    _number("CLWLPRTY", c.MQIA_CLWL_Q_PRIORITY, 0, 0, 9, *_CLUSTERED),
    _number("CLWLRANK", c.MQIA_CLWL_Q_RANK, 0, 0, 9, *_CLUSTERED),
    # MQCLWL_USEQ_*.
    _word("CLWLUSEQ", c.MQIA_CLWL_USEQ, "QMGR", (*_AS_MANAGER, ("LOCAL", 0), ("ANY", 1)), "QLOCAL"),
    _word("DISTL", c.MQIA_DIST_LISTS, "NO", _NO_YES, *_HOLDERS),
    # MQIMGRCOV_*.
    _word("IMGRCOVQ", c.MQIA_MEDIA_IMAGE_RECOVER_Q, "QMGR", (*_NO_YES, ("QMGR", 2)), *_HOLDERS),
    _number(
        "MAXFSIZE",
        c.MQIA_MAX_Q_FILE_SIZE,
        -1,
        20,
        267_386_880,
        *_HOLDERS,
        words=(("DEFAULT", -1),),
        unit="megabytes",
    ),
    # MQNPM_CLASS_*.
    _word("NPMCLASS", c.MQIA_NPM_CLASS, "NORMAL", (("NORMAL", 0), ("HIGH", 10)), *_HOLDERS),
    _number("RETINTVL", c.MQIA_RETENTION_INTERVAL, _LARGEST, 0, _LARGEST, *_HOLDERS, unit="hours"),
    # MQSCO_*.
    _word("SCOPE", c.MQIA_SCOPE, "QMGR", (("QMGR", 1), ("CELL", 2)), *_CLUSTERED),
    _word("STATQ", c.MQIA_STATISTICS_Q, "QMGR", (*_AS_MANAGER, *_OFF_ON), *_HOLDERS),
    _text("STREAMQ", c.MQCA_STREAM_QUEUE_NAME, _NAME, *_HOLDERS),
    # MQST_*.
    _word("STRMQOS", c.MQIA_STREAM_QUEUE_QOS, "BESTEF", (("BESTEF", 0), ("MUSTDUP", 1)), *_HOLDERS),
    _word("OTELPCTL", c.MQIA_OTEL_PROPAGATION_CONTROL, "QMGR", (("QMGR", 0), *_TRACE_CONTROL)),
    _word("OTELTRAC", c.MQIA_OTEL_TRACE, "QMGR", (("QMGR", 0), *_TRACES)),
    _word("QSGDISP", c.MQIA_QSG_DISP, "QMGR", _DISPOSITIONS, "QALIAS", "QREMOTE"),
    _word("QSGDISP", c.MQIA_QSG_DISP, "QMGR", (*_DISPOSITIONS, ("SHARED", 2)), "QMODEL"),
)

# Topics and subscriptions

#: MQSCOPE_*.
_EVERYWHERE: _Words = (("ALL", 0), ("QMGR", 4))
_TOPICS = (
    # MQCLROUTE_*.
    _word("CLROUTE", c.MQIA_CLUSTER_PUB_ROUTE, "DIRECT", (("DIRECT", 0), ("TOPICHOST", 1))),
    _text("CLUSTER", c.MQCA_CLUSTER_NAME, _NAME),
    _text("COMMINFO", c.MQCA_COMM_INFO_NAME, _NAME),
    _word("DEFPRESP", c.MQIA_DEF_PUT_RESPONSE_TYPE, "ASPARENT", (("ASPARENT", 0), *_RESPONSES)),
    # MQMC_*.
    _word(
        "MCAST",
        c.MQIA_MULTICAST,
        "ASPARENT",
        (("ASPARENT", 0), ("ENABLED", 1), ("DISABLED", 2), ("ONLY", 3)),
    ),
    # MQTA_PROXY_SUB_*.
    _word("PROXYSUB", c.MQIA_PROXY_SUB, "FIRSTUSE", (("FORCE", 1), ("FIRSTUSE", 2))),
    _word("PUBSCOPE", c.MQIA_PUB_SCOPE, "ASPARENT", (("ASPARENT", 1), *_EVERYWHERE)),
    _word("SUBSCOPE", c.MQIA_SUB_SCOPE, "ASPARENT", (("ASPARENT", 1), *_EVERYWHERE)),
    # MQTOPT_*.
    _word("TYPE", c.MQIA_TOPIC_TYPE, "LOCAL", (("LOCAL", 0),)),
    # MQTA_*.
    _word("WILDCARD", c.MQIA_WILDCARD_OPERATION, "PASSTHRU", (("BLOCK", 1), ("PASSTHRU", 2))),
    _word(
        "OTELPCTL",
        c.MQIA_OTEL_PROPAGATION_CONTROL,
        "ASPARENT",
        (("QMGR", 0), *_TRACE_CONTROL, ("ASPARENT", 3)),
    ),
    _word("OTELTRAC", c.MQIA_OTEL_TRACE, "ASPARENT", (("QMGR", 0), *_TRACES, ("ASPARENT", 4))),
    _DISPOSITION,
)
_SUBSCRIPTIONS = (
    # MQPSPROP_*.
    _word(
        "PSPROP",
        k.MQIACF_PUBSUB_PROPERTIES,
        "MSGPROP",
        (("NONE", 0), ("COMPAT", 1), ("RFH2", 2), ("MSGPROP", 3)),
    ),
    _text("PUBACCT", k.MQBACF_ACCOUNTING_TOKEN, 64),
    _text("PUBAPPID", k.MQCACF_APPL_IDENTITY_DATA, 32),
    _number("SUBLEVEL", k.MQIACF_SUB_LEVEL, 1, 0, 9),
    _word("SUBSCOPE", k.MQIACF_SUBSCRIPTION_SCOPE, "ALL", _EVERYWHERE),
    # MQWS_*.
    _word("WSCHEMA", k.MQIACF_WILDCARD_SCHEMA, "TOPIC", (("CHAR", 1), ("TOPIC", 2))),
    _text("CUSTOM", c.MQCA_CUSTOM, 128),
)

# Channels; the objects of a row are types of channels

SVR, RQSTR, CLUSSDR, CLUSRCVR, AMQP = "SVR", "RQSTR", "CLUSSDR", "CLUSRCVR", "AMQP"
#: MQCHT_* of the types of channels that are kept and never started.
KEPT_CHANNEL_TYPES: Final = {SVR: 2, RQSTR: 4, CLUSRCVR: 8, CLUSSDR: 9, AMQP: 11}
_CLUSTER = (CLUSSDR, CLUSRCVR)
_SENDING = ("SDR", SVR, *_CLUSTER)
_RECEIVING = ("RCVR", RQSTR, CLUSRCVR)
_MESSAGES = ("SDR", "RCVR", SVR, RQSTR, *_CLUSTER)
_CALLING = ("SDR", SVR, RQSTR, *_CLUSTER, "CLNTCONN")
_WITH_MCA = ("SDR", SVR, RQSTR, *_CLUSTER)
_NETWORK = (*_MESSAGES, "SVRCONN", "CLNTCONN")
_PASSWORDS = ("SDR", SVR, RQSTR, CLUSSDR, "CLNTCONN")
_COMPRESSIONS = ("NONE", "RLE", "ZLIBFAST", "ZLIBHIGH", "LZ4FAST", "LZ4HIGH", "ANY")
#: MQKAI_AUTO.
_AUTO: _Words = (("AUTO", -1),)

_CHANNELS = (
    _number("BATCHHB", k.MQIACH_BATCH_HB, 0, 0, _SECONDS_MAX, *_SENDING, unit="milliseconds"),
    _number(
        "BATCHLIM", k.MQIACH_BATCH_DATA_LIMIT, 5_000, 0, _SECONDS_MAX, *_SENDING, unit="kilobytes"
    ),
    _text("CERTLABL", c.MQCA_CERT_LABEL, 64, "SDR", "RCVR", "SVRCONN", SVR, RQSTR, CLUSRCVR, AMQP),
    _text("CLUSNL", c.MQCA_CLUSTER_NAMELIST, _NAME, *_CLUSTER),
    _text("CLUSTER", c.MQCA_CLUSTER_NAME, _NAME, *_CLUSTER),
    _number("CLWLPRTY", k.MQIACH_CLWL_CHANNEL_PRIORITY, 0, 0, 9, *_CLUSTER),
    _number("CLWLRANK", k.MQIACH_CLWL_CHANNEL_RANK, 0, 0, 9, *_CLUSTER),
    _number("CLWLWGHT", k.MQIACH_CLWL_CHANNEL_WEIGHT, 50, 1, 99, *_CLUSTER),
    _text(
        "COMPHDR",
        k.MQIACH_HDR_COMPRESSION,
        8,
        *_NETWORK,
        default="NONE",
        choices=("NONE", "SYSTEM"),
        is_list=True,
    ),
    _text(
        "COMPMSG",
        k.MQIACH_MSG_COMPRESSION,
        8,
        *_NETWORK,
        default="NONE",
        choices=_COMPRESSIONS,
        is_list=True,
    ),
    _word("CONVERT", k.MQIACH_DATA_CONVERSION, "NO", _NO_YES, *_SENDING),
    # MQCHLD_*.
    _word(
        "DEFCDISP",
        k.MQIACH_DEF_CHANNEL_DISP,
        "PRIVATE",
        (("SHARED", 2), ("PRIVATE", 4), ("FIXSHARED", 5)),
        *_NETWORK,
    ),
    _number(
        "KAINT", k.MQIACH_KEEP_ALIVE_INTERVAL, -1, 0, 99_999, *_NETWORK, words=_AUTO, unit="seconds"
    ),
    _text("LOCLADDR", k.MQCACH_LOCAL_ADDRESS, 48, *_CALLING, AMQP, takes_any_text=True),
    _text("MCANAME", k.MQCACH_MCA_NAME, 20, *_WITH_MCA),
    # MQMCAT_*.
    _word("MCATYPE", k.MQIACH_MCA_TYPE, "PROCESS", (("PROCESS", 1), ("THREAD", 2)), *_WITH_MCA),
    _text("MODENAME", k.MQCACH_MODE_NAME, 8, *_CALLING),
    _word(
        "MONCHL", c.MQIA_MONITORING_CHANNEL, "QMGR", (*_AS_MANAGER, *_LEVELS), *_MESSAGES, "SVRCONN"
    ),
    _text("MRDATA", k.MQCACH_MR_EXIT_USER_DATA, _EXIT_DATA, *_RECEIVING),
    _text("MREXIT", k.MQCACH_MR_EXIT_NAME, _EXIT, *_RECEIVING),
    _text("MSGDATA", k.MQCACH_MSG_EXIT_USER_DATA, _EXIT_DATA, *_MESSAGES, is_list=True),
    _text("MSGEXIT", k.MQCACH_MSG_EXIT_NAME, _EXIT, *_MESSAGES, is_list=True),
    _number("NETPRTY", k.MQIACH_NETWORK_PRIORITY, 0, 0, 9, CLUSRCVR),
    _text("PASSWORD", k.MQCACH_PASSWORD, 12, *_PASSWORDS),
    # MQPROP_*.
    _word(
        "PROPCTL",
        c.MQIA_PROPERTY_CONTROL,
        "COMPAT",
        (("COMPAT", 0), ("NONE", 1), ("ALL", 2), ("V6COMPAT", 4)),
        *_SENDING,
    ),
    # MQPA_*.
    _word(
        "PUTAUT",
        k.MQIACH_PUT_AUTHORITY,
        "DEF",
        (("DEF", 1), ("CTX", 2), ("ONLYMCA", 3), ("ALTMCA", 4)),
        *_RECEIVING,
        "SVRCONN",
    ),
    _text("RCVDATA", k.MQCACH_RCV_EXIT_USER_DATA, _EXIT_DATA, *_NETWORK, is_list=True),
    _text("RCVEXIT", k.MQCACH_RCV_EXIT_NAME, _EXIT, *_NETWORK, is_list=True),
    _text("SCYDATA", k.MQCACH_SEC_EXIT_USER_DATA, _EXIT_DATA, *_NETWORK),
    _text("SCYEXIT", k.MQCACH_SEC_EXIT_NAME, _EXIT, *_NETWORK),
    _text("SENDDATA", k.MQCACH_SEND_EXIT_USER_DATA, _EXIT_DATA, *_NETWORK, is_list=True),
    _text("SENDEXIT", k.MQCACH_SEND_EXIT_NAME, _EXIT, *_NETWORK, is_list=True),
    # MQSPL_*.
    _word(
        "SPLPROT",
        k.MQIACH_SPL_PROTECTION,
        "PASSTHRU",
        (("PASSTHRU", 0), ("REMOVE", 1), ("ASPOLICY", 2)),
        "SDR",
        "RCVR",
        SVR,
        RQSTR,
    ),
    _word("STATCHL", c.MQIA_STATISTICS_CHANNEL, "QMGR", (*_AS_MANAGER, *_LEVELS), *_MESSAGES),
    _text("TPNAME", k.MQCACH_TP_NAME, 64, *_CALLING),
    _text("USERID", k.MQCACH_USER_ID, 12, *_PASSWORDS),
    _number("AMQPKA", k.MQIACH_AMQP_KEEP_ALIVE, -1, 0, 99_999, AMQP, words=_AUTO, unit="seconds"),
    _number("BACKLOG", k.MQIACH_BACKLOG, 0, 0, _LARGEST, AMQP),
    _text("JAASCFG", k.MQCACH_JAAS_CONFIG, 1_024, AMQP),
    _number("PORT", k.MQIACH_PORT, 5_672, 1, _PORT_MAX, AMQP),
    _text("SSLKEYP", k.MQCACH_SSL_KEY_PASSPHRASE, 1_024, AMQP),
    _text(
        "TMPMODEL", k.MQCACH_TEMPORARY_MODEL_Q, _NAME, AMQP, default="SYSTEM.DEFAULT.MODEL.QUEUE"
    ),
    _text("TMPQPRFX", k.MQCACH_TEMPORARY_Q_PREFIX, 32, AMQP, default="AMQP.*"),
    _text("TPROOT", k.MQCACH_TOPIC_ROOT, 128, AMQP, default="SYSTEM.BASE.TOPIC"),
    _word("USECLTID", k.MQIACH_USE_CLIENT_ID, "NO", _NO_YES, AMQP),
    _word("QSGDISP", c.MQIA_QSG_DISP, "QMGR", _DISPOSITIONS, *_NETWORK),
)

# Authentication; the objects of a row are types of AUTHINFO objects

CRLLDAP, OCSP, IDPWOS, IDPWLDAP = "CRLLDAP", "OCSP", "IDPWOS", "IDPWLDAP"
_LDAP_FIELD = 128

_AUTHENTICATION = (
    _text("CONNAME", c.MQCA_AUTH_INFO_CONN_NAME, 264, CRLLDAP, IDPWLDAP),
    _text("LDAPUSER", c.MQCA_LDAP_USER_NAME, _DISTINGUISHED_NAME, CRLLDAP, IDPWLDAP),
    _text("LDAPPWD", c.MQCA_LDAP_PASSWORD, 256, CRLLDAP, IDPWLDAP),
    _text("OCSPURL", c.MQCA_AUTH_INFO_OCSP_URL, 256, OCSP),
    # MQAUTHENTICATE_*.
    _word("AUTHENMD", c.MQIA_AUTHENTICATION_METHOD, "OS", (("OS", 0), ("PAM", 1)), IDPWOS),
    # MQLDAP_AUTHORMD_*.
    _word(
        "AUTHORMD",
        c.MQIA_LDAP_AUTHORMD,
        "OS",
        (("OS", 0), ("SEARCHGRP", 1), ("SEARCHUSR", 2), ("SRCHGRPSN", 3)),
        IDPWLDAP,
    ),
    _text("BASEDNG", c.MQCA_LDAP_BASE_DN_GROUPS, _DISTINGUISHED_NAME, IDPWLDAP),
    _text("BASEDNU", c.MQCA_LDAP_BASE_DN_USERS, _DISTINGUISHED_NAME, IDPWLDAP),
    _text("CLASSGRP", c.MQCA_LDAP_GROUP_OBJECT_CLASS, _LDAP_FIELD, IDPWLDAP),
    _text("CLASSUSR", c.MQCA_LDAP_USER_OBJECT_CLASS, _LDAP_FIELD, IDPWLDAP),
    _text("FINDGRP", c.MQCA_LDAP_FIND_GROUP_FIELD, _LDAP_FIELD, IDPWLDAP),
    _text("GRPFIELD", c.MQCA_LDAP_GROUP_ATTR_FIELD, _LDAP_FIELD, IDPWLDAP),
    _word("NESTGRP", c.MQIA_LDAP_NESTGRP, "NO", _NO_YES, IDPWLDAP),
    # MQSECCOMM_*.
    _word("SECCOMM", c.MQIA_LDAP_SECURE_COMM, "NO", (*_NO_YES, ("ANON", 2)), IDPWLDAP),
    _text("SHORTUSR", c.MQCA_LDAP_SHORT_USER_FIELD, _LDAP_FIELD, IDPWLDAP),
    _text("USRFIELD", c.MQCA_LDAP_USER_ATTR_FIELD, _LDAP_FIELD, IDPWLDAP),
    _word("QSGDISP", c.MQIA_QSG_DISP, "QMGR", _DISPOSITIONS, CRLLDAP, OCSP, IDPWOS, IDPWLDAP),
)

_PROCESSES = (_DISPOSITION,)

# Objects that are kept as a whole

_LISTENERS = (
    # MQXPT_*.
    _word(
        "TRPTYPE",
        k.MQIACH_XMIT_PROTOCOL_TYPE,
        "TCP",
        (("TCP", 2), ("LU62", 1), ("NETBIOS", 3), ("SPX", 4)),
    ),
    _word("CONTROL", k.MQIACH_LISTENER_CONTROL, "MANUAL", _CONTROL),
    _text("DESCR", k.MQCACH_LISTENER_DESC, _DESCRIPTION),
    _text("IPADDR", k.MQCACH_IP_ADDRESS, 48, takes_any_text=True),
    _number("PORT", k.MQIACH_PORT, 0, 0, _PORT_MAX),
    _number("BACKLOG", k.MQIACH_BACKLOG, 0, 0, _LARGEST),
    _text("TPNAME", k.MQCACH_TP_NAME, 64),
    _number("ADAPTER", k.MQIACH_ADAPTER, 0, 0, _LARGEST),
    _number("COMMANDS", k.MQIACH_COMMAND_COUNT, 0, 0, _LARGEST),
    _text("LOCLNAME", k.MQCACH_LOCAL_NAME, 16),
    _number("NTBNAMES", k.MQIACH_NAME_COUNT, 0, 0, _LARGEST),
    _number("SESSIONS", k.MQIACH_SESSION_COUNT, 0, 0, _LARGEST),
    _number("SOCKET", k.MQIACH_SOCKET, 0, 0, _LARGEST),
)
_SERVICES = (
    _text("DESCR", c.MQCA_SERVICE_DESC, _DESCRIPTION),
    _word("CONTROL", c.MQIA_SERVICE_CONTROL, "MANUAL", _CONTROL),
    # MQSVC_TYPE_*.
    _word("SERVTYPE", c.MQIA_SERVICE_TYPE, "COMMAND", (("COMMAND", 0), ("SERVER", 1))),
    _text("STARTCMD", c.MQCA_SERVICE_START_COMMAND, _PATH),
    _text("STARTARG", c.MQCA_SERVICE_START_ARGS, _PATH),
    _text("STOPCMD", c.MQCA_SERVICE_STOP_COMMAND, _PATH),
    _text("STOPARG", c.MQCA_SERVICE_STOP_ARGS, _PATH),
    _text("STDOUT", c.MQCA_STDOUT_DESTINATION, _PATH),
    _text("STDERR", c.MQCA_STDERR_DESTINATION, _PATH),
)
_NAMELISTS = (
    _text("DESCR", c.MQCA_NAMELIST_DESC, _DESCRIPTION),
    _text("NAMES", c.MQCA_NAMES, _NAME, is_list=True),
    _DISPOSITION,
    # MQNT_*.
    _word(
        "NLTYPE",
        c.MQIA_NAMELIST_TYPE,
        "NONE",
        (("NONE", 0), ("QUEUE", 1), ("CLUSTER", 2), ("AUTHINFO", 4)),
    ),
)
_COMMUNICATION = (
    # MQCIT_*.
    _word("TYPE", c.MQIA_COMM_INFO_TYPE, "MULTICAST", (("MULTICAST", 1),)),
    _text("DESCR", c.MQCA_COMM_INFO_DESC, _DESCRIPTION),
    _word("BRIDGE", c.MQIA_MCAST_BRIDGE, "ENABLED", _SWITCH),
    # MQCCSI_AS_PUBLISHED.
    _number("CCSID", c.MQIA_CODED_CHAR_SET_ID, -4, 1, _PORT_MAX, words=(("ASPUB", -4),)),
    _word("COMMEV", c.MQIA_COMM_EVENT, "DISABLED", _EXCEPTIONS),
    # MQENC_*.
    _word(
        "ENCODING",
        k.MQIACF_ENCODING,
        "ASPUB",
        (("ASPUB", -1), ("NORMAL", 273), ("REVERSED", 546), ("S390", 785), ("TNS", 1_041)),
    ),
    _text("GRPADDR", k.MQCACH_GROUP_ADDRESS, 264),
    _number("MCHBINT", k.MQIACH_MC_HB_INTERVAL, 2_000, 0, _SECONDS_MAX, unit="milliseconds"),
    # MQMCP_*.
    _word(
        "MCPROP",
        k.MQIACH_MULTICAST_PROPERTIES,
        "ALL",
        (("ALL", -1), ("COMPAT", -2), ("NONE", 0), ("USER", 1), ("REPLY", 2)),
    ),
    _number("MONINT", c.MQIA_MONITOR_INTERVAL, 60, 0, _SECONDS_MAX, unit="seconds"),
    _number("MSGHIST", k.MQIACH_MSG_HISTORY, 100, 0, _SECONDS_MAX, unit="kilobytes"),
    # MQNSH_*.
    _word("NSUBHIST", k.MQIACH_NEW_SUBSCRIBER_HISTORY, "NONE", (("NONE", 0), ("ALL", -1))),
    _number("PORT", k.MQIACH_PORT, 1_414, 0, _PORT_MAX),
)
_STORAGE = (
    _text("DESCR", c.MQCA_STORAGE_CLASS_DESC, _DESCRIPTION),
    _text("PASSTKTA", c.MQCA_PASS_TICKET_APPL, 8),
    _text("PSID", c.MQIA_PAGESET_ID, 2, default="00"),
    _DISPOSITION,
    _text("XCFGNAME", c.MQCA_XCF_GROUP_NAME, 8),
    _text("XCFMNAME", c.MQCA_XCF_MEMBER_NAME, 16),
)
_POLICIES = (
    # MQMLP_SIGN_ALG_* and MQMLP_ENCRYPTION_ALG_*.
    _word(
        "SIGNALG",
        c.MQIA_SIGNATURE_ALGORITHM,
        "NONE",
        (
            ("NONE", 0),
            ("MD5", 1),
            ("SHA1", 2),
            ("SHA224", 3),
            ("SHA256", 4),
            ("SHA384", 5),
            ("SHA512", 6),
        ),
    ),
    _word(
        "ENCALG",
        c.MQIA_ENCRYPTION_ALGORITHM,
        "NONE",
        (("NONE", 0), ("RC2", 1), ("DES", 2), ("3DES", 3), ("AES128", 4), ("AES256", 5)),
    ),
    _text("SIGNER", c.MQCA_SIGNER_DN, _DISTINGUISHED_NAME, is_list=True),
    _text("RECIP", c.MQCA_RECIPIENT_DN, _DISTINGUISHED_NAME, is_list=True),
    # MQKEY_REUSE_*.
    _number(
        "KEYREUSE",
        c.MQIA_KEY_REUSE_COUNT,
        0,
        1,
        9_999_999,
        words=(("DISABLED", 0), ("UNLIMITED", -1)),
    ),
    _word("TOLERATE", c.MQIA_TOLERATE_UNPROTECTED, "NO", _NO_YES),
)

# The queue manager

_MANAGER = (
    _word("ACCTCONO", c.MQIA_ACCOUNTING_CONN_OVERRIDE, "DISABLED", _SWITCH),
    _number("ACCTINT", c.MQIA_ACCOUNTING_INTERVAL, 1_800, 0, 604_800, unit="seconds"),
    _word("ACCTMQI", c.MQIA_ACCOUNTING_MQI, "OFF", _OFF_ON),
    _word("ACCTQ", c.MQIA_ACCOUNTING_Q, "OFF", (*_OFF_ON, *_NONE)),
    _number("ACTCHL", c.MQIA_ACTIVE_CHANNELS, 200, 1, 9_999),
    _word("ACTIVREC", c.MQIA_ACTIVITY_RECORDING, "MSG", _RECORDING),
    _word("ACTVCONO", c.MQIA_ACTIVITY_CONN_OVERRIDE, "DISABLED", _SWITCH),
    _word("ACTVTRC", c.MQIA_ACTIVITY_TRACE, "OFF", _OFF_ON),
    # MQADOPT_*.
    _word(
        "ADOPTCHK",
        c.MQIA_ADOPTNEWMCA_CHECK,
        "ALL",
        (("NONE", 0), ("ALL", 1), ("QMNAME", 2), ("NETADDR", 4)),
    ),
    _word("ADOPTMCA", c.MQIA_ADOPTNEWMCA_TYPE, "ALL", (("NO", 0), ("ALL", 1))),
    _word("BRIDGEEV", c.MQIA_BRIDGE_EVENT, "DISABLED", _SWITCH),
    _number("CCSID", c.MQIA_CODED_CHAR_SET_ID, 1_208, 1, _PORT_MAX),
    _text("CERTLABL", c.MQCA_CERT_LABEL, 64),
    _text("CERTQSGL", c.MQCA_QSG_CERT_LABEL, 64),
    # MQ_CERT_VAL_POLICY_*.
    _word("CERTVPOL", c.MQIA_CERT_VAL_POLICY, "ANY", (("ANY", 0), ("RFC5280", 1), ("NONE", 2))),
    # MQCFCONLOS_*.
    _word("CFCONLOS", c.MQIA_QMGR_CFCONLOS, "TERMINATE", (("TERMINATE", 0), ("TOLERATE", 1))),
    _word("CHAD", c.MQIA_CHANNEL_AUTO_DEF, "DISABLED", _SWITCH),
    _word("CHADEV", c.MQIA_CHANNEL_AUTO_DEF_EVENT, "DISABLED", _SWITCH),
    _text("CHADEXIT", c.MQCA_CHANNEL_AUTO_DEF_EXIT, _EXIT),
    _number("CHIADAPS", c.MQIA_CHINIT_ADAPTERS, 8, 1, 9_999),
    _number("CHIDISPS", c.MQIA_CHINIT_DISPATCHERS, 5, 1, 9_999),
    _text("CHISERVP", c.MQCA_CHINIT_SERVICE_PARM, 32),
    _text("CLWLDATA", c.MQCA_CLUSTER_WORKLOAD_DATA, _EXIT_DATA),
    _text("CLWLEXIT", c.MQCA_CLUSTER_WORKLOAD_EXIT, _EXIT),
    _number("CLWLLEN", c.MQIA_CLUSTER_WORKLOAD_LENGTH, 100, 0, _LARGEST),
    _number("CLWLMRUC", c.MQIA_CLWL_MRU_CHANNELS, _LARGEST, 1, _LARGEST),
    _word("CLWLUSEQ", c.MQIA_CLWL_USEQ, "LOCAL", (("LOCAL", 0), ("ANY", 1))),
    _text("CUSTOM", c.MQCA_CUSTOM, 128),
    # MQCLXQ_*.
    _word("DEFCLXQ", c.MQIA_DEF_CLUSTER_XMIT_Q_TYPE, "SCTQ", (("SCTQ", 0), ("CHANNEL", 1))),
    _text("DNSGROUP", c.MQCA_DNS_GROUP, 18),
    _word("DNSWLM", c.MQIA_DNS_WLM, "NO", _NO_YES),
    _word("GROUPUR", c.MQIA_GROUP_UR, "DISABLED", _SWITCH),
    _word("IGQ", c.MQIA_INTRA_GROUP_QUEUING, "DISABLED", _SWITCH),
    # MQIGQPA_*.
    _word(
        "IGQAUT",
        c.MQIA_IGQ_PUT_AUTHORITY,
        "DEF",
        (("DEF", 1), ("CTX", 2), ("ONLYIGQ", 3), ("ALTIGQ", 4)),
    ),
    _text("IGQUSER", c.MQCA_IGQ_USER_ID, 12),
    # MQMEDIMG*.
    _number(
        "IMGINTVL",
        c.MQIA_MEDIA_IMAGE_INTERVAL,
        60,
        1,
        _LARGEST,
        words=(("OFF", 0),),
        unit="minutes",
    ),
    _number(
        "IMGLOGLN",
        c.MQIA_MEDIA_IMAGE_LOG_LENGTH,
        0,
        1,
        _LARGEST,
        words=(("OFF", 0),),
        unit="megabytes",
    ),
    _word("IMGRCOVO", c.MQIA_MEDIA_IMAGE_RECOVER_OBJ, "YES", _NO_YES),
    _word("IMGRCOVQ", c.MQIA_MEDIA_IMAGE_RECOVER_Q, "YES", _NO_YES),
    _word("IMGSCHED", c.MQIA_MEDIA_IMAGE_SCHEDULING, "MANUAL", (("MANUAL", 0), ("AUTO", 1))),
    _text("INITKEY", c.MQCA_INITIAL_KEY, 1_024),
    # MQIPADDR_*.
    _word("IPADDRV", c.MQIA_IP_ADDRESS_VERSION, "IPV4", (("IPV4", 0), ("IPV6", 1))),
    _text("KEYRPWD", c.MQCA_SSL_KEY_REPO_PASSWORD, 1_024),
    _word("LOGGEREV", c.MQIA_LOGGER_EVENT, "DISABLED", _SWITCH),
    _number("LSTRTMR", c.MQIA_LISTENER_TIMER, 60, 5, 9_999, unit="seconds"),
    _text("LU62ARM", c.MQCA_LU62_ARM_SUFFIX, 2),
    _number("LU62CHL", c.MQIA_LU62_CHANNELS, 200, 0, 9_999),
    _text("LUGROUP", c.MQCA_LU_GROUP_NAME, 8),
    _text("LUNAME", c.MQCA_LU_NAME, 8),
    _number("MAXCHL", c.MQIA_MAX_CHANNELS, 200, 1, 9_999),
    _word("MONACLS", c.MQIA_MONITORING_AUTO_CLUSSDR, "QMGR", (*_NONE, *_AS_MANAGER, *_LEVELS)),
    _word("MONCHL", c.MQIA_MONITORING_CHANNEL, "OFF", (*_NONE, *_LEVELS)),
    _number("OPORTMAX", c.MQIA_OUTBOUND_PORT_MAX, 0, 0, _PORT_MAX),
    _number("OPORTMIN", c.MQIA_OUTBOUND_PORT_MIN, 0, 0, _PORT_MAX),
    _word("OTELPCTL", c.MQIA_OTEL_PROPAGATION_CONTROL, "MANUAL", _TRACE_CONTROL),
    _word("OTELTRAC", c.MQIA_OTEL_TRACE, "OFF", _TRACES),
    _word("PSCLUS", c.MQIA_PUBSUB_CLUSTER, "ENABLED", _SWITCH),
    # MQUNDELIVERED_*.
    _word("PSNPMSG", c.MQIA_PUBSUB_NP_MSG, "DISCARD", (("DISCARD", 2), ("KEEP", 3))),
    _word(
        "PSNPRES",
        c.MQIA_PUBSUB_NP_RESP,
        "NORMAL",
        (("NORMAL", 0), ("SAFE", 1), ("DISCARD", 2), ("KEEP", 3)),
    ),
    _number("PSRTYCNT", c.MQIA_PUBSUB_MAXMSG_RETRY_COUNT, 5, 0, _LARGEST),
    # MQSYNCPOINT_*.
    _word("PSSYNCPT", c.MQIA_PUBSUB_SYNC_PT, "IFPER", (("YES", 0), ("IFPER", 1))),
    _number("RCVTIME", c.MQIA_RECEIVE_TIMEOUT, 0, 0, _SECONDS_MAX),
    _number("RCVTMIN", c.MQIA_RECEIVE_TIMEOUT_MIN, 0, 0, _SECONDS_MAX, unit="seconds"),
    # MQRCVTIME_*.
    _word(
        "RCVTTYPE",
        c.MQIA_RECEIVE_TIMEOUT_TYPE,
        "MULTIPLY",
        (("MULTIPLY", 0), ("ADD", 1), ("EQUAL", 2)),
    ),
    _text("REPOS", c.MQCA_REPOSITORY_NAME, _NAME),
    _text("REPOSNL", c.MQCA_REPOSITORY_NAMELIST, _NAME),
    _word("ROUTEREC", c.MQIA_TRACE_ROUTE_RECORDING, "MSG", _RECORDING),
    _word("SCHINIT", c.MQIA_CHINIT_CONTROL, "QMGR", (("QMGR", 0), ("MANUAL", 2))),
    _word("SCMDSERV", c.MQIA_CMD_SERVER_CONTROL, "QMGR", (("QMGR", 0), ("MANUAL", 2))),
    # MQSCYC_*.
    _word("SCYCASE", c.MQIA_SECURITY_CASE, "UPPER", (("UPPER", 0), ("MIXED", 1))),
    # MQSQQM_*.
    _word("SQQMNAME", c.MQIA_SHARED_Q_Q_MGR_NAME, "USE", (("USE", 0), ("IGNORE", 1))),
    _text("SSLCRLNL", c.MQCA_SSL_CRL_NAMELIST, _NAME),
    _text("SSLCRYP", c.MQCA_SSL_CRYPTO_HARDWARE, 256),
    _word("SSLFIPS", c.MQIA_SSL_FIPS_REQUIRED, "NO", _NO_YES),
    _text("SSLKEYR", c.MQCA_SSL_KEY_REPOSITORY, 256),
    _number("SSLRKEYC", c.MQIA_SSL_RESET_COUNT, 0, 0, _LARGEST, unit="bytes"),
    _number("SSLTASKS", c.MQIA_SSL_TASKS, 0, 0, 9_999),
    _word("STATACLS", c.MQIA_STATISTICS_AUTO_CLUSSDR, "QMGR", (*_AS_MANAGER, *_LEVELS)),
    _word("STATCHL", c.MQIA_STATISTICS_CHANNEL, "OFF", (*_NONE, *_LEVELS)),
    _number("STATINT", c.MQIA_STATISTICS_INTERVAL, 1_800, 0, 604_800, unit="seconds"),
    _word("STATMQI", c.MQIA_STATISTICS_MQI, "OFF", _OFF_ON),
    _word("STATQ", c.MQIA_STATISTICS_Q, "OFF", (*_OFF_ON, *_NONE)),
    _text(
        "SUITEB",
        c.MQIA_SUITE_B_STRENGTH,
        7,
        default="NONE",
        choices=("NONE", "128_BIT", "192_BIT"),
        is_list=True,
    ),
    _number("TCPCHL", c.MQIA_TCP_CHANNELS, 200, 0, 9_999),
    _word("TCPKEEP", c.MQIA_TCP_KEEP_ALIVE, "NO", _NO_YES),
    _text("TCPNAME", c.MQCA_TCP_NAME, 8),
    # MQTCPSTACK_*.
    _word("TCPSTACK", c.MQIA_TCP_STACK_TYPE, "SINGLE", (("SINGLE", 0), ("MULTIPLE", 1))),
    _word("TRAXSTR", c.MQIA_CHINIT_TRACE_AUTO_START, "YES", _NO_YES),
    _number("TRAXTBL", c.MQIA_CHINIT_TRACE_TABLE_SIZE, 2, 0, 2_048, unit="megabytes"),
    _number("TREELIFE", c.MQIA_TREE_LIFE_TIME, 1_800, 0, 604_000, unit="seconds"),
)

_TABLES: Final[Mapping[str, tuple[Attribute, ...]]] = {
    **dict.fromkeys(("QLOCAL", "QALIAS", "QREMOTE", "QMODEL"), _QUEUES),
    "PROCESS": _PROCESSES,
    "TOPIC": _TOPICS,
    "SUB": _SUBSCRIPTIONS,
    "CHANNEL": _CHANNELS,
    "CLNTCONN": _CHANNELS,
    "AUTHINFO": _AUTHENTICATION,
    "QMGR": _MANAGER,
    LISTENER: _LISTENERS,
    SERVICE: _SERVICES,
    NAMELIST: _NAMELISTS,
    COMMINFO: _COMMUNICATION,
    STGCLASS: _STORAGE,
    POLICY: _POLICIES,
}
#: Values that are checked and then forgotten: nothing here reads them, so none is stored.
SECRETS: Final = frozenset({"INITKEY", "KEYRPWD", "LDAPPWD", "PASSWORD"})
#: Attributes in the tables of ``engine/attributes`` that are without effect: there are no clusters
#: and page sets. They have none on objects of these kinds or types.
NOT_OBEYED: Final[Mapping[str, tuple[str, ...]]] = {
    "CLUSTER": _CLUSTERED,
    "DISCINT": ("SVRCONN",),
    "MCAUSER": ("SDR",),
    "STGCLASS": _HOLDERS,
}


@cache
def kept_attributes_of(kind: str) -> Mapping[str, Attribute]:
    """Return the attributes of a kind that are kept without effect, by keyword.

    CHANNEL and AUTHINFO have those of all their types; ``objects`` of a row are the types that have
    it. Empty for a kind without such attributes.
    """
    is_typed = kind in ("CHANNEL", "CLNTCONN", "AUTHINFO")
    found = {
        row.keyword: row
        for row in _TABLES.get(kind, ())
        if is_typed or not row.objects or kind in row.objects
    }
    if kind == "CLNTCONN":
        found = {k: row for k, row in found.items() if kind in row.objects}
    return MappingProxyType(found)
