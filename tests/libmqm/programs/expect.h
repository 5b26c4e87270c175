/* What the programs have in common: they end with the first outcome that is not as expected. */
#include <mayfly_mqi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread MQLONG comp, reason;

#define EXPECT(wanted_comp, wanted_reason)                                                      \
    do {                                                                                        \
        if (comp != (wanted_comp) || reason != (wanted_reason)) {                               \
            fprintf(stderr, "%s:%d: %d %d\n", __FILE__, __LINE__, comp, reason);                \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)
#define OK EXPECT(MQCC_OK, MQRC_NONE)
#define FAILS(wanted_reason) EXPECT(MQCC_FAILED, wanted_reason)
#define ASSERT(condition)                                                                       \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition);                 \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

static inline MQHCONN connect_with(MQLONG options) {
    MQHCONN connection;
    MQCNO cno = MQCNO_DEFAULT;
    cno.Options = options;
    MQCONNX("QM1", &cno, &connection, &comp, &reason);
    OK;
    return connection;
}

static inline MQHOBJ open_queue(MQHCONN connection, const char *name, MQLONG options) {
    MQHOBJ queue;
    MQOD od = MQOD_DEFAULT;
    strcpy(od.ObjectName, name);
    MQOPEN(connection, &od, options, &queue, &comp, &reason);
    OK;
    return queue;
}
