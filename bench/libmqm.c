/* Puts and gets messages of 200 bytes, so many for each line of its input; says the seconds.
 *
 * With a second argument puts do not wait for their answers (MQPMO_ASYNC_RESPONSE; MQSTAT waits for
 * the last one), and messages are read ahead (MQOO_READ_AHEAD).
 */
#include <mayfly_mqi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static MQLONG comp, reason;

static void check(const char *verb) {
    if (comp != MQCC_OK) {
        fprintf(stderr, "%s %d\n", verb, reason);
        exit(1);
    }
}

static double now(void) {
    struct timespec it;
    clock_gettime(CLOCK_MONOTONIC, &it);
    return it.tv_sec + it.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    char body[200] = {0}, line[10];
    int count = argc > 1 ? atoi(argv[1]) : 1, is_streamed = argc > 2;
    MQLONG response = is_streamed ? MQPMO_ASYNC_RESPONSE : MQPMO_NONE;
    MQLONG reading = is_streamed ? MQOO_READ_AHEAD : MQOO_READ_AHEAD_AS_Q_DEF;
    MQHCONN connection;
    MQHOBJ queue;
    MQOD od = MQOD_DEFAULT;
    MQLONG length;
    MQCONN("BENCH", &connection, &comp, &reason);
    check("MQCONN");
    strcpy(od.ObjectName, "Q1");
    MQOPEN(connection, &od, MQOO_OUTPUT | MQOO_INPUT_SHARED | reading, &queue, &comp, &reason);
    check("MQOPEN");
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        double begin = now();
        for (int n = 0; n < count; n++) {
            MQMD md = MQMD_DEFAULT;
            MQPMO pmo = MQPMO_DEFAULT;
            md.Persistence = MQPER_NOT_PERSISTENT;
            pmo.Options = MQPMO_NO_SYNCPOINT | response;
            MQPUT(connection, queue, &md, &pmo, sizeof body, body, &comp, &reason);
            check("MQPUT");
        }
        if (is_streamed) {
            MQSTS sts = MQSTS_DEFAULT;
            MQSTAT(connection, MQSTAT_TYPE_ASYNC_ERROR, &sts, &comp, &reason);
            check("MQSTAT");
            if (sts.PutSuccessCount != count) {
                fprintf(stderr, "%d of %d puts\n", sts.PutSuccessCount, count);
                return 1;
            }
        }
        double middle = now();
        for (int n = 0; n < count; n++) {
            MQMD md = MQMD_DEFAULT;
            MQGMO gmo = MQGMO_DEFAULT;
            gmo.Options = MQGMO_NO_SYNCPOINT;
            MQGET(connection, queue, &md, &gmo, sizeof body, body, &length, &comp, &reason);
            check("MQGET");
        }
        printf("%.9f %.9f\n", middle - begin, now() - middle);
        fflush(stdout);
    }
    MQDISC(&connection, &comp, &reason);
    return 0;
}
