/* A connection that comes again after the end of its server, one that does not, and who is told. */
#include "expect.h"
#include <semaphore.h>

static sem_t reconnecting, reconnected;

static void told(MQHCONN connection, MQMD *md, MQGMO *gmo, void *buffer, MQCBC *context) {
    (void)connection, (void)md, (void)gmo, (void)buffer;
    ASSERT(context->CallType == MQCBCT_EVENT_CALL);
    if (context->Reason == MQRC_RECONNECTING)
        sem_post(&reconnecting);
    if (context->Reason == MQRC_RECONNECTED)
        sem_post(&reconnected);
}

static void put(MQHCONN connection, MQHOBJ queue, char *text) {
    MQMD md = MQMD_DEFAULT;
    MQPMO pmo = MQPMO_DEFAULT;
    md.Persistence = MQPER_PERSISTENT;
    pmo.Options = MQPMO_NO_SYNCPOINT;
    MQPUT(connection, queue, &md, &pmo, strlen(text), text, &comp, &reason);
}

static void expect_next(MQHCONN connection, MQHOBJ queue, const char *text) {
    char buffer[10];
    MQLONG length;
    MQMD md = MQMD_DEFAULT;
    MQGMO gmo = MQGMO_DEFAULT;
    gmo.Options = MQGMO_NO_SYNCPOINT;
    MQGET(connection, queue, &md, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
    OK;
    ASSERT(length == (MQLONG)strlen(text) && memcmp(buffer, text, length) == 0);
}

int main(void) {
    MQHCONN again = connect_with(MQCNO_RECONNECT);
    MQHCONN watched = connect_with(MQCNO_RECONNECT | MQCNO_HANDLE_SHARE_BLOCK);
    MQHCONN once = connect_with(MQCNO_RECONNECT_DISABLED);
    MQHOBJ queue = open_queue(again, "Q1", MQOO_OUTPUT | MQOO_INPUT_SHARED);
    MQHOBJ lost = open_queue(once, "Q1", MQOO_OUTPUT);
    MQHOBJ consumed = open_queue(watched, "Q2", MQOO_INPUT_SHARED);
    MQCBD handler = MQCBD_DEFAULT, consumer = MQCBD_DEFAULT;
    MQMD md = MQMD_DEFAULT;
    MQGMO gmo = MQGMO_DEFAULT;
    MQCTLO ctlo = MQCTLO_DEFAULT;
    sem_init(&reconnecting, 0, 0);
    sem_init(&reconnected, 0, 0);
    handler.CallbackType = MQCBT_EVENT_HANDLER;
    handler.CallbackFunction = consumer.CallbackFunction = (void *)told;
    MQCB(watched, MQOP_REGISTER, &handler, MQHO_NONE, NULL, NULL, &comp, &reason);
    OK;
    MQCB(watched, MQOP_REGISTER, &consumer, consumed, &md, &gmo, &comp, &reason);
    OK;
    MQCTL(watched, MQOP_START, &ctlo, &comp, &reason);
    OK;
    put(again, queue, "before");
    OK;
    puts("ready");
    fflush(stdout);
    /* The server is killed now. */
    ASSERT(getchar() == '\n');
    put(once, lost, "never");
    FAILS(MQRC_CONNECTION_BROKEN);
    sem_wait(&reconnecting);
    puts("reconnecting");
    fflush(stdout);
    put(again, queue, "after");
    OK;
    sem_wait(&reconnected);
    expect_next(again, queue, "before");
    expect_next(again, queue, "after");
    MQCTL(watched, MQOP_STOP, &ctlo, &comp, &reason);
    OK;
    MQDISC(&again, &comp, &reason);
    OK;
    puts("ok");
    return 0;
}
