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


def _word(
    keyword: str, default: str, words: _Words, *objects: str, selector: int | None = None
) -> Attribute:
    """Return the row of an attribute whose value is one of ``words``.

    For ``objects`` see :func:`_number`, for ``selector`` :class:`Attribute`.
    """
    row = _number(keyword, dict(words)[default], 0, -1, *objects, words=words)
    return row._replace(selector=selector)


def _number(
    keyword: str,
    default: int,
    low: int,
    high: int,
    *objects: str,
    words: _Words = (),
    unit: str = "",
) -> Attribute:
    """Return the row of an attribute whose value is a number from ``low`` to ``high``, or a word.

    ``objects`` are the types of queues, channels or AUTHINFO objects that have it, none for all.
    """
    return Attribute(keyword, "", objects, default, None, low, high, words, 0, unit)


def _text(
    keyword: str,
    length: int,
    *objects: str,
    default: str = "",
    choices: tuple[str, ...] = (),
    is_list: bool = False,
    takes_any_text: bool = False,
    selector: int | None = None,
) -> Attribute:
    """Return the row of an attribute whose value is a text of at most ``length`` bytes.

    For ``objects`` see :func:`_number`, for the other parameters :class:`Attribute`.
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


_DISPOSITION: Final = _word("QSGDISP", "QMGR", _DISPOSITIONS)

# Queues; the objects of a row are types of queues

_HOLDERS = ("QLOCAL", "QMODEL")
_CLUSTERED = ("QLOCAL", "QALIAS", "QREMOTE")
_READ = ("QLOCAL", "QALIAS", "QMODEL")

_QUEUES = (
    _word("ACCTQ", "QMGR", (*_AS_MANAGER, *_OFF_ON), *_HOLDERS),
    _text("CFSTRUCT", 12, *_HOLDERS),
    _text("CLCHNAME", _CHANNEL_NAME, "QLOCAL"),
    _text("CLUSNL", _NAME, *_CLUSTERED),
    _number("CLWLPRTY", 0, 0, 9, *_CLUSTERED),
    _number("CLWLRANK", 0, 0, 9, *_CLUSTERED),
    # MQCLWL_USEQ_*.
    _word("CLWLUSEQ", "QMGR", (*_AS_MANAGER, ("LOCAL", 0), ("ANY", 1)), "QLOCAL"),
    _word("DEFPRESP", "SYNC", _RESPONSES),
    # MQREADA_*.
    _word("DEFREADA", "NO", (*_NO_YES, ("DISABLED", 2)), *_READ),
    _word("DISTL", "NO", _NO_YES, *_HOLDERS),
    # MQIMGRCOV_*.
    _word("IMGRCOVQ", "QMGR", (*_NO_YES, ("QMGR", 2)), *_HOLDERS),
    _number("MAXFSIZE", -1, 20, 267_386_880, *_HOLDERS, words=(("DEFAULT", -1),), unit="megabytes"),
    # MQNPM_CLASS_*.
    _word("NPMCLASS", "NORMAL", (("NORMAL", 0), ("HIGH", 10)), *_HOLDERS),
    _number("RETINTVL", _LARGEST, 0, _LARGEST, *_HOLDERS, unit="hours"),
    # MQSCO_*.
    _word("SCOPE", "QMGR", (("QMGR", 1), ("CELL", 2)), *_CLUSTERED),
    _word("STATQ", "QMGR", (*_AS_MANAGER, *_OFF_ON), *_HOLDERS),
    _text("STREAMQ", _NAME, *_HOLDERS),
    # MQST_*.
    _word("STRMQOS", "BESTEF", (("BESTEF", 0), ("MUSTDUP", 1)), *_HOLDERS),
    _word("OTELPCTL", "QMGR", (("QMGR", 0), *_TRACE_CONTROL)),
    _word("OTELTRAC", "QMGR", (("QMGR", 0), *_TRACES)),
    _word("QSGDISP", "QMGR", _DISPOSITIONS, "QALIAS", "QREMOTE"),
    _word("QSGDISP", "QMGR", (*_DISPOSITIONS, ("SHARED", 2)), "QMODEL"),
)

# Topics and subscriptions

#: MQSCOPE_*.
_EVERYWHERE: _Words = (("ALL", 0), ("QMGR", 4))
_TOPICS = (
    # MQCLROUTE_*.
    _word("CLROUTE", "DIRECT", (("DIRECT", 0), ("TOPICHOST", 1))),
    _text("CLUSTER", _NAME),
    _text("COMMINFO", _NAME),
    _word("DEFPRESP", "ASPARENT", (("ASPARENT", 0), *_RESPONSES)),
    # MQMC_*.
    _word("MCAST", "ASPARENT", (("ASPARENT", 0), ("ENABLED", 1), ("DISABLED", 2), ("ONLY", 3))),
    # MQTA_PROXY_SUB_*.
    _word("PROXYSUB", "FIRSTUSE", (("FORCE", 1), ("FIRSTUSE", 2))),
    _word("PUBSCOPE", "ASPARENT", (("ASPARENT", 1), *_EVERYWHERE)),
    _word("SUBSCOPE", "ASPARENT", (("ASPARENT", 1), *_EVERYWHERE)),
    # MQTOPT_*.
    _word("TYPE", "LOCAL", (("LOCAL", 0),)),
    # MQTA_*.
    _word("WILDCARD", "PASSTHRU", (("BLOCK", 1), ("PASSTHRU", 2))),
    _word("OTELPCTL", "ASPARENT", (("QMGR", 0), *_TRACE_CONTROL, ("ASPARENT", 3))),
    _word("OTELTRAC", "ASPARENT", (("QMGR", 0), *_TRACES, ("ASPARENT", 4))),
    _DISPOSITION,
)
_SUBSCRIPTIONS = (
    # MQPSPROP_*.
    _word("PSPROP", "MSGPROP", (("NONE", 0), ("COMPAT", 1), ("RFH2", 2), ("MSGPROP", 3))),
    _text("PUBACCT", 64),
    _text("PUBAPPID", 32),
    _number("SUBLEVEL", 1, 0, 9),
    _word("SUBSCOPE", "ALL", _EVERYWHERE),
    # MQWS_*.
    _word("WSCHEMA", "TOPIC", (("CHAR", 1), ("TOPIC", 2))),
    _text("CUSTOM", 128),
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
    _number("BATCHHB", 0, 0, _SECONDS_MAX, *_SENDING, unit="milliseconds"),
    _number("BATCHLIM", 5_000, 0, _SECONDS_MAX, *_SENDING, unit="kilobytes"),
    _text("CERTLABL", 64, "SDR", "RCVR", "SVRCONN", SVR, RQSTR, CLUSRCVR, AMQP),
    _text("CLUSNL", _NAME, *_CLUSTER),
    _text("CLUSTER", _NAME, *_CLUSTER),
    _number("CLWLPRTY", 0, 0, 9, *_CLUSTER),
    _number("CLWLRANK", 0, 0, 9, *_CLUSTER),
    _number("CLWLWGHT", 50, 1, 99, *_CLUSTER),
    _text("COMPHDR", 8, *_NETWORK, default="NONE", choices=("NONE", "SYSTEM"), is_list=True),
    _text("COMPMSG", 8, *_NETWORK, default="NONE", choices=_COMPRESSIONS, is_list=True),
    _word("CONVERT", "NO", _NO_YES, *_SENDING),
    # MQCHLD_*.
    _word("DEFCDISP", "PRIVATE", (("SHARED", 2), ("PRIVATE", 4), ("FIXSHARED", 5)), *_NETWORK),
    _number("KAINT", -1, 0, 99_999, *_NETWORK, words=_AUTO, unit="seconds"),
    _text("LOCLADDR", 48, *_CALLING, AMQP, takes_any_text=True),
    _text("MCANAME", 20, *_WITH_MCA),
    # MQMCAT_*.
    _word("MCATYPE", "PROCESS", (("PROCESS", 1), ("THREAD", 2)), *_WITH_MCA),
    _text("MODENAME", 8, *_CALLING),
    _word("MONCHL", "QMGR", (*_AS_MANAGER, *_LEVELS), *_MESSAGES, "SVRCONN"),
    _text("MRDATA", _EXIT_DATA, *_RECEIVING),
    _text("MREXIT", _EXIT, *_RECEIVING),
    _text("MSGDATA", _EXIT_DATA, *_MESSAGES, is_list=True),
    _text("MSGEXIT", _EXIT, *_MESSAGES, is_list=True),
    _number("NETPRTY", 0, 0, 9, CLUSRCVR),
    _text("PASSWORD", 12, *_PASSWORDS),
    # MQPROP_*.
    _word(
        "PROPCTL", "COMPAT", (("COMPAT", 0), ("NONE", 1), ("ALL", 2), ("V6COMPAT", 4)), *_SENDING
    ),
    # MQPA_*.
    _word(
        "PUTAUT",
        "DEF",
        (("DEF", 1), ("CTX", 2), ("ONLYMCA", 3), ("ALTMCA", 4)),
        *_RECEIVING,
        "SVRCONN",
    ),
    _text("RCVDATA", _EXIT_DATA, *_NETWORK, is_list=True),
    _text("RCVEXIT", _EXIT, *_NETWORK, is_list=True),
    _text("SCYDATA", _EXIT_DATA, *_NETWORK),
    _text("SCYEXIT", _EXIT, *_NETWORK),
    _text("SENDDATA", _EXIT_DATA, *_NETWORK, is_list=True),
    _text("SENDEXIT", _EXIT, *_NETWORK, is_list=True),
    # MQSPL_*.
    _word(
        "SPLPROT",
        "PASSTHRU",
        (("PASSTHRU", 0), ("REMOVE", 1), ("ASPOLICY", 2)),
        "SDR",
        "RCVR",
        SVR,
        RQSTR,
    ),
    _word("STATCHL", "QMGR", (*_AS_MANAGER, *_LEVELS), *_MESSAGES),
    _text("TPNAME", 64, *_CALLING),
    _text("USERID", 12, *_PASSWORDS),
    _number("AMQPKA", -1, 0, 99_999, AMQP, words=_AUTO, unit="seconds"),
    _number("BACKLOG", 0, 0, _LARGEST, AMQP),
    _text("JAASCFG", 1_024, AMQP),
    _number("PORT", 5_672, 1, _PORT_MAX, AMQP),
    _text("SSLKEYP", 1_024, AMQP),
    _text("TMPMODEL", _NAME, AMQP, default="SYSTEM.DEFAULT.MODEL.QUEUE"),
    _text("TMPQPRFX", 32, AMQP, default="AMQP.*"),
    _text("TPROOT", 128, AMQP, default="SYSTEM.BASE.TOPIC"),
    _word("USECLTID", "NO", _NO_YES, AMQP),
    _word("QSGDISP", "QMGR", _DISPOSITIONS, *_NETWORK),
)

# Authentication; the objects of a row are types of AUTHINFO objects

CRLLDAP, OCSP, IDPWOS, IDPWLDAP = "CRLLDAP", "OCSP", "IDPWOS", "IDPWLDAP"
_LDAP_FIELD = 128

_AUTHENTICATION = (
    _text("CONNAME", 264, CRLLDAP, IDPWLDAP),
    _text("LDAPUSER", _DISTINGUISHED_NAME, CRLLDAP, IDPWLDAP),
    _text("LDAPPWD", 256, CRLLDAP, IDPWLDAP),
    _text("OCSPURL", 256, OCSP),
    # MQAUTHENTICATE_*.
    _word("AUTHENMD", "OS", (("OS", 0), ("PAM", 1)), IDPWOS),
    # MQLDAP_AUTHORMD_*.
    _word(
        "AUTHORMD",
        "OS",
        (("OS", 0), ("SEARCHGRP", 1), ("SEARCHUSR", 2), ("SRCHGRPSN", 3)),
        IDPWLDAP,
    ),
    _text("BASEDNG", _DISTINGUISHED_NAME, IDPWLDAP),
    _text("BASEDNU", _DISTINGUISHED_NAME, IDPWLDAP),
    _text("CLASSGRP", _LDAP_FIELD, IDPWLDAP),
    _text("CLASSUSR", _LDAP_FIELD, IDPWLDAP),
    _text("FINDGRP", _LDAP_FIELD, IDPWLDAP),
    _text("GRPFIELD", _LDAP_FIELD, IDPWLDAP),
    _word("NESTGRP", "NO", _NO_YES, IDPWLDAP),
    # MQSECCOMM_*.
    _word("SECCOMM", "NO", (*_NO_YES, ("ANON", 2)), IDPWLDAP),
    _text("SHORTUSR", _LDAP_FIELD, IDPWLDAP),
    _text("USRFIELD", _LDAP_FIELD, IDPWLDAP),
    _word("QSGDISP", "QMGR", _DISPOSITIONS, CRLLDAP, OCSP, IDPWOS, IDPWLDAP),
)

_PROCESSES = (_DISPOSITION,)

# Objects that are kept as a whole

_LISTENERS = (
    # MQXPT_*.
    _word("TRPTYPE", "TCP", (("TCP", 2), ("LU62", 1), ("NETBIOS", 3), ("SPX", 4))),
    _word("CONTROL", "MANUAL", _CONTROL),
    _text("DESCR", _DESCRIPTION),
    _text("IPADDR", 48, takes_any_text=True),
    _number("PORT", 0, 0, _PORT_MAX),
    _number("BACKLOG", 0, 0, _LARGEST),
    _text("TPNAME", 64),
    _number("ADAPTER", 0, 0, _LARGEST),
    _number("COMMANDS", 0, 0, _LARGEST),
    _text("LOCLNAME", 16),
    _number("NTBNAMES", 0, 0, _LARGEST),
    _number("SESSIONS", 0, 0, _LARGEST),
    _number("SOCKET", 0, 0, _LARGEST),
)
_SERVICES = (
    _text("DESCR", _DESCRIPTION),
    _word("CONTROL", "MANUAL", _CONTROL),
    # MQSVC_TYPE_*.
    _word("SERVTYPE", "COMMAND", (("COMMAND", 0), ("SERVER", 1))),
    _text("STARTCMD", _PATH),
    _text("STARTARG", _PATH),
    _text("STOPCMD", _PATH),
    _text("STOPARG", _PATH),
    _text("STDOUT", _PATH),
    _text("STDERR", _PATH),
)
_NAMELISTS = (
    _text("DESCR", _DESCRIPTION, selector=c.MQCA_NAMELIST_DESC),
    _text("NAMES", _NAME, is_list=True, selector=c.MQCA_NAMES),
    _DISPOSITION,
    # MQNT_*.
    _word(
        "NLTYPE",
        "NONE",
        (("NONE", 0), ("QUEUE", 1), ("CLUSTER", 2), ("AUTHINFO", 4)),
        selector=c.MQIA_NAMELIST_TYPE,
    ),
)
_COMMUNICATION = (
    # MQCIT_*.
    _word("TYPE", "MULTICAST", (("MULTICAST", 1),)),
    _text("DESCR", _DESCRIPTION),
    _word("BRIDGE", "ENABLED", _SWITCH),
    # MQCCSI_AS_PUBLISHED.
    _number("CCSID", -4, 1, _PORT_MAX, words=(("ASPUB", -4),)),
    _word("COMMEV", "DISABLED", _EXCEPTIONS),
    # MQENC_*.
    _word(
        "ENCODING",
        "ASPUB",
        (("ASPUB", -1), ("NORMAL", 273), ("REVERSED", 546), ("S390", 785), ("TNS", 1_041)),
    ),
    _text("GRPADDR", 264),
    _number("MCHBINT", 2_000, 0, _SECONDS_MAX, unit="milliseconds"),
    # MQMCP_*.
    _word("MCPROP", "ALL", (("ALL", -1), ("COMPAT", -2), ("NONE", 0), ("USER", 1), ("REPLY", 2))),
    _number("MONINT", 60, 0, _SECONDS_MAX, unit="seconds"),
    _number("MSGHIST", 100, 0, _SECONDS_MAX, unit="kilobytes"),
    # MQNSH_*.
    _word("NSUBHIST", "NONE", (("NONE", 0), ("ALL", -1))),
    _number("PORT", 1_414, 0, _PORT_MAX),
)
_STORAGE = (
    _text("DESCR", _DESCRIPTION),
    _text("PASSTKTA", 8),
    _text("PSID", 2, default="00"),
    _DISPOSITION,
    _text("XCFGNAME", 8),
    _text("XCFMNAME", 16),
)
_POLICIES = (
    # MQMLP_SIGN_ALG_* and MQMLP_ENCRYPTION_ALG_*.
    _word(
        "SIGNALG",
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
        "NONE",
        (("NONE", 0), ("RC2", 1), ("DES", 2), ("3DES", 3), ("AES128", 4), ("AES256", 5)),
    ),
    _text("SIGNER", _DISTINGUISHED_NAME, is_list=True),
    _text("RECIP", _DISTINGUISHED_NAME, is_list=True),
    # MQKEY_REUSE_*.
    _number("KEYREUSE", 0, 1, 9_999_999, words=(("DISABLED", 0), ("UNLIMITED", -1))),
    _word("TOLERATE", "NO", _NO_YES),
)

# The queue manager

_MANAGER = (
    _word("ACCTCONO", "DISABLED", _SWITCH),
    _number("ACCTINT", 1_800, 0, 604_800, unit="seconds"),
    _word("ACCTMQI", "OFF", _OFF_ON),
    _word("ACCTQ", "OFF", (*_OFF_ON, *_NONE)),
    _number("ACTCHL", 200, 1, 9_999),
    _word("ACTIVREC", "MSG", _RECORDING),
    _word("ACTVCONO", "DISABLED", _SWITCH),
    _word("ACTVTRC", "OFF", _OFF_ON),
    # MQADOPT_*.
    _word("ADOPTCHK", "ALL", (("NONE", 0), ("ALL", 1), ("QMNAME", 2), ("NETADDR", 4))),
    _word("ADOPTMCA", "ALL", (("NO", 0), ("ALL", 1))),
    _word("BRIDGEEV", "DISABLED", _SWITCH),
    _number("CCSID", 1_208, 1, _PORT_MAX),
    _text("CERTLABL", 64),
    _text("CERTQSGL", 64),
    # MQ_CERT_VAL_POLICY_*.
    _word("CERTVPOL", "ANY", (("ANY", 0), ("RFC5280", 1), ("NONE", 2))),
    # MQCFCONLOS_*.
    _word("CFCONLOS", "TERMINATE", (("TERMINATE", 0), ("TOLERATE", 1))),
    _word("CHAD", "DISABLED", _SWITCH),
    _word("CHADEV", "DISABLED", _SWITCH),
    _text("CHADEXIT", _EXIT),
    _number("CHIADAPS", 8, 1, 9_999),
    _number("CHIDISPS", 5, 1, 9_999),
    _text("CHISERVP", 32),
    _text("CLWLDATA", _EXIT_DATA),
    _text("CLWLEXIT", _EXIT),
    _number("CLWLLEN", 100, 0, _LARGEST),
    _number("CLWLMRUC", _LARGEST, 1, _LARGEST),
    _word("CLWLUSEQ", "LOCAL", (("LOCAL", 0), ("ANY", 1))),
    _text("CUSTOM", 128),
    # MQCLXQ_*.
    _word("DEFCLXQ", "SCTQ", (("SCTQ", 0), ("CHANNEL", 1))),
    _text("DNSGROUP", 18),
    _word("DNSWLM", "NO", _NO_YES),
    _word("GROUPUR", "DISABLED", _SWITCH),
    _word("IGQ", "DISABLED", _SWITCH),
    # MQIGQPA_*.
    _word("IGQAUT", "DEF", (("DEF", 1), ("CTX", 2), ("ONLYIGQ", 3), ("ALTIGQ", 4))),
    _text("IGQUSER", 12),
    # MQMEDIMG*.
    _number("IMGINTVL", 60, 1, _LARGEST, words=(("OFF", 0),), unit="minutes"),
    _number("IMGLOGLN", 0, 1, _LARGEST, words=(("OFF", 0),), unit="megabytes"),
    _word("IMGRCOVO", "YES", _NO_YES),
    _word("IMGRCOVQ", "YES", _NO_YES),
    _word("IMGSCHED", "MANUAL", (("MANUAL", 0), ("AUTO", 1))),
    _text("INITKEY", 1_024),
    # MQIPADDR_*.
    _word("IPADDRV", "IPV4", (("IPV4", 0), ("IPV6", 1))),
    _text("KEYRPWD", 1_024),
    _word("LOGGEREV", "DISABLED", _SWITCH),
    _number("LSTRTMR", 60, 5, 9_999, unit="seconds"),
    _text("LU62ARM", 2),
    _number("LU62CHL", 200, 0, 9_999),
    _text("LUGROUP", 8),
    _text("LUNAME", 8),
    _number("MAXCHL", 200, 1, 9_999),
    _word("MONACLS", "QMGR", (*_NONE, *_AS_MANAGER, *_LEVELS)),
    _word("MONCHL", "OFF", (*_NONE, *_LEVELS)),
    _number("OPORTMAX", 0, 0, _PORT_MAX),
    _number("OPORTMIN", 0, 0, _PORT_MAX),
    _word("OTELPCTL", "MANUAL", _TRACE_CONTROL),
    _word("OTELTRAC", "OFF", _TRACES),
    _word("PSCLUS", "ENABLED", _SWITCH),
    # MQUNDELIVERED_*.
    _word("PSNPMSG", "DISCARD", (("DISCARD", 2), ("KEEP", 3))),
    _word("PSNPRES", "NORMAL", (("NORMAL", 0), ("SAFE", 1), ("DISCARD", 2), ("KEEP", 3))),
    _number("PSRTYCNT", 5, 0, _LARGEST),
    # MQSYNCPOINT_*.
    _word("PSSYNCPT", "IFPER", (("YES", 0), ("IFPER", 1))),
    _number("RCVTIME", 0, 0, _SECONDS_MAX),
    _number("RCVTMIN", 0, 0, _SECONDS_MAX, unit="seconds"),
    # MQRCVTIME_*.
    _word("RCVTTYPE", "MULTIPLY", (("MULTIPLY", 0), ("ADD", 1), ("EQUAL", 2))),
    _text("REPOS", _NAME),
    _text("REPOSNL", _NAME),
    _word("ROUTEREC", "MSG", _RECORDING),
    _word("SCHINIT", "QMGR", (("QMGR", 0), ("MANUAL", 2))),
    _word("SCMDSERV", "QMGR", (("QMGR", 0), ("MANUAL", 2))),
    # MQSCYC_*.
    _word("SCYCASE", "UPPER", (("UPPER", 0), ("MIXED", 1))),
    # MQSQQM_*.
    _word("SQQMNAME", "USE", (("USE", 0), ("IGNORE", 1))),
    _text("SSLCRLNL", _NAME),
    _text("SSLCRYP", 256),
    _word("SSLFIPS", "NO", _NO_YES),
    _text("SSLKEYR", 256),
    _number("SSLRKEYC", 0, 0, _LARGEST, unit="bytes"),
    _number("SSLTASKS", 0, 0, 9_999),
    _word("STATACLS", "QMGR", (*_AS_MANAGER, *_LEVELS)),
    _word("STATCHL", "OFF", (*_NONE, *_LEVELS)),
    _number("STATINT", 1_800, 0, 604_800, unit="seconds"),
    _word("STATMQI", "OFF", _OFF_ON),
    _word("STATQ", "OFF", (*_OFF_ON, *_NONE)),
    _text("SUITEB", 7, default="NONE", choices=("NONE", "128_BIT", "192_BIT"), is_list=True),
    _number("TCPCHL", 200, 0, 9_999),
    _word("TCPKEEP", "NO", _NO_YES),
    _text("TCPNAME", 8),
    # MQTCPSTACK_*.
    _word("TCPSTACK", "SINGLE", (("SINGLE", 0), ("MULTIPLE", 1))),
    _word("TRAXSTR", "YES", _NO_YES),
    _number("TRAXTBL", 2, 0, 2_048, unit="megabytes"),
    _number("TREELIFE", 1_800, 0, 604_000, unit="seconds"),
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
