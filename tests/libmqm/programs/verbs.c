/* Puts, gets and attributes, with structures of each version. */
#include "expect.h"

static void put(MQHCONN connection, MQHOBJ queue, const char *text, MQLONG md_version,
                MQLONG pmo_version, MQLONG options) {
    MQMD md = MQMD_DEFAULT;
    MQPMO pmo = MQPMO_DEFAULT;
    md.Version = md_version;
    memcpy(md.Format, MQFMT_STRING, 8);
    /* Behind the end of the versions that the program says is memory of its own. */
    md.MsgFlags = -1 - md_version;
    pmo.Version = pmo_version;
    pmo.PubLevel = -7;
    pmo.Options = options;
    if (md_version > 1)
        md.MsgFlags = 0;
    MQPUT(connection, queue, &md, &pmo, strlen(text), (char *)text, &comp, &reason);
    OK;
    ASSERT(memcmp(md.MsgId, MQMI_NONE, 24) != 0 && memcmp(md.PutDate, "20", 2) == 0);
    ASSERT(memcmp(pmo.ResolvedQName, "Q1   ", 5) == 0);
    ASSERT(md_version > 1 || md.MsgFlags == -2);
    ASSERT(pmo.PubLevel == -7);
}

int main(void) {
    char buffer[100];
    MQLONG length;
    MQHCONN connection;
    MQCONN("QM1", &connection, &comp, &reason);
    OK;
    MQHOBJ queue = open_queue(connection, "Q1", MQOO_OUTPUT | MQOO_INPUT_SHARED | MQOO_INQUIRE |
                                                    MQOO_SET);
    for (int md_version = 1; md_version <= 2; md_version++)
        for (int pmo_version = 1; pmo_version <= 3; pmo_version++)
            put(connection, queue, "hello", md_version, pmo_version, MQPMO_NO_SYNCPOINT);

    /* Each version of the options gets one; a buffer that is too short leaves it. */
    for (int version = 1; version <= 4; version++) {
        MQMD md = MQMD_DEFAULT;
        MQGMO gmo = MQGMO_DEFAULT;
        gmo.Version = version;
        gmo.Options = MQGMO_NO_SYNCPOINT;
        memset(buffer, '.', sizeof buffer);
        MQGET(connection, queue, &md, &gmo, 3, buffer, &length, &comp, &reason);
        EXPECT(MQCC_WARNING, MQRC_TRUNCATED_MSG_FAILED);
        ASSERT(length == 5 && memcmp(buffer, "hel..", 5) == 0);
        MQMD again = MQMD_DEFAULT;
        MQGET(connection, queue, &again, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
        OK;
        ASSERT(length == 5 && memcmp(buffer, "hello.", 6) == 0);
        ASSERT(memcmp(again.Format, MQFMT_STRING, 8) == 0 && again.Expiry == MQEI_UNLIMITED);
        ASSERT(memcmp(gmo.ResolvedQName, "Q1   ", 5) == 0);
        ASSERT(version < 3 || gmo.ReturnedLength == 5);
    }
    MQMD md = MQMD_DEFAULT;
    MQGMO gmo = MQGMO_DEFAULT;
    gmo.Options = MQGMO_NO_SYNCPOINT | MQGMO_ACCEPT_TRUNCATED_MSG;
    MQGET(connection, queue, &md, &gmo, 2, buffer, &length, &comp, &reason);
    EXPECT(MQCC_WARNING, MQRC_TRUNCATED_MSG_ACCEPTED);
    ASSERT(length == 5);

    /* One is left; a unit of work brings it back with its count. */
    gmo.Options = MQGMO_SYNCPOINT;
    MQMD got = MQMD_DEFAULT;
    MQGET(connection, queue, &got, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
    OK;
    put(connection, queue, "never", 2, 3, MQPMO_SYNCPOINT);
    MQBACK(connection, &comp, &reason);
    OK;
    got = (MQMD)MQMD_DEFAULT;
    MQGET(connection, queue, &got, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
    OK;
    ASSERT(got.BackoutCount == 1);
    MQCMIT(connection, &comp, &reason);
    OK;
    got = (MQMD)MQMD_DEFAULT;
    MQGET(connection, queue, &got, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
    FAILS(MQRC_NO_MSG_AVAILABLE);

    /* Attributes. */
    MQLONG selectors[] = {MQIA_INHIBIT_PUT, MQCA_Q_NAME, MQIA_MAX_Q_DEPTH, MQCA_Q_DESC};
    MQLONG numbers[2] = {-9, -9};
    char texts[48 + 64];
    MQINQ(connection, queue, 4, selectors, 2, numbers, sizeof texts, texts, &comp, &reason);
    OK;
    ASSERT(numbers[0] == 0 && numbers[1] == 77);
    ASSERT(memcmp(texts, "Q1  ", 4) == 0 && memcmp(texts + 48, "of a test ", 10) == 0);
    MQINQ(connection, queue, 4, selectors, 1, numbers, 48, texts, &comp, &reason);
    EXPECT(MQCC_WARNING, MQRC_CHAR_ATTRS_TOO_SHORT);
    MQINQ(connection, queue, 4, selectors, 1, numbers, sizeof texts, texts, &comp, &reason);
    EXPECT(MQCC_WARNING, MQRC_INT_ATTR_COUNT_TOO_SMALL);
    MQINQ(connection, queue, -1, selectors, 0, NULL, 0, NULL, &comp, &reason);
    FAILS(MQRC_SELECTOR_COUNT_ERROR);
    numbers[0] = MQQA_PUT_INHIBITED;
    MQSET(connection, queue, 1, selectors, 1, numbers, 0, NULL, &comp, &reason);
    OK;
    MQPMO pmo = MQPMO_DEFAULT;
    MQPUT(connection, queue, &md, &pmo, 1, "x", &comp, &reason);
    FAILS(MQRC_PUT_INHIBITED);
    numbers[0] = MQQA_PUT_ALLOWED;
    MQSET(connection, queue, 1, selectors, 1, numbers, 0, NULL, &comp, &reason);
    OK;

    MQOD od = MQOD_DEFAULT;
    strcpy(od.ObjectName, "Q2");
    md = (MQMD)MQMD_DEFAULT;
    md.Expiry = 50;
    pmo.Options = MQPMO_NO_SYNCPOINT;
    MQPUT1(connection, &od, &md, &pmo, 8, "for a 5s", &comp, &reason);
    OK;

    /* What is wrong. */
    MQBEGIN(connection, NULL, &comp, &reason);
    FAILS(MQRC_ENVIRONMENT_ERROR);
    MQPUT(connection, queue + 99, &md, &pmo, 1, "x", &comp, &reason);
    FAILS(MQRC_HOBJ_ERROR);
    MQPUT(connection + 99, queue, &md, &pmo, 1, "x", &comp, &reason);
    FAILS(MQRC_HCONN_ERROR);
    MQPUT(connection, queue, NULL, &pmo, 1, "x", &comp, &reason);
    FAILS(MQRC_MD_ERROR);
    MQPUT(connection, queue, &md, &md, 1, "x", &comp, &reason);
    FAILS(MQRC_PMO_ERROR);
    MQPUT(connection, queue, &md, &pmo, -1, "x", &comp, &reason);
    FAILS(MQRC_BUFFER_LENGTH_ERROR);
    MQPUT(connection, queue, &md, &pmo, 1, NULL, &comp, &reason);
    FAILS(MQRC_BUFFER_ERROR);
    md.Version = 3;
    MQPUT(connection, queue, &md, &pmo, 1, "x", &comp, &reason);
    FAILS(MQRC_MD_ERROR);
    strcpy(od.ObjectName, "NONE");
    MQHOBJ none;
    MQOPEN(connection, &od, MQOO_OUTPUT, &none, &comp, &reason);
    FAILS(MQRC_UNKNOWN_OBJECT_NAME);
    ASSERT(none == MQHO_UNUSABLE_HOBJ);

    MQHOBJ closed = queue;
    MQCLOSE(connection, &queue, MQCO_NONE, &comp, &reason);
    OK;
    ASSERT(queue == MQHO_UNUSABLE_HOBJ);
    MQCLOSE(connection, &closed, MQCO_NONE, &comp, &reason);
    FAILS(MQRC_HOBJ_ERROR);
    MQHCONN ended = connection;
    MQDISC(&connection, &comp, &reason);
    OK;
    ASSERT(connection == MQHC_UNUSABLE_HCONN);
    MQDISC(&ended, &comp, &reason);
    FAILS(MQRC_HCONN_ERROR);
    puts("ok");
    return 0;
}
