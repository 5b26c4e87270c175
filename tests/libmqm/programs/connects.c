/* Connects as its arguments say, "-" for nothing: the reason to expect, channel, connection name,
 * CipherSpec, key repository, URL of a channel table. */
#include "expect.h"

static const char *given(char *argument) {
    return strcmp(argument, "-") == 0 ? NULL : argument;
}

int main(int argc, char **argv) {
    ASSERT(argc == 7);
    const char *channel = given(argv[2]), *host = given(argv[3]), *cipher = given(argv[4]),
               *repository = given(argv[5]);
    char *url = (char *)given(argv[6]);
    MQCD cd = MQCD_CLIENT_CONN_DEFAULT;
    MQSCO sco = MQSCO_DEFAULT;
    MQCNO cno = MQCNO_DEFAULT;
    cno.Version = MQCNO_VERSION_6;
    if (channel) {
        cd.Version = MQCD_VERSION_7;
        strcpy(cd.ChannelName, channel);
        strcpy(cd.ConnectionName, host);
        if (cipher)
            strcpy(cd.SSLCipherSpec, cipher);
        cno.ClientConnPtr = &cd;
    }
    if (repository) {
        strcpy(sco.KeyRepository, repository);
        cno.SSLConfigPtr = &sco;
    }
    if (url) {
        cno.CCDTUrlPtr = url;
        cno.CCDTUrlLength = strlen(url);
    }
    MQHCONN connection;
    MQCONNX("QM1", &cno, &connection, &comp, &reason);
    if (reason != atoi(argv[1])) {
        fprintf(stderr, "MQCONNX %d\n", reason);
        return 1;
    }
    if (comp == MQCC_OK) {
        MQHOBJ queue = open_queue(connection, "Q1", MQOO_OUTPUT);
        MQMD md = MQMD_DEFAULT;
        MQPMO pmo = MQPMO_DEFAULT;
        MQPUT(connection, queue, &md, &pmo, 5, "hello", &comp, &reason);
        OK;
        MQDISC(&connection, &comp, &reason);
        OK;
    } else {
        ASSERT(connection == MQHC_UNUSABLE_HCONN);
    }
    puts("ok");
    return 0;
}
