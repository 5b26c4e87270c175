/* Subscriptions, message handles, and the status of asynchronous puts. */
#include "expect.h"

static MQCHARV string(const char *text) {
    MQCHARV it = MQCHARV_DEFAULT;
    it.VSPtr = (char *)text;
    it.VSLength = MQVS_NULL_TERMINATED;
    return it;
}

int main(void) {
    char buffer[400], topic[40], name[60];
    MQLONG length, type, number;
    MQHCONN connection = connect_with(MQCNO_NONE);

    /* A managed subscription; the full topic string comes back into a buffer. */
    MQSD sd = MQSD_DEFAULT;
    sd.Options = MQSO_CREATE | MQSO_MANAGED | MQSO_NON_DURABLE | MQSO_PUBLICATIONS_ON_REQUEST;
    strcpy(sd.ObjectName, "NEWS");
    sd.ObjectString = string("sport");
    sd.ResObjectString.VSPtr = topic;
    sd.ResObjectString.VSBufSize = sizeof topic;
    MQHOBJ managed = MQHO_NONE, subscription;
    MQSUB(connection, &sd, &managed, &subscription, &comp, &reason);
    OK;
    ASSERT(sd.ResObjectString.VSLength == 10 && memcmp(topic, "news/sport", 10) == 0);
    ASSERT(sd.ObjectString.VSLength == MQVS_NULL_TERMINATED);

    MQOD od = MQOD_DEFAULT;
    od.Version = 4;
    od.ObjectType = MQOT_TOPIC;
    od.ObjectString = string("news/sport");
    MQMD md = MQMD_DEFAULT;
    MQPMO pmo = MQPMO_DEFAULT;
    pmo.Options = MQPMO_NO_SYNCPOINT | MQPMO_RETAIN;
    MQPUT1(connection, &od, &md, &pmo, 4, "goal", &comp, &reason);
    OK;
    MQSRO sro = MQSRO_DEFAULT;
    MQSUBRQ(connection, subscription, MQSR_ACTION_PUBLICATION, &sro, &comp, &reason);
    OK;
    ASSERT(sro.NumPubs == 1);
    MQGMO gmo = MQGMO_DEFAULT;
    gmo.Options = MQGMO_NO_SYNCPOINT | MQGMO_NO_PROPERTIES;
    MQMD got = MQMD_DEFAULT;
    MQGET(connection, managed, &got, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
    OK;
    ASSERT(length == 4 && memcmp(buffer, "goal", 4) == 0);
    MQSUBRQ(connection, managed, MQSR_ACTION_PUBLICATION, &sro, &comp, &reason);
    FAILS(MQRC_HOBJ_ERROR);
    MQCLOSE(connection, &subscription, MQCO_NONE, &comp, &reason);
    OK;
    MQCLOSE(connection, &managed, MQCO_NONE, &comp, &reason);
    OK;

    /* Properties travel by message handles. */
    MQCMHO cmho = MQCMHO_DEFAULT;
    MQSMPO smpo = MQSMPO_DEFAULT;
    MQIMPO impo = MQIMPO_DEFAULT;
    MQPD pd = MQPD_DEFAULT;
    MQHMSG sent, received;
    MQCRTMH(connection, &cmho, &sent, &comp, &reason);
    OK;
    MQCRTMH(MQHC_UNASSOCIATED_HCONN, &cmho, &received, &comp, &reason);
    OK;
    MQCHARV colour = string("colour"), size = string("size");
    MQSETMP(connection, sent, &smpo, &colour, &pd, MQTYPE_STRING, 4, "blue", &comp, &reason);
    OK;
    number = -42;
    MQSETMP(connection, sent, &smpo, &size, &pd, MQTYPE_INT32, 4, &number, &comp, &reason);
    OK;
    MQSETMP(connection, sent, &smpo, &size, &pd, MQTYPE_INT32, 3, &number, &comp, &reason);
    FAILS(MQRC_BUFFER_LENGTH_ERROR);
    MQHOBJ queue = open_queue(connection, "Q1", MQOO_OUTPUT | MQOO_INPUT_SHARED);
    pmo = (MQPMO)MQPMO_DEFAULT;
    pmo.Version = 3;
    pmo.Options = MQPMO_NO_SYNCPOINT;
    pmo.NewMsgHandle = sent;
    md = (MQMD)MQMD_DEFAULT;
    MQPUT(connection, queue, &md, &pmo, 4, "body", &comp, &reason);
    OK;
    gmo.Version = 4;
    gmo.Options = MQGMO_NO_SYNCPOINT | MQGMO_PROPERTIES_IN_HANDLE;
    gmo.MsgHandle = received;
    got = (MQMD)MQMD_DEFAULT;
    MQGET(connection, queue, &got, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
    OK;
    ASSERT(length == 4);
    MQCHARV any = string("%");
    impo.Options = MQIMPO_INQ_NEXT;
    impo.ReturnedName.VSPtr = name;
    impo.ReturnedName.VSBufSize = sizeof name;
    type = MQTYPE_AS_SET;
    MQINQMP(MQHC_UNASSOCIATED_HCONN, received, &impo, &any, &pd, &type, sizeof buffer, buffer,
            &length, &comp, &reason);
    OK;
    ASSERT(type == MQTYPE_STRING && length == 4 && memcmp(buffer, "blue", 4) == 0);
    ASSERT(impo.ReturnedName.VSLength == 6 && memcmp(name, "colour", 6) == 0);
    type = MQTYPE_AS_SET;
    MQINQMP(MQHC_UNASSOCIATED_HCONN, received, &impo, &any, &pd, &type, 4, &number, &length,
            &comp, &reason);
    OK;
    ASSERT(type == MQTYPE_INT32 && length == 4 && number == -42);
    impo.Options = MQIMPO_INQ_FIRST;
    MQINQMP(MQHC_UNASSOCIATED_HCONN, received, &impo, &colour, &pd, &type, 2, buffer, &length,
            &comp, &reason);
    FAILS(MQRC_PROPERTY_VALUE_TOO_BIG);
    ASSERT(length == 4);

    /* From a handle into a buffer, and back. */
    MQMHBO mhbo = MQMHBO_DEFAULT;
    MQBMHO bmho = MQBMHO_DEFAULT;
    md = (MQMD)MQMD_DEFAULT;
    mhbo.Options = MQMHBO_PROPERTIES_IN_MQRFH2;
    MQMHBUF(connection, sent, &mhbo, &any, &md, 10, buffer, &length, &comp, &reason);
    FAILS(MQRC_PROPERTIES_TOO_BIG);
    ASSERT(length > 10 && length < (MQLONG)sizeof buffer);
    MQMHBUF(connection, sent, &mhbo, &any, &md, sizeof buffer, buffer, &length, &comp, &reason);
    OK;
    ASSERT(memcmp(md.Format, MQFMT_RF_HEADER_2, 8) == 0 && memcmp(buffer, "RFH ", 4) == 0);
    memcpy(buffer + length, "rest", 4);
    MQDMPO dmpo = MQDMPO_DEFAULT;
    MQDLTMP(connection, sent, &dmpo, &colour, &comp, &reason);
    OK;
    bmho.Options = MQBMHO_DELETE_PROPERTIES;
    MQBUFMH(connection, sent, &bmho, &md, length + 4, buffer, &length, &comp, &reason);
    OK;
    ASSERT(length == 4 && memcmp(buffer, "rest", 4) == 0);
    MQINQMP(connection, sent, &impo, &colour, &pd, &type, sizeof buffer, buffer, &length, &comp,
            &reason);
    OK;
    MQDMHO dmho = MQDMHO_DEFAULT;
    MQDLTMH(connection, &sent, &dmho, &comp, &reason);
    OK;
    ASSERT(sent == MQHM_UNUSABLE_HMSG);
    MQDLTMH(connection, &sent, &dmho, &comp, &reason);
    FAILS(MQRC_HMSG_ERROR);

    /* An asynchronous put that its queue refuses is told by MQSTAT. */
    MQHOBJ full = open_queue(connection, "FULL", MQOO_OUTPUT);
    pmo = (MQPMO)MQPMO_DEFAULT;
    pmo.Options = MQPMO_NO_SYNCPOINT | MQPMO_ASYNC_RESPONSE;
    for (int n = 0; n < 3; n++) {
        md = (MQMD)MQMD_DEFAULT;
        MQPUT(connection, full, &md, &pmo, 1, "x", &comp, &reason);
        OK;
    }
    MQSTS sts = MQSTS_DEFAULT;
    MQSTAT(connection, MQSTAT_TYPE_ASYNC_ERROR, &sts, &comp, &reason);
    OK;
    ASSERT(sts.PutSuccessCount == 1 && sts.PutFailureCount == 2 && sts.Reason == MQRC_Q_FULL);
    ASSERT(memcmp(sts.ObjectName, "FULL  ", 6) == 0);
    MQDISC(&connection, &comp, &reason);
    OK;
    puts("ok");
    return 0;
}
