"""docs/GLOSSARY.md: the words of each source document lead to the page about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_docs import ROOT, anchors

PAGE = ROOT / "docs" / "GLOSSARY.md"
#: What a reader of a source may look for, by the heading of its table.
WORDS = {
    "Expiry in the MQMD, in Japanese": """
        有効期限, 満了時間, 10 分の 1 秒単位, 廃棄の対象, 有効期限の残り時間, 宛先キュー,
        伝送キュー, メッセージ・チャネル・エージェント, メッセージ記述子, レポート・オプション,
        満了レポート, 同期点, 作業単位, バックアウト, 送達不能, トリガー・メッセージ,
        IMS ブリッジ, MQIIH_PASS_EXPIRATION,
        export AMQ_ENFORCE_MAX_EXPIRY_ERROR=True
    """,
    "MDEXP of IBM i": """
        MDEXP, EIULIM, message lifetime, message channel agent, nearly-expired, depth triggering,
        undelivered-message
    """,
    "Delivery delay of JMS 2.0": """
        setDeliveryDelay, setTimeToLive, JMSException, JMSRuntimeException,
        MQRC_FUNCTION_NOT_SUPPORTED, DEFBIND, MQBND_BIND_NOT_FIXED, retained publication,
        JMS_IBM_RETAIN, message grouping, staging queue, SYSTEM.DDELAY.LOCAL.QUEUE,
        delivery delay processor, MSTR address space, storage class, INDXTYPE, MSGDLVSQ, CSQ4INSG,
        OPMODE, marooned, shared queues, resolution is driven twice, proxy subscription, fan-out,
        ALLAVAIL, MQRC_PUBLICATION_FAILURE, MQRO_COA, MQRO_COD, MQRO_PAN, MQRO_NAN, MQRO_ACTIVITY
    """,
    "Non-ASF listeners of WebSphere, in Japanese": """
        非 ASF モード, リスナー・ポート, 最大セッション数, Maximum sessions,
        物理ネットワーク接続, 安定化, stabilized, アクティベーション・スペック,
        NON.ASF.RECEIVE.TIMEOUT, SERVER.SESSION.POOL.REAP,
        SERVER.SESSION.POOL.UNUSED.TIMEOUT, メッセージ・リスナー・サービス・スレッド・プール,
        メッセージ・コンシューマー, メッセージ駆動型 Bean, onMessage, ロールバック,
        合計トランザクション存続時間タイムアウト, total transaction lifetime timeout,
        不要なトランザクション・タイムアウト
    """,
    "Message expiry of MQ Everyplace": """
        expiry interval, MQE_MSG_EXPIRETIME, Msg_ExpireTime, MQEINT32, MQEINT64, queue rule,
        admin message, Home Server Queue, activated, putMessage, confirmPutMessage,
        2 stage process, seem to expire twice, accuracy of expiry
    """,
}


def rows_under(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its head."""
    _, _, text = PAGE.read_text("utf-8").partition(f"\n### {heading}\n")
    text = text.partition("\n#")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]


@pytest.mark.parametrize("heading", WORDS)
def test_each_word_of_a_source_is_in_its_table(heading: str) -> None:
    said = "\n".join(" ".join(row) for row in rows_under(heading)).lower()
    words = [" ".join(word.split()) for word in WORDS[heading].split(",")]
    assert [word for word in words if word.lower() not in said] == []


@pytest.mark.parametrize("heading", WORDS)
def test_each_word_of_a_source_links_to_a_heading_that_is_there(heading: str) -> None:
    rows = rows_under(heading)
    assert len(rows) >= 7
    for word, link, meaning in rows:
        found = re.match(r"\[[\w /?]+\]\((\w*\.?m?d?)(?:#([\w-]+))?\)$", link)
        assert found is not None, (word, link)
        page: Path = PAGE.parent / found[1] if found[1] else PAGE
        assert page.is_file(), link
        assert found[2] is None or found[2] in anchors(page), link
        assert meaning
