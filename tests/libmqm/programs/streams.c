/* Asynchronous puts, messages that are read ahead, and a server that ends between puts. */
#include "expect.h"

enum { COUNT = 300 };

static void put(MQHCONN connection, MQHOBJ queue, int number) {
    MQMD md = MQMD_DEFAULT;
    MQPMO pmo = MQPMO_DEFAULT;
    pmo.Options = MQPMO_NO_SYNCPOINT | MQPMO_ASYNC_RESPONSE;
    MQPUT(connection, queue, &md, &pmo, sizeof number, &number, &comp, &reason);
}

static void get(MQHCONN connection, MQHOBJ queue, int number) {
    MQLONG length;
    int found;
    MQMD md = MQMD_DEFAULT;
    MQGMO gmo = MQGMO_DEFAULT;
    gmo.Options = MQGMO_NO_SYNCPOINT;
    MQGET(connection, queue, &md, &gmo, sizeof found, &found, &length, &comp, &reason);
    OK;
    ASSERT(length == sizeof found && found == number && md.BackoutCount == 0);
}

int main(void) {
    MQHCONN connection = connect_with(MQCNO_RECONNECT_DISABLED);
    MQHOBJ queue = open_queue(connection, "Q2", MQOO_OUTPUT);
    MQHOBJ ahead = open_queue(connection, "Q2", MQOO_INPUT_SHARED | MQOO_READ_AHEAD);
    MQSTS sts = MQSTS_DEFAULT;
    for (int n = 0; n < COUNT; n++) {
        put(connection, queue, n);
        OK;
    }
    MQSTAT(connection, MQSTAT_TYPE_ASYNC_ERROR, &sts, &comp, &reason);
    OK;
    ASSERT(sts.PutSuccessCount == COUNT && sts.PutFailureCount == 0);
    for (int n = 0; n < COUNT / 2; n++)
        get(connection, ahead, n);
    MQCLOSE(connection, &ahead, MQCO_NONE, &comp, &reason);
    OK;
    ahead = open_queue(connection, "Q2", MQOO_INPUT_SHARED);
    for (int n = COUNT / 2; n < COUNT; n++)
        get(connection, ahead, n);
    puts("ready");
    fflush(stdout);
    ASSERT(getchar() == '\n');
    /* These do not wait for answers: the library sends to a socket that its peer has closed. */
    for (int n = 0; comp == MQCC_OK && n < 100000; n++)
        put(connection, queue, n);
    ASSERT(comp == MQCC_FAILED);
    ASSERT(reason == MQRC_CONNECTION_BROKEN || reason == MQRC_Q_MGR_STOPPING);
    puts("ok");
    return 0;
}
