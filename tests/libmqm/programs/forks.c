/* A forked child has no connection of its parent, and may make its own. */
#include "expect.h"
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    MQHCONN connection = connect_with(MQCNO_HANDLE_SHARE_NONE);
    MQHOBJ queue = open_queue(connection, "Q1", MQOO_OUTPUT);
    MQMD md = MQMD_DEFAULT;
    MQPMO pmo = MQPMO_DEFAULT;
    pmo.Options = MQPMO_NO_SYNCPOINT;
    pid_t child = fork();
    if (!child) {
        MQPUT(connection, queue, &md, &pmo, 1, "x", &comp, &reason);
        FAILS(MQRC_CONNECTION_BROKEN);
        MQHCONN inherited = connection;
        MQDISC(&inherited, &comp, &reason);
        FAILS(MQRC_CONNECTION_BROKEN);
        MQHCONN own = connect_with(MQCNO_HANDLE_SHARE_NONE);
        queue = open_queue(own, "Q2", MQOO_OUTPUT);
        MQPUT(own, queue, &md, &pmo, 5, "child", &comp, &reason);
        OK;
        MQDISC(&own, &comp, &reason);
        OK;
        _exit(0);
    }
    int status;
    ASSERT(waitpid(child, &status, 0) == child && status == 0);
    MQPUT(connection, queue, &md, &pmo, 6, "parent", &comp, &reason);
    OK;
    MQDISC(&connection, &comp, &reason);
    OK;
    puts("ok");
    return 0;
}
