"""The attributes of what decides who comes in: password checks, and rules for channels."""

from __future__ import annotations

from typing import ClassVar, Final

from mayfly.engine.attributes.attribute import AUTHINFO, CHLAUTH, SECONDS, attribute
from mayfly.engine.attributes.definition import Definition, table
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c

_CHECKS: Final = (
    ("NONE", k.MQCHK_NONE),
    ("OPTIONAL", k.MQCHK_OPTIONAL),
    ("REQUIRED", k.MQCHK_REQUIRED),
    ("REQDADM", k.MQCHK_REQUIRED_ADMIN),
)
_NO_YES: Final = (("NO", c.MQWARN_NO), ("YES", c.MQWARN_YES))
_LONGEST_DELAY_S = 60
_LONGEST_LIST = 10_240


@table
class AuthenticationDefinition(Definition):
    """How passwords are checked. IDPWOS is a file of users, where IBM MQ asks the machine."""

    kinds: ClassVar = (AUTHINFO,)

    authtype: int = attribute(
        c.MQAIT_IDPW_OS, c.MQIA_AUTH_INFO_TYPE, words=(("IDPWOS", c.MQAIT_IDPW_OS),)
    )
    descr: str = attribute("", c.MQCA_AUTH_INFO_DESC, length=64)
    # Of clients, and of programs on this machine. REQDADM: only an administrator needs a password.
    chckclnt: int = attribute(k.MQCHK_REQUIRED_ADMIN, c.MQIA_CHECK_CLIENT_BINDING, words=_CHECKS)
    chcklocl: int = attribute(k.MQCHK_OPTIONAL, c.MQIA_CHECK_LOCAL_BINDING, words=_CHECKS)
    # Whether the user whose password was right is the one whose authority counts.
    adoptctx: int = attribute(
        k.MQADPCTX_YES,
        c.MQIA_ADOPT_CONTEXT,
        words=(("NO", k.MQADPCTX_NO), ("YES", k.MQADPCTX_YES)),
    )
    # How long the answer to a wrong password is kept back.
    faildlay: int = attribute(
        1, c.MQIA_AUTHENTICATION_FAIL_DELAY, low=0, high=_LONGEST_DELAY_S, unit=SECONDS
    )


@table
class ChannelRuleDefinition(Definition):
    """One rule for channels; its name is all that it is found by (``objects/channel_rules.py``)."""

    kinds: ClassVar = (CHLAUTH,)

    # The names of channels that the rule is for, with * for any characters.
    profile: str = attribute("*", length=20)
    type: int = attribute(
        k.MQCAUT_ADDRESSMAP,
        k.MQIACF_CHLAUTH_TYPE,
        words=(
            ("BLOCKUSER", k.MQCAUT_BLOCKUSER),
            ("BLOCKADDR", k.MQCAUT_BLOCKADDR),
            ("SSLPEERMAP", k.MQCAUT_SSLPEERMAP),
            ("ADDRESSMAP", k.MQCAUT_ADDRESSMAP),
            ("USERMAP", k.MQCAUT_USERMAP),
            ("QMGRMAP", k.MQCAUT_QMGRMAP),
        ),
    )
    descr: str = attribute("", c.MQCA_CHLAUTH_DESC, length=64)
    custom: str = attribute("", c.MQCA_CUSTOM, length=128)
    # Patterns for the partner's certificate, address, queue manager and user.
    sslpeer: str = attribute("", k.MQCACH_SSL_PEER_NAME, length=1_024)
    sslcerti: str = attribute("", c.MQCA_SSL_CERT_ISSUER_NAME, length=1_024)
    clntuser: str = attribute("", k.MQCACH_CLIENT_USER_ID, length=64)
    qmname: str = attribute("", c.MQCA_REMOTE_Q_MGR_NAME, length=48)
    address: str = attribute("", k.MQCACH_CONNECTION_NAME, length=264)
    # Addresses and users that are blocked: names or patterns with commas between.
    addrlist: str = attribute("", k.MQCACH_CONNECTION_NAME_LIST, length=_LONGEST_LIST)
    userlist: str = attribute("", k.MQCACH_MCA_USER_ID_LIST, length=_LONGEST_LIST)
    # The user whose authority counts: MCAUSER, the one that the partner names, or none at all.
    usersrc: int = attribute(
        c.MQUSRC_MAP,
        k.MQIACH_USER_SOURCE,
        words=(
            ("MAP", c.MQUSRC_MAP),
            ("NOACCESS", c.MQUSRC_NOACCESS),
            ("CHANNEL", c.MQUSRC_CHANNEL),
        ),
    )
    mcauser: str = attribute("", k.MQCACH_MCA_USER_ID, length=12)
    chckclnt: int = attribute(
        k.MQCHK_AS_Q_MGR,
        c.MQIA_CHECK_CLIENT_BINDING,
        words=(
            ("ASQMGR", k.MQCHK_AS_Q_MGR),
            ("REQUIRED", k.MQCHK_REQUIRED),
            ("REQDADM", k.MQCHK_REQUIRED_ADMIN),
        ),
    )
    # YES: a partner that the rule refuses is let in, and logged.
    warn: int = attribute(c.MQWARN_NO, k.MQIACH_WARNING, words=_NO_YES)
