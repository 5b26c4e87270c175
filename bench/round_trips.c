/* Exchanges one byte with a child over loopback, so often for each line of its input.
 *
 * Says the seconds twice: a round trip is the least that a put, or a get, with an answer can take.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void check(int outcome, const char *call) {
    if (outcome < 0) {
        perror(call);
        exit(1);
    }
}

static int connected(int listener) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int one = 1, made = socket(AF_INET, SOCK_STREAM, 0);
    check(made, "socket");
    check(getsockname(listener, (struct sockaddr *)&address, &length), "getsockname");
    check(connect(made, (struct sockaddr *)&address, length), "connect");
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return made;
}

static void echo(int listener) {
    char byte;
    int one = 1, made = accept(listener, NULL, NULL);
    check(made, "accept");
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (read(made, &byte, 1) == 1)
        check(write(made, &byte, 1), "write");
    exit(0);
}

int main(int argc, char **argv) {
    char line[10], byte = 0;
    int count = argc > 1 ? atoi(argv[1]) : 1;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    check(bind(listener, (struct sockaddr *)&any, sizeof any), "bind");
    check(listen(listener, 1), "listen");
    if (fork() == 0)
        echo(listener);
    int peer = connected(listener);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int n = 0; n < count; n++) {
            check(write(peer, &byte, 1), "write");
            if (read(peer, &byte, 1) != 1)
                return 1;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        double seconds = end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9;
        printf("%.9f %.9f\n", seconds, seconds);
        fflush(stdout);
    }
    return 0;
}
