"""Keywords of DISPLAY beside attributes with a value: names of groups, and blank ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mayfly.admin import (
    APSTATUS_LOCAL,
    AUTHSERV,
    CHANNEL,
    CHSTATUS,
    CLNTCONN,
    CONN,
    HANDLE,
    QMGR,
    QMSTATUS,
    QSTATUS,
    QSTATUS_HANDLE,
    QUEUE_KINDS,
    SBSTATUS,
    SUB,
    TOPIC,
    TPSTATUS,
    TPSTATUS_SUB,
)

#: The attributes that one keyword shows, by kind; none for a keyword that changes nothing here.
_GROUPS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    QMGR: {
        "SYSTEM": tuple(
            (
                "ACCTCONO ACCTINT ACCTMQI ACCTQ ACTIVREC ACTVCONO ACTVTRC ADVCAP AMQPCAP CCSID"
                " CFCONLOS CMDLEVEL COMMANDQ CONNAUTH CUSTOM DEADQ DESCR DISTL EXPRYINT GROUPUR"
                " IMGINTVL IMGLOGLN IMGRCOVO IMGRCOVQ IMGSCHED INITKEY MARKINT MAXHANDS MAXMSGL"
                " MAXPROPL MAXPRTY MAXUMSGS MONQ PLATFORM ROUTEREC SCMDSERV SCYCASE SPLCAP"
                " SQQMNAME STATINT STATMQI STATQ SYNCPT TRIGINT VERSION XRCAP"
            ).split()
        ),
        "CHINIT": tuple(
            (
                "ACTCHL ADOPTCHK ADOPTMCA CERTLABL CERTQSGL CERTVPOL CHAD CHADEV CHADEXIT"
                " CHIADAPS CHIDISPS CHISERVP CHLAUTH CHLEV DEADQ DEFXMITQ DNSGROUP DNSWLM IGQ"
                " IGQAUT IGQUSER IPADDRV KEYRPWD LSTRTMR LU62ARM LU62CHL LUGROUP LUNAME MAXCHL"
                " MONACLS MONCHL OPORTMAX OPORTMIN RCVTIME RCVTMIN RCVTTYPE REVDNS SCHINIT"
                " SSLCRLNL SSLCRYP SSLEV SSLFIPS SSLKEYR SSLRKEYC SSLTASKS STATACLS STATCHL"
                " SUITEB TCPCHL TCPKEEP TCPNAME TCPSTACK TRAXSTR TRAXTBL"
            ).split()
        ),
        "EVENT": tuple(
            "AUTHOREV BRIDGEEV CHADEV CHLEV CMDEV CONFIGEV INHIBTEV LOCALEV LOGGEREV PERFMEV"
            " REMOTEEV SSLEV STRSTPEV".split()
        ),
        "PUBSUB": tuple("PARENT PSCLUS PSMODE PSNPMSG PSNPRES PSRTYCNT PSSYNCPT TREELIFE".split()),
        "CLUSTER": tuple(
            "CLWLDATA CLWLEXIT CLWLLEN CLWLMRUC CLWLUSEQ DEFCLXQ MONACLS REPOS REPOSNL".split()
        ),
    },
    QSTATUS: {
        "MONITOR": ("LGETDATE", "LGETTIME", "LPUTDATE", "LPUTTIME", "MONQ", "MSGAGE", "QTIME")
    },
    CHSTATUS: {"CURRENT": (), "SAVED": (), "MONITOR": ()},
    SUB: {"SUMMARY": ()},
}
_ALTERED: Final = "ALTDATE ALTTIME"
_MADE: Final = "CRDATE CRTIME"
_OF_CLUSTER: Final = "CLUSDATE CLUSQMGR CLUSTIME QMID"
#: Attributes of IBM MQ on distributed platforms that nothing here has, by kind.
_BLANK: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(words.split())
    for kind, words in (
        (QMGR, f"{_ALTERED} {_MADE} AUTHEVSC CPILEVEL"),
        *((kind, f"{_ALTERED} {_MADE} {_OF_CLUSTER} CLUSQT") for kind in QUEUE_KINDS),
        *((kind, _ALTERED) for kind in (CHANNEL, CLNTCONN)),
        (TOPIC, f"{_ALTERED} {_OF_CLUSTER} CLSTATE"),
        (SUB, f"{_ALTERED} {_MADE}"),
        (APSTATUS_LOCAL, "BALOPTS BALTMOUT BALTYPE"),
        (AUTHSERV, "IFVER"),
        *((kind, "MCASTREL") for kind in (SBSTATUS, TPSTATUS_SUB)),
        (TPSTATUS, "CLROUTE LPUBDATE LPUBTIME MCASTREL NUMPUBS PUBCOUNT"),
        (QSTATUS, "CURFSIZE CURMAXFS MEDIALOG"),
        (QSTATUS_HANDLE, "APPLDESC ASTATE HSTATE PID QMURID TID URID URTYPE"),
        (
            QMSTATUS,
            (
                "ARCHLOG ARCHSZ AUTOCLUS CHINIT CHKPTCNT CHKPTOPS CHKPTSZ CMDSERV CURRLOG"
                " DATFSSZ DATFSUSE DATPATH DISKLSN GRPLSN GRPNAME GRPROLE HOSTNAME INSTANCE"
                " INSTDESC INSTNAME INSTPATH LDAPCONN LOG LOGEXTSZ LOGFSSZ LOGFSUSE LOGINUSE"
                " LOGPATH LOGPRIM LOGSEC LOGSTRDA LOGSTRL LOGSTRTI LOGTYPE LOGUTIL MEDIALOG"
                " MEDIASZ NHATYPE QMFSENC QMFSSZ QMFSUSE QUORUM RECLOG RECSZ REUSESZ STANDBY"
                " STARTDA STARTTI UNICLUS"
            ),
        ),
        (
            CHSTATUS,
            (
                "AMQPKA BATCHSZ BUFSRCVD BUFSSENT COMPHDR COMPMSG COMPRATE COMPTIME CURMSGS"
                " EXITTIME JOBNAME KAINT LOCLADDR LSTMSGDA LSTMSGTI MAXMSGL MAXSHCNV MCASTAT"
                " MONCHL NETTIME NPMSPEED PORT QMNAME RPRODUCT RVERSION SECPROT SSLCERTI"
                " SSLCERTU SSLCIPH SSLKEYDA SSLKEYTI SSLPEER SSLRKEYS STATCHL STOPREQ SUBSTATE"
                " TPROOT USECLTID XBATCHSZ XQMSGSA XQTIME"
            ),
        ),
        (
            CONN,
            (
                "APPLDESC ASTATE CLIENTID CONNOPTS CONNTAG EXTCONN EXTURID PID TID UOWLOG"
                " UOWLOGDA UOWLOGTI URTYPE"
            ),
        ),
        (HANDLE, "ASTATE DEST DESTQMGR HSTATE READA SUBID SUBNAME TOPICSTR"),
    )
}


def group_of(kinds: Iterable[str], keyword: str) -> tuple[str, ...] | None:
    """Return the attributes of some kinds that a keyword such as EVENT stands for.

    Returns () for a keyword that says nothing here, as CURRENT, and None for one that is no group.
    """
    found = (_GROUPS[kind].get(keyword) for kind in kinds if kind in _GROUPS)
    return next((group for group in found if group is not None), None)


def is_blank(kinds: Iterable[str], keyword: str) -> bool:
    """Return True for an attribute of IBM MQ of which nothing here has a value, as PID of CONN."""
    return any(keyword in _BLANK.get(kind, ()) for kind in kinds)
