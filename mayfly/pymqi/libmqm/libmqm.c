/* The entry points of the MQI, as a library that programs for IBM MQ load under its names.
 *
 * Each entry point hands its arguments to the function of its name in mayfly.pymqi.libmqm.entry_points,
 * which Python runs: the interpreter of this process if it has one, else the library that
 * MAYFLY_LIBPYTHON names (`mayfly libmqm env` prints it), started by the first call. Python is
 * called by its stable ABI and found at run time, so one build serves every version.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mayfly_mqi.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct object Object;

/* What of Python is called. */
static struct {
    int (*Py_IsInitialized)(void);
    void (*Py_InitializeEx)(int);
    int (*PyGILState_Ensure)(void);
    void (*PyGILState_Release)(int);
    void *(*PyEval_SaveThread)(void);
    Object *(*PyImport_ImportModule)(const char *);
    Object *(*PyObject_GetAttrString)(Object *, const char *);
    Object *(*PyObject_CallFunction)(Object *, const char *, ...);
    Object *(*PyUnicode_FromString)(const char *);
    int (*PyList_Insert)(Object *, intptr_t, Object *);
    long long (*PyLong_AsLongLong)(Object *);
    void (*Py_DecRef)(Object *);
    Object *(*PyErr_Occurred)(void);
    void (*PyErr_Print)(void);
    void (*PyErr_Clear)(void);
    int (*PyErr_ExceptionMatches)(Object *);
    void (*PyErr_SetInterrupt)(void);
    void (*PyOS_BeforeFork)(void);
    void (*PyOS_AfterFork_Parent)(void);
    void (*PyOS_AfterFork_Child)(void);
    Object **PyExc_KeyboardInterrupt;
} python;

static const struct {
    const char *name;
    void **place;
} symbols[] = {
#define SYMBOL(name) {#name, (void **)&python.name}
    SYMBOL(Py_IsInitialized),       SYMBOL(Py_InitializeEx),
    SYMBOL(PyGILState_Ensure),      SYMBOL(PyGILState_Release),
    SYMBOL(PyEval_SaveThread),      SYMBOL(PyImport_ImportModule),
    SYMBOL(PyObject_GetAttrString), SYMBOL(PyObject_CallFunction),
    SYMBOL(PyUnicode_FromString),   SYMBOL(PyList_Insert),
    SYMBOL(PyLong_AsLongLong),      SYMBOL(Py_DecRef),
    SYMBOL(PyErr_Occurred),         SYMBOL(PyErr_Print),
    SYMBOL(PyErr_Clear),            SYMBOL(PyErr_ExceptionMatches),
    SYMBOL(PyErr_SetInterrupt),     SYMBOL(PyOS_BeforeFork),
    SYMBOL(PyOS_AfterFork_Parent),  SYMBOL(PyOS_AfterFork_Child),
    SYMBOL(PyExc_KeyboardInterrupt),
};

/* The functions in the order of this list; set while the interpreter's lock is held. */
enum { CONN, CONNX, DISC, OPEN, CLOSE, PUT, PUT1, GET, INQ, SET, BEGIN, CMIT, BACK, SUB, SUBRQ, STAT,
       CB, CTL, CRTMH, DLTMH, SETMP, INQMP, DLTMP, BUFMH, MHBUF, FUNCTION_COUNT };
static const char *const names[FUNCTION_COUNT] = {
    "MQCONN", "MQCONNX", "MQDISC", "MQOPEN", "MQCLOSE", "MQPUT", "MQPUT1", "MQGET", "MQINQ",
    "MQSET", "MQBEGIN", "MQCMIT", "MQBACK", "MQSUB", "MQSUBRQ", "MQSTAT", "MQCB", "MQCTL",
    "MQCRTMH", "MQDLTMH", "MQSETMP", "MQINQMP", "MQDLTMP", "MQBUFMH", "MQMHBUF",
};
static Object *functions[FUNCTION_COUNT];
static int is_ready;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int has_python, is_our_python;
static int fork_state;

/* A program that forks gives its child an interpreter that works; fork() of Python does the same. */
static void before_fork(void) {
    fork_state = python.PyGILState_Ensure();
    python.PyOS_BeforeFork();
}

static void after_fork_in_parent(void) {
    python.PyOS_AfterFork_Parent();
    python.PyGILState_Release(fork_state);
}

static void after_fork_in_child(void) {
    python.PyOS_AfterFork_Child();
    python.PyGILState_Release(fork_state);
}

static int find_symbols(void *library) {
    for (size_t n = 0; n < sizeof symbols / sizeof *symbols; n++) {
        *symbols[n].place = dlsym(library, symbols[n].name);
        if (!*symbols[n].place) {
            fprintf(stderr, "libmqm: Python has no %s\n", symbols[n].name);
            return 0;
        }
    }
    return 1;
}

static void start_python(void) {
    void *library = dlopen(NULL, RTLD_LAZY);
    if (!library || !dlsym(library, "Py_InitializeEx")) {
        const char *path = getenv("MAYFLY_LIBPYTHON");
        /* Global, because the extensions of Python take their symbols from it. */
        library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
        if (!library) {
            fprintf(stderr, "libmqm: MAYFLY_LIBPYTHON %s: %s\n", path ? path : "is not set",
                    path ? dlerror() : "eval \"$(mayfly libmqm env)\" sets it");
            return;
        }
    }
    if (!find_symbols(library))
        return;
    has_python = 1;
    if (python.Py_IsInitialized())
        return;
    python.Py_InitializeEx(0);
    is_our_python = 1;
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    python.PyEval_SaveThread();
}

/* Make the folders in MAYFLY_PYTHONPATH importable: before those that an interpreter of ours has
 * found by itself, behind those of a Python program. */
static void extend_path(void) {
    intptr_t place = is_our_python ? 0 : INTPTR_MAX;
    const char *given = getenv("MAYFLY_PYTHONPATH");
    Object *sys = given ? python.PyImport_ImportModule("sys") : NULL;
    Object *path = sys ? python.PyObject_GetAttrString(sys, "path") : NULL;
    char *folders = path ? strdup(given) : NULL;
    char *rest = folders;
    for (char *folder; folders && (folder = strsep(&rest, ":"));) {
        Object *text = python.PyUnicode_FromString(folder);
        if (text) {
            python.PyList_Insert(path, place, text);
            place += is_our_python;
            python.Py_DecRef(text);
        }
    }
    free(folders);
    if (path)
        python.Py_DecRef(path);
    if (sys)
        python.Py_DecRef(sys);
}

/* Find the functions; the caller has the interpreter's lock. */
static int load(void) {
    static const char entry_points[] = "mayfly.pymqi.libmqm.entry_points";
    Object *module = is_our_python ? NULL : python.PyImport_ImportModule(entry_points);
    if (!module) {
        python.PyErr_Clear();
        extend_path();
        module = python.PyImport_ImportModule(entry_points);
    }
    if (!module) {
        python.PyErr_Print();
        fprintf(stderr, "libmqm: this Python does not find Mayfly by MAYFLY_PYTHONPATH\n");
        return 0;
    }
    for (int n = 0; n < FUNCTION_COUNT; n++) {
        Object *found = python.PyObject_GetAttrString(module, names[n]);
        if (!found) {
            python.PyErr_Print();
            return 0;
        }
        functions[n] = found;
    }
    return is_ready = 1;
}

/* A send to a server that is gone raises SIGPIPE, which would end the program: a Python program
 * ignores it, a C program may not. Threads that begin within a verb inherit the mask. */
static void block_pipe_signal(sigset_t *before) {
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, before);
}

/* Discard a SIGPIPE of the verb, and give the thread its mask back. */
static void restore_pipe_signal(const sigset_t *before) {
    sigset_t pending;
    if (sigismember(before, SIGPIPE))
        return;
    sigpending(&pending);
    if (sigismember(&pending, SIGPIPE)) {
        static const struct timespec at_once = {0, 0};
        sigset_t pipe_signal;
        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        sigtimedwait(&pipe_signal, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Take the interpreter's lock; 0 without an interpreter or without Mayfly. */
static int enter(int *state) {
    pthread_once(&once, start_python);
    if (!has_python)
        return 0;
    *state = python.PyGILState_Ensure();
    if (is_ready || load())
        return 1;
    python.PyGILState_Release(*state);
    return 0;
}

/* Set both codes to those in the answer of a function, and give the lock back. */
static void leave(int state, Object *answer, PMQLONG comp, PMQLONG reason) {
    long long codes = ((long long)MQCC_FAILED << 32) | MQRC_UNEXPECTED_ERROR;
    if (answer) {
        codes = python.PyLong_AsLongLong(answer);
        python.Py_DecRef(answer);
    } else if (python.PyErr_ExceptionMatches(*python.PyExc_KeyboardInterrupt)) {
        /* The Python program that called gets it when it has its lock again. */
        python.PyErr_Clear();
        python.PyErr_SetInterrupt();
    } else {
        python.PyErr_Print();
    }
    python.PyGILState_Release(state);
    *comp = (MQLONG)(codes >> 32);
    *reason = (MQLONG)codes;
}

#define CALL(function, format, ...)                                                             \
    do {                                                                                        \
        int state;                                                                              \
        sigset_t before;                                                                        \
        block_pipe_signal(&before);                                                             \
        if (!enter(&state)) {                                                                   \
            *pCompCode = MQCC_FAILED;                                                           \
            *pReason = MQRC_UNEXPECTED_ERROR;                                                   \
        } else {                                                                                \
            Object *answer =                                                                    \
                python.PyObject_CallFunction(functions[function], format, __VA_ARGS__);         \
            leave(state, answer, pCompCode, pReason);                                           \
        }                                                                                       \
        restore_pipe_signal(&before);                                                           \
    } while (0)
#define AT(pointer) ((long long)(intptr_t)(pointer))

EXPORT void MQENTRY MQCONN(PMQCHAR pQMgrName, PMQHCONN pHconn, PMQLONG pCompCode, PMQLONG pReason) {
    CALL(CONN, "LL", AT(pQMgrName), AT(pHconn));
}

EXPORT void MQENTRY MQCONNX(PMQCHAR pQMgrName, PMQVOID pConnectOpts, PMQHCONN pHconn,
                            PMQLONG pCompCode, PMQLONG pReason) {
    CALL(CONNX, "LLL", AT(pQMgrName), AT(pConnectOpts), AT(pHconn));
}

EXPORT void MQENTRY MQDISC(PMQHCONN pHconn, PMQLONG pCompCode, PMQLONG pReason) {
    CALL(DISC, "(L)", AT(pHconn));
}

EXPORT void MQENTRY MQOPEN(MQHCONN Hconn, PMQVOID pObjDesc, MQLONG Options, PMQHOBJ pHobj,
                           PMQLONG pCompCode, PMQLONG pReason) {
    CALL(OPEN, "iLiL", Hconn, AT(pObjDesc), Options, AT(pHobj));
}

EXPORT void MQENTRY MQCLOSE(MQHCONN Hconn, PMQHOBJ pHobj, MQLONG Options, PMQLONG pCompCode,
                            PMQLONG pReason) {
    CALL(CLOSE, "iLi", Hconn, AT(pHobj), Options);
}

EXPORT void MQENTRY MQPUT(MQHCONN Hconn, MQHOBJ Hobj, PMQVOID pMsgDesc, PMQVOID pPutMsgOpts,
                          MQLONG BufferLength, PMQVOID pBuffer, PMQLONG pCompCode,
                          PMQLONG pReason) {
    CALL(PUT, "iiLLiL", Hconn, Hobj, AT(pMsgDesc), AT(pPutMsgOpts), BufferLength, AT(pBuffer));
}

EXPORT void MQENTRY MQPUT1(MQHCONN Hconn, PMQVOID pObjDesc, PMQVOID pMsgDesc, PMQVOID pPutMsgOpts,
                           MQLONG BufferLength, PMQVOID pBuffer, PMQLONG pCompCode,
                           PMQLONG pReason) {
    CALL(PUT1, "iLLLiL", Hconn, AT(pObjDesc), AT(pMsgDesc), AT(pPutMsgOpts), BufferLength,
         AT(pBuffer));
}

EXPORT void MQENTRY MQGET(MQHCONN Hconn, MQHOBJ Hobj, PMQVOID pMsgDesc, PMQVOID pGetMsgOpts,
                          MQLONG BufferLength, PMQVOID pBuffer, PMQLONG pDataLength,
                          PMQLONG pCompCode, PMQLONG pReason) {
    CALL(GET, "iiLLiLL", Hconn, Hobj, AT(pMsgDesc), AT(pGetMsgOpts), BufferLength, AT(pBuffer),
         AT(pDataLength));
}

EXPORT void MQENTRY MQINQ(MQHCONN Hconn, MQHOBJ Hobj, MQLONG SelectorCount, PMQLONG pSelectors,
                          MQLONG IntAttrCount, PMQLONG pIntAttrs, MQLONG CharAttrLength,
                          PMQCHAR pCharAttrs, PMQLONG pCompCode, PMQLONG pReason) {
    CALL(INQ, "iiiLiLiL", Hconn, Hobj, SelectorCount, AT(pSelectors), IntAttrCount, AT(pIntAttrs),
         CharAttrLength, AT(pCharAttrs));
}

EXPORT void MQENTRY MQSET(MQHCONN Hconn, MQHOBJ Hobj, MQLONG SelectorCount, PMQLONG pSelectors,
                          MQLONG IntAttrCount, PMQLONG pIntAttrs, MQLONG CharAttrLength,
                          PMQCHAR pCharAttrs, PMQLONG pCompCode, PMQLONG pReason) {
    CALL(SET, "iiiLiLiL", Hconn, Hobj, SelectorCount, AT(pSelectors), IntAttrCount, AT(pIntAttrs),
         CharAttrLength, AT(pCharAttrs));
}

EXPORT void MQENTRY MQBEGIN(MQHCONN Hconn, PMQVOID pBeginOptions, PMQLONG pCompCode,
                            PMQLONG pReason) {
    CALL(BEGIN, "iL", Hconn, AT(pBeginOptions));
}

EXPORT void MQENTRY MQCMIT(MQHCONN Hconn, PMQLONG pCompCode, PMQLONG pReason) {
    CALL(CMIT, "(i)", Hconn);
}

EXPORT void MQENTRY MQBACK(MQHCONN Hconn, PMQLONG pCompCode, PMQLONG pReason) {
    CALL(BACK, "(i)", Hconn);
}

EXPORT void MQENTRY MQSUB(MQHCONN Hconn, PMQVOID pSubDesc, PMQHOBJ pHobj, PMQHOBJ pHsub,
                          PMQLONG pCompCode, PMQLONG pReason) {
    CALL(SUB, "iLLL", Hconn, AT(pSubDesc), AT(pHobj), AT(pHsub));
}

EXPORT void MQENTRY MQSUBRQ(MQHCONN Hconn, MQHOBJ Hsub, MQLONG Action, PMQVOID pSubRqOpts,
                            PMQLONG pCompCode, PMQLONG pReason) {
    CALL(SUBRQ, "iiiL", Hconn, Hsub, Action, AT(pSubRqOpts));
}

EXPORT void MQENTRY MQSTAT(MQHCONN Hconn, MQLONG Type, PMQVOID pStatus, PMQLONG pCompCode,
                           PMQLONG pReason) {
    CALL(STAT, "iiL", Hconn, Type, AT(pStatus));
}

EXPORT void MQENTRY MQCB(MQHCONN Hconn, MQLONG Operation, PMQVOID pCallbackDesc, MQHOBJ Hobj,
                         PMQVOID pMsgDesc, PMQVOID pGetMsgOpts, PMQLONG pCompCode,
                         PMQLONG pReason) {
    CALL(CB, "iiLiLL", Hconn, Operation, AT(pCallbackDesc), Hobj, AT(pMsgDesc), AT(pGetMsgOpts));
}

EXPORT void MQENTRY MQCTL(MQHCONN Hconn, MQLONG Operation, PMQVOID pControlOpts, PMQLONG pCompCode,
                          PMQLONG pReason) {
    CALL(CTL, "iiL", Hconn, Operation, AT(pControlOpts));
}

EXPORT void MQENTRY MQCRTMH(MQHCONN Hconn, PMQVOID pCrtMsgHOpts, PMQHMSG pHmsg, PMQLONG pCompCode,
                            PMQLONG pReason) {
    CALL(CRTMH, "iLL", Hconn, AT(pCrtMsgHOpts), AT(pHmsg));
}

EXPORT void MQENTRY MQDLTMH(MQHCONN Hconn, PMQHMSG pHmsg, PMQVOID pDltMsgHOpts, PMQLONG pCompCode,
                            PMQLONG pReason) {
    CALL(DLTMH, "iLL", Hconn, AT(pHmsg), AT(pDltMsgHOpts));
}

EXPORT void MQENTRY MQSETMP(MQHCONN Hconn, MQHMSG Hmsg, PMQVOID pSetPropOpts, PMQVOID pName,
                            PMQVOID pPropDesc, MQLONG Type, MQLONG ValueLength, PMQVOID pValue,
                            PMQLONG pCompCode, PMQLONG pReason) {
    CALL(SETMP, "iLLLLiiL", Hconn, (long long)Hmsg, AT(pSetPropOpts), AT(pName), AT(pPropDesc),
         Type, ValueLength, AT(pValue));
}

EXPORT void MQENTRY MQINQMP(MQHCONN Hconn, MQHMSG Hmsg, PMQVOID pInqPropOpts, PMQVOID pName,
                            PMQVOID pPropDesc, PMQLONG pType, MQLONG ValueLength, PMQVOID pValue,
                            PMQLONG pDataLength, PMQLONG pCompCode, PMQLONG pReason) {
    CALL(INQMP, "iLLLLLiLL", Hconn, (long long)Hmsg, AT(pInqPropOpts), AT(pName), AT(pPropDesc),
         AT(pType), ValueLength, AT(pValue), AT(pDataLength));
}

EXPORT void MQENTRY MQDLTMP(MQHCONN Hconn, MQHMSG Hmsg, PMQVOID pDltPropOpts, PMQVOID pName,
                            PMQLONG pCompCode, PMQLONG pReason) {
    CALL(DLTMP, "iLLL", Hconn, (long long)Hmsg, AT(pDltPropOpts), AT(pName));
}

EXPORT void MQENTRY MQBUFMH(MQHCONN Hconn, MQHMSG Hmsg, PMQVOID pBufMsgHOpts, PMQVOID pMsgDesc,
                            MQLONG BufferLength, PMQVOID pBuffer, PMQLONG pDataLength,
                            PMQLONG pCompCode, PMQLONG pReason) {
    CALL(BUFMH, "iLLLiLL", Hconn, (long long)Hmsg, AT(pBufMsgHOpts), AT(pMsgDesc), BufferLength,
         AT(pBuffer), AT(pDataLength));
}

EXPORT void MQENTRY MQMHBUF(MQHCONN Hconn, MQHMSG Hmsg, PMQVOID pMsgHBufOpts, PMQVOID pName,
                            PMQVOID pMsgDesc, MQLONG BufferLength, PMQVOID pBuffer,
                            PMQLONG pDataLength, PMQLONG pCompCode, PMQLONG pReason) {
    CALL(MHBUF, "iLLLLiLL", Hconn, (long long)Hmsg, AT(pMsgHBufOpts), AT(pName), AT(pMsgDesc),
         BufferLength, AT(pBuffer), AT(pDataLength));
}
