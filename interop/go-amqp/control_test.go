package interop

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// operate sends the operator's channel one line, an MQSC command or time that is to pass.
func operate(t *testing.T, format string, values ...any) {
	t.Helper()
	conn, err := net.Dial("tcp", os.Getenv("MAYFLY_CONTROL"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, format+"\n", values...)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "ok" {
		t.Fatalf("%s: %v", answer, err)
	}
}

// queueFor defines an empty queue for a test.
func queueFor(t *testing.T, name string) string {
	t.Helper()
	queue := "DEV.GO." + name
	operate(t, "mqsc DEFINE QLOCAL('%s') REPLACE", queue)
	operate(t, "mqsc CLEAR QLOCAL('%s')", queue)
	return queue
}
