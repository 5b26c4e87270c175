/* Eight threads with callbacks, each on a connection of its own; and one connection of several. */
#include "expect.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

enum { THREADS = 8, MESSAGES = 20 };

struct consumer {
    MQHCONN connection;
    int message_count, start_count, stop_count;
    sem_t done;
};

static void called(MQHCONN connection, MQMD *md, MQGMO *gmo, void *buffer, MQCBC *context) {
    struct consumer *consumer = context->CallbackArea;
    ASSERT(connection == consumer->connection);
    ASSERT(context->ConnectionArea == (void *)consumer);
    if (context->CallType == MQCBCT_START_CALL)
        consumer->start_count++;
    if (context->CallType == MQCBCT_STOP_CALL)
        consumer->stop_count++;
    if (context->CallType != MQCBCT_MSG_REMOVED)
        return;
    ASSERT(context->CompCode == MQCC_OK && context->DataLength == 4);
    ASSERT(memcmp(buffer, "work", 4) == 0 && memcmp(gmo->ResolvedQName, "Q1  ", 4) == 0);
    /* A callback calls verbs of its connection: it answers. */
    MQOD od = MQOD_DEFAULT;
    MQMD reply = MQMD_DEFAULT;
    MQPMO pmo = MQPMO_DEFAULT;
    strcpy(od.ObjectName, "Q2");
    memcpy(reply.CorrelId, md->MsgId, 24);
    pmo.Options = MQPMO_SYNCPOINT;
    MQPUT1(connection, &od, &reply, &pmo, 4, "done", &comp, &reason);
    OK;
    MQCMIT(connection, &comp, &reason);
    OK;
    consumer->message_count++;
    sem_post(&consumer->done);
}

static sem_t anywhere;
static int total;

static void *consume(void *given) {
    struct consumer *consumer = given;
    consumer->connection = connect_with(MQCNO_HANDLE_SHARE_NONE);
    MQHOBJ queue = open_queue(consumer->connection, "Q1", MQOO_INPUT_SHARED);
    MQCBD cbd = MQCBD_DEFAULT;
    MQMD md = MQMD_DEFAULT;
    MQGMO gmo = MQGMO_DEFAULT;
    MQCTLO ctlo = MQCTLO_DEFAULT;
    cbd.CallbackFunction = (void *)called;
    cbd.CallbackArea = consumer;
    cbd.Options = MQCBDO_START_CALL | MQCBDO_STOP_CALL;
    gmo.Options = MQGMO_SYNCPOINT;
    ctlo.ConnectionArea = consumer;
    MQCB(consumer->connection, MQOP_REGISTER, &cbd, queue, &md, &gmo, &comp, &reason);
    OK;
    MQCTL(consumer->connection, MQOP_START, &ctlo, &comp, &reason);
    OK;
    MQCMIT(consumer->connection, &comp, &reason);
    FAILS(MQRC_HCONN_ASYNC_ACTIVE);
    sem_wait(&anywhere);
    MQCTL(consumer->connection, MQOP_STOP, &ctlo, &comp, &reason);
    OK;
    ASSERT(consumer->start_count == 1 && consumer->stop_count == 1);
    __sync_fetch_and_add(&total, consumer->message_count);
    MQDISC(&consumer->connection, &comp, &reason);
    OK;
    return NULL;
}

static MQHCONN shared, blocking, unblocking;

static void *use_shared(void *given) {
    (void)given;
    MQCMIT(shared, &comp, &reason);
    FAILS(MQRC_HCONN_ERROR);
    MQCMIT(blocking, &comp, &reason);
    OK;
    return NULL;
}

static void *wait_for_message(void *given) {
    char buffer[10];
    MQLONG length;
    MQHOBJ queue = *(MQHOBJ *)given;
    MQMD md = MQMD_DEFAULT;
    MQGMO gmo = MQGMO_DEFAULT;
    gmo.Options = MQGMO_NO_SYNCPOINT | MQGMO_WAIT;
    gmo.WaitInterval = MQWI_UNLIMITED;
    do
        MQGET(unblocking, queue, &md, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
    while (reason == MQRC_CALL_IN_PROGRESS);
    OK;
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS], other;
    struct consumer consumers[THREADS];
    shared = connect_with(MQCNO_HANDLE_SHARE_NONE);
    blocking = connect_with(MQCNO_HANDLE_SHARE_BLOCK | MQCNO_RECONNECT);
    unblocking = connect_with(MQCNO_HANDLE_SHARE_NO_BLOCK);
    pthread_create(&other, NULL, use_shared, NULL);
    pthread_join(other, NULL);

    /* While a thread waits for a message, another is told so. */
    MQHOBJ waited = open_queue(unblocking, "Q1", MQOO_INPUT_SHARED);
    pthread_create(&other, NULL, wait_for_message, &waited);
    do {
        /* The other thread needs a moment in which the connection is free. */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        MQCMIT(unblocking, &comp, &reason);
    } while (comp == MQCC_OK);
    FAILS(MQRC_CALL_IN_PROGRESS);
    MQOD od = MQOD_DEFAULT;
    MQMD first = MQMD_DEFAULT;
    MQPMO at_once = MQPMO_DEFAULT;
    strcpy(od.ObjectName, "Q1");
    at_once.Options = MQPMO_NO_SYNCPOINT;
    MQPUT1(shared, &od, &first, &at_once, 5, "first", &comp, &reason);
    OK;
    pthread_join(other, NULL);

    sem_init(&anywhere, 0, 0);
    memset(consumers, 0, sizeof consumers);
    for (int n = 0; n < THREADS; n++) {
        sem_init(&consumers[n].done, 0, 0);
        pthread_create(&threads[n], NULL, consume, &consumers[n]);
    }
    MQHOBJ queue = open_queue(shared, "Q1", MQOO_OUTPUT);
    MQHOBJ replies = open_queue(shared, "Q2", MQOO_INPUT_SHARED);
    for (int n = 0; n < MESSAGES; n++) {
        MQMD md = MQMD_DEFAULT;
        MQPMO pmo = MQPMO_DEFAULT;
        pmo.Options = MQPMO_NO_SYNCPOINT;
        MQPUT(shared, queue, &md, &pmo, 4, "work", &comp, &reason);
        OK;
    }
    for (int n = 0; n < MESSAGES; n++) {
        char buffer[10];
        MQLONG length;
        MQMD md = MQMD_DEFAULT;
        MQGMO gmo = MQGMO_DEFAULT;
        gmo.Options = MQGMO_NO_SYNCPOINT | MQGMO_WAIT;
        gmo.WaitInterval = MQWI_UNLIMITED;
        MQGET(shared, replies, &md, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
        OK;
    }
    for (int n = 0; n < THREADS; n++)
        sem_post(&anywhere);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    ASSERT(total == MESSAGES);
    puts("ok");
    return 0;
}
