/* A connection that is lost, in the midst of a verb and before one. */
#include "expect.h"

static int event_count;

static void told(MQHCONN connection, MQMD *md, MQGMO *gmo, void *buffer, MQCBC *context) {
    (void)connection, (void)md, (void)gmo, (void)buffer;
    ASSERT(context->CallType == MQCBCT_EVENT_CALL && context->Reason == MQRC_CONNECTION_BROKEN);
    event_count++;
}

int main(void) {
    char buffer[10];
    MQLONG length;
    MQHCONN connection = connect_with(MQCNO_RECONNECT_DISABLED);
    MQHCONN consuming = connect_with(MQCNO_RECONNECT_DISABLED | MQCNO_HANDLE_SHARE_BLOCK);
    MQHOBJ queue = open_queue(connection, "Q1", MQOO_INPUT_SHARED);
    MQHOBJ consumed = open_queue(consuming, "Q2", MQOO_INPUT_SHARED);
    MQCBD handler = MQCBD_DEFAULT, consumer = MQCBD_DEFAULT;
    handler.CallbackType = MQCBT_EVENT_HANDLER;
    handler.CallbackFunction = consumer.CallbackFunction = (void *)told;
    MQMD md = MQMD_DEFAULT;
    MQGMO gmo = MQGMO_DEFAULT;
    MQCTLO ctlo = MQCTLO_DEFAULT;
    MQCB(consuming, MQOP_REGISTER, &handler, MQHO_NONE, NULL, NULL, &comp, &reason);
    OK;
    MQCB(consuming, MQOP_REGISTER, &consumer, consumed, &md, &gmo, &comp, &reason);
    OK;
    MQCTL(consuming, MQOP_START, &ctlo, &comp, &reason);
    OK;
    puts("ready");
    fflush(stdout);
    gmo.Options = MQGMO_WAIT | MQGMO_NO_SYNCPOINT;
    gmo.WaitInterval = MQWI_UNLIMITED;
    MQGET(connection, queue, &md, &gmo, sizeof buffer, buffer, &length, &comp, &reason);
    FAILS(MQRC_CONNECTION_BROKEN);
    MQCMIT(connection, &comp, &reason);
    FAILS(MQRC_CONNECTION_BROKEN);
    MQDISC(&connection, &comp, &reason);
    FAILS(MQRC_CONNECTION_BROKEN);
    ASSERT(connection == MQHC_UNUSABLE_HCONN);
    MQCTL(consuming, MQOP_STOP, &ctlo, &comp, &reason);
    OK;
    ASSERT(event_count == 2);
    puts("ok");
    return 0;
}
