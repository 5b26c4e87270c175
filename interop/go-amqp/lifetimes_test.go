// Package interop has tests of go-amqp; names begin with the rule that they show.
package interop

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
)

const queue = "DEV.QUEUE.3"

func session(t *testing.T) (context.Context, *amqp.Session) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	options := &amqp.ConnOptions{
		SASLType: amqp.SASLTypePlain(os.Getenv("AMQP_USER"), os.Getenv("AMQP_PASSWORD")),
	}
	conn, err := amqp.Dial(ctx, os.Getenv("AMQP_URL"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	made, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, made
}

func send(t *testing.T, ctx context.Context, s *amqp.Session, m *amqp.Message) error {
	t.Helper()
	sender, err := s.NewSender(ctx, queue, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close(ctx)
	return sender.Send(ctx, m, nil)
}

func receive(t *testing.T, ctx context.Context, s *amqp.Session, wait time.Duration) *amqp.Message {
	t.Helper()
	receiver, err := s.NewReceiver(ctx, queue, &amqp.ReceiverOptions{Credit: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close(ctx)
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	message, err := receiver.Receive(within, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.AcceptMessage(ctx, message); err != nil {
		t.Fatal(err)
	}
	return message
}

func TestE5TheRestOfALifeComesAsTTL(t *testing.T) {
	ctx, s := session(t)
	sent := amqp.NewMessage([]byte("hello"))
	sent.Header = &amqp.MessageHeader{Durable: true, TTL: time.Minute}
	sent.ApplicationProperties = map[string]any{"n": int32(1)}
	if err := send(t, ctx, s, sent); err != nil {
		t.Fatal(err)
	}
	got := receive(t, ctx, s, 10*time.Second)
	if string(got.GetData()) != "hello" || got.ApplicationProperties["n"] != int32(1) {
		t.Fatalf("%v", got)
	}
	if ttl := got.Header.TTL; ttl <= 50*time.Second || ttl > time.Minute {
		t.Fatalf("ttl %v", ttl)
	}
}

func TestD1ADelayedMessageComesAtItsTime(t *testing.T) {
	ctx, s := session(t)
	begin := time.Now()
	sent := amqp.NewMessage([]byte("later"))
	sent.Annotations = amqp.Annotations{"x-opt-delivery-delay": uint64(800)}
	if err := send(t, ctx, s, sent); err != nil {
		t.Fatal(err)
	}
	got := receive(t, ctx, s, 10*time.Second)
	if got == nil || time.Since(begin) < 800*time.Millisecond {
		t.Fatalf("%v after %v", got, time.Since(begin))
	}
}

func TestE9AnExpiredMessageDoesNotCome(t *testing.T) {
	ctx, s := session(t)
	sent := amqp.NewMessage([]byte("short"))
	sent.Header = &amqp.MessageHeader{TTL: 100 * time.Millisecond}
	if err := send(t, ctx, s, sent); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if got := receive(t, ctx, s, 400*time.Millisecond); got != nil {
		t.Fatalf("%v", got)
	}
}

func TestD2ADelayBelow0IsRejected(t *testing.T) {
	ctx, s := session(t)
	sent := amqp.NewMessage([]byte("x"))
	sent.Annotations = amqp.Annotations{"x-opt-delivery-delay": int64(-1)}
	err := send(t, ctx, s, sent)
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Condition != "amqp:invalid-field" {
		t.Fatalf("%v", err)
	}
}
