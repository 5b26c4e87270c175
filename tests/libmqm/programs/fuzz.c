/* Calls of every entry point with pointers that are NULL and numbers by chance; none may crash. */
#include "expect.h"

static unsigned state;

static unsigned chance(unsigned below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static MQLONG number(void) {
    static const MQLONG some[] = {0, 1, -1, 2, 3, 4, 48, 100, 0x7fffffff, -0x7fffffff - 1};
    return chance(2) ? some[chance(10)] : (MQLONG)(1u << chance(32));
}

/* Memory that is large enough for every structure, one of which it may be, damaged or not. */
static void *structure(void) {
    static const char *const ids[] = {"MD  ", "PMO ", "GMO ", "OD  ", "SD  ", "SRO ", "STAT", "CNO ",
                                      "CMHO", "DMHO", "SMPO", "IMPO", "DMPO", "PD  ", "BMHO", "MHBO",
                                      "CBD ", "CTLO", "BO  "};
    static char memory[4][4096];
    char *it = memory[chance(4)];
    if (chance(5) == 0)
        return NULL;
    memset(it, 0, 4096);
    memcpy(it, ids[chance(19)], 4);
    *(MQLONG *)(it + 4) = chance(5);
    *(MQLONG *)(it + 8) = number();
    return it;
}

int main(int argc, char **argv) {
    static char buffer[4096];
    MQLONG counts[64] = {0}, length = 0;
    int calls = argc > 1 ? atoi(argv[1]) : 1000;
    state = argc > 2 ? atoi(argv[2]) : 1;
    MQHCONN connection = connect_with(MQCNO_HANDLE_SHARE_BLOCK);
    MQHOBJ queue = open_queue(connection, "Q1", MQOO_OUTPUT | MQOO_INPUT_SHARED | MQOO_INQUIRE);
    MQHMSG message = 0;
    for (int n = 0; n < calls; n++) {
        MQHCONN hconn = chance(8) ? connection : number();
        MQHOBJ hobj = chance(4) ? queue : number();
        MQLONG size = chance(2) ? (MQLONG)chance(4096) : -(MQLONG)chance(5);
        void *data = chance(6) ? buffer : NULL;
        MQLONG *lengths = chance(6) ? &length : NULL, *array = chance(6) ? counts : NULL;
        MQHCONN other = MQHC_UNUSABLE_HCONN;
        MQHOBJ opened = MQHO_UNUSABLE_HOBJ;
        MQLONG count = chance(60) - 5;
        void *a = structure(), *b = structure(), *c = structure();
        comp = reason = -1;
        switch (chance(23)) {
        case 0: MQCONNX(data, a, NULL, &comp, &reason); break;
        case 1: MQDISC(chance(2) ? NULL : &other, &comp, &reason); break;
        case 2: MQOPEN(hconn, a, number(), chance(4) ? &opened : NULL, &comp, &reason); break;
        case 3: MQCLOSE(hconn, chance(2) ? NULL : &opened, number(), &comp, &reason); break;
        case 4: MQPUT(hconn, hobj, a, b, size, data, &comp, &reason); break;
        case 5: MQPUT1(hconn, a, b, c, size, data, &comp, &reason); break;
        case 6: {
            /* A wait without an end would end this program's. */
            if (b && memcmp(b, "GMO ", 4) == 0)
                *(MQLONG *)((char *)b + 8) &= ~MQGMO_WAIT;
            MQGET(hconn, hobj, a, b, size, data, lengths, &comp, &reason);
            break;
        }
        case 7: MQINQ(hconn, hobj, count, array, count, array, size, data, &comp, &reason); break;
        case 8: MQSET(hconn, hobj, count, array, count, array, size, data, &comp, &reason); break;
        case 9: MQBEGIN(hconn, a, &comp, &reason); break;
        case 10: MQCMIT(hconn, &comp, &reason); break;
        case 11: MQBACK(hconn, &comp, &reason); break;
        case 12: MQSUB(hconn, a, chance(2) ? &opened : NULL, lengths, &comp, &reason); break;
        case 13: MQSUBRQ(hconn, hobj, number(), a, &comp, &reason); break;
        case 14: MQSTAT(hconn, number(), a, &comp, &reason); break;
        case 15: MQCB(hconn, number(), NULL, hobj, a, b, &comp, &reason); break;
        case 16: MQCTL(hconn, chance(2) ? MQOP_STOP : 1 << 20, a, &comp, &reason); break;
        case 17: MQCRTMH(hconn, a, &message, &comp, &reason); break;
        case 18: MQDLTMH(hconn, chance(2) ? &message : NULL, a, &comp, &reason); break;
        case 19: MQSETMP(hconn, message, a, b, c, number(), size, data, &comp, &reason); break;
        case 20:
            MQINQMP(hconn, message, a, b, c, lengths, size, data, lengths, &comp, &reason);
            break;
        case 21: MQBUFMH(hconn, message, a, b, size, data, lengths, &comp, &reason); break;
        case 22: MQMHBUF(hconn, message, a, NULL, b, size, data, lengths, &comp, &reason); break;
        }
        ASSERT(comp >= MQCC_OK && comp <= MQCC_FAILED);
        ASSERT((comp == MQCC_OK) == (reason == MQRC_NONE));
        if (reason == MQRC_UNEXPECTED_ERROR) {
            fprintf(stderr, "call %d of seed: 2195\n", n);
            return 1;
        }
    }
    MQDISC(&connection, &comp, &reason);
    OK;
    puts("ok");
    return 0;
}
