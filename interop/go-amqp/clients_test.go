// Package interop has tests of go-amqp; a test's first word is a row of the table in docs/AMQP.md.
package interop

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
)

func TestClient(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"delay":      delay,
		"refusal":    refusal,
		"life":       life,
		"expiry":     expiry,
		"properties": properties,
		"bodies":     bodies,
		"drain": func(t *testing.T) {
			t.Skip("its drain takes the credit back, and waits for an answer that Proton does not give")
		},
		"outcomes":     outcomes,
		"transactions": func(t *testing.T) { t.Skip("go-amqp has no transactions") },
		"selector":     selector,
		"browser":      browser,
		"durable":      durable,
		"shared":       shared,
		"temporary":    temporary,
		"large":        large,
		"errors":       conditions,
	} {
		t.Run(name, test)
	}
}

// client is one connection with one session.
type client struct {
	*testing.T
	ctx     context.Context
	session *amqp.Session
}

func connect(t *testing.T, container string) client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	options := &amqp.ConnOptions{
		ContainerID: container,
		SASLType:    amqp.SASLTypePlain(os.Getenv("AMQP_USER"), os.Getenv("AMQP_PASSWORD")),
	}
	conn, err := amqp.Dial(ctx, os.Getenv("AMQP_URL"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client{t, ctx, session}
}

func (c client) send(address string, message *amqp.Message) error {
	c.Helper()
	sender, err := c.session.NewSender(c.ctx, address, nil)
	if err != nil {
		c.Fatal(err)
	}
	defer sender.Close(c.ctx)
	return sender.Send(c.ctx, message, nil)
}

func (c client) mustSend(address string, message *amqp.Message) {
	c.Helper()
	if err := c.send(address, message); err != nil {
		c.Fatal(err)
	}
}

// receiver gives no credit of its own accord.
func (c client) receiver(address string, options amqp.ReceiverOptions) *amqp.Receiver {
	c.Helper()
	options.Credit = -1
	receiver, err := c.session.NewReceiver(c.ctx, address, &options)
	if err != nil {
		c.Fatal(err)
	}
	return receiver
}

// next takes the next message.
func (c client) next(receiver *amqp.Receiver) *amqp.Message {
	c.Helper()
	if err := receiver.IssueCredit(1); err != nil {
		c.Fatal(err)
	}
	message, err := receiver.Receive(c.ctx, nil)
	if err != nil {
		c.Fatal(err)
	}
	return message
}

func (c client) accept(receiver *amqp.Receiver, message *amqp.Message) {
	c.Helper()
	if err := receiver.AcceptMessage(c.ctx, message); err != nil {
		c.Fatal(err)
	}
}

func (c client) expect(receiver *amqp.Receiver, text string) *amqp.Message {
	c.Helper()
	message := c.next(receiver)
	if got, _ := message.Value.(string); got != text {
		c.Fatalf("%v, not %q", message.Value, text)
	}
	return message
}

// expectNone lets a message that is sent now be the next one: no other is there.
func (c client) expectNone(receiver *amqp.Receiver, address string) {
	c.Helper()
	mark := text("mark")
	mark.ApplicationProperties = map[string]any{"colour": "blue"}
	c.mustSend(address, mark)
	c.accept(receiver, c.expect(receiver, "mark"))
}

func text(body string) *amqp.Message {
	return &amqp.Message{Value: body}
}

func conditionOf(err error) amqp.ErrCond {
	var refused *amqp.Error
	if errors.As(err, &refused) {
		return refused.Condition
	}
	return ""
}

func delay(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "DELAY")
	sent := text("later")
	sent.Annotations = amqp.Annotations{"x-opt-delivery-delay": uint64(5000)}
	c.mustSend(queue, sent)
	receiver := c.receiver(queue, amqp.ReceiverOptions{})
	operate(t, "advance 4999")
	c.expectNone(receiver, queue)
	operate(t, "advance 1")
	got := c.expect(receiver, "later")
	if at, ok := got.Annotations["x-opt-delivery-time"].(int64); !ok ||
		at-got.Properties.CreationTime.UnixMilli() != 5000 {
		t.Fatal(got.Annotations)
	}
	c.accept(receiver, got)
}

func refusal(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "REFUSAL")
	below := text("x")
	below.Annotations = amqp.Annotations{"x-opt-delivery-delay": int64(-1)}
	short := text("x")
	short.Header = &amqp.MessageHeader{TTL: time.Second}
	short.Annotations = amqp.Annotations{"x-opt-delivery-delay": int64(2000)}
	for _, message := range []*amqp.Message{below, short} {
		if err := c.send(queue, message); conditionOf(err) != "amqp:invalid-field" {
			t.Fatal(err)
		}
	}
}

func life(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "LIFE")
	sent := text("x")
	sent.Header = &amqp.MessageHeader{Durable: true, TTL: time.Minute}
	c.mustSend(queue, sent)
	operate(t, "advance 20000")
	receiver := c.receiver(queue, amqp.ReceiverOptions{})
	got := c.expect(receiver, "x")
	if got.Header.TTL != 40*time.Second {
		t.Fatal(got.Header)
	}
	c.accept(receiver, got)
}

func expiry(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "EXPIRY")
	sent := text("x")
	sent.Header = &amqp.MessageHeader{TTL: time.Second}
	c.mustSend(queue, sent)
	operate(t, "advance 1000")
	c.expectNone(c.receiver(queue, amqp.ReceiverOptions{}), queue)
}

func properties(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "PROPERTIES")
	subject := "kind"
	sent := text("x")
	sent.Header = &amqp.MessageHeader{Durable: true, Priority: 7}
	sent.Properties = &amqp.MessageProperties{
		MessageID: "mine", CorrelationID: "c-1", Subject: &subject,
	}
	sent.ApplicationProperties = map[string]any{
		"int": int32(5), "text": "red", "true": true, "double": 1.5,
	}
	c.mustSend(queue, sent)
	receiver := c.receiver(queue, amqp.ReceiverOptions{})
	got := c.expect(receiver, "x")
	p := got.Properties
	if got.Header.Priority != 7 || !got.Header.Durable || p.MessageID != "mine" ||
		p.CorrelationID != "c-1" || *p.Subject != "kind" {
		t.Fatal(got.Header, p)
	}
	for name, value := range sent.ApplicationProperties {
		if got.ApplicationProperties[name] != value {
			t.Fatal(name, got.ApplicationProperties)
		}
	}
	c.accept(receiver, got)
}

func bodies(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "BODIES")
	receiver := c.receiver(queue, amqp.ReceiverOptions{})
	c.mustSend(queue, amqp.NewMessage([]byte{0, 1, 255}))
	got := c.next(receiver)
	if !bytes.Equal(got.GetData(), []byte{0, 1, 255}) {
		t.Fatal(got)
	}
	c.accept(receiver, got)
	for _, value := range []any{"text", int64(5), true} {
		c.mustSend(queue, &amqp.Message{Value: value})
		got = c.next(receiver)
		if got.Value != value {
			t.Fatal(got.Value, value)
		}
		c.accept(receiver, got)
	}
}

func outcomes(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "OUTCOMES")
	operate(t, "mqsc ALTER QMGR DEADQ('%s')", queueFor(t, "DEAD"))
	c.mustSend(queue, text("x"))
	receiver := c.receiver(queue, amqp.ReceiverOptions{})
	if err := receiver.ReleaseMessage(c.ctx, c.expect(receiver, "x")); err != nil {
		t.Fatal(err)
	}
	got := c.expect(receiver, "x")
	if got.Header.DeliveryCount != 0 {
		t.Fatal(got.Header)
	}
	failed := &amqp.ModifyMessageOptions{DeliveryFailed: true}
	if err := receiver.ModifyMessage(c.ctx, got, failed); err != nil {
		t.Fatal(err)
	}
	got = c.expect(receiver, "x")
	if got.Header.DeliveryCount != 1 {
		t.Fatal(got.Header)
	}
	if err := receiver.RejectMessage(c.ctx, got, nil); err != nil {
		t.Fatal(err)
	}
	c.expectNone(receiver, queue)
	dead := c.receiver("DEV.GO.DEAD", amqp.ReceiverOptions{})
	c.accept(dead, c.next(dead))
}

func selector(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "SELECTOR")
	for _, colour := range []string{"red", "blue"} {
		sent := text(colour)
		sent.ApplicationProperties = map[string]any{"colour": colour}
		c.mustSend(queue, sent)
	}
	blue := c.receiver(queue, amqp.ReceiverOptions{
		Filters: []amqp.LinkFilter{amqp.NewSelectorFilter("colour = 'blue'")},
	})
	c.accept(blue, c.expect(blue, "blue"))
	c.expectNone(blue, queue)
}

func browser(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "BROWSER")
	c.mustSend(queue, text("x"))
	for range 2 {
		copies := c.receiver(queue, amqp.ReceiverOptions{
			SourceDistributionMode: amqp.SourceDistributionModeCopy,
		})
		c.expect(copies, "x")
	}
	receiver := c.receiver(queue, amqp.ReceiverOptions{})
	c.accept(receiver, c.expect(receiver, "x"))
}

func durable(t *testing.T) {
	options := amqp.ReceiverOptions{
		Name:               "durable",
		SourceDurability:   amqp.DurabilityUnsettledState,
		SourceExpiryPolicy: amqp.ExpiryPolicyNever,
	}
	first := connect(t, "go-durable")
	first.receiver("topic://dev/go/durable", options)
	other := connect(t, "")
	first.session.Close(first.ctx)
	other.mustSend("topic://dev/go/durable", text("while away"))
	again := connect(t, "go-durable")
	receiver := again.receiver("topic://dev/go/durable", options)
	again.accept(receiver, again.expect(receiver, "while away"))
	// A close, other than an end of the session, ends the subscription.
	if err := receiver.Close(again.ctx); err != nil {
		t.Fatal(err)
	}
}

func shared(t *testing.T) {
	c := connect(t, "go-shared")
	one := c.receiver("topic://dev/go/shared", amqp.ReceiverOptions{
		Name: "shared|1", SourceCapabilities: []string{"shared"},
	})
	two := c.receiver("topic://dev/go/shared", amqp.ReceiverOptions{
		Name: "shared|2", SourceCapabilities: []string{"shared"},
	})
	c.mustSend("topic://dev/go/shared", text("x"))
	c.accept(one, c.expect(one, "x"))
	c.expectNone(two, "topic://dev/go/shared")
}

func temporary(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "TEMPORARY")
	replies := c.receiver("", amqp.ReceiverOptions{DynamicAddress: true})
	address := replies.Address()
	request := text("request")
	request.Properties = &amqp.MessageProperties{ReplyTo: &address}
	c.mustSend(queue, request)
	receiver := c.receiver(queue, amqp.ReceiverOptions{})
	got := c.expect(receiver, "request")
	c.mustSend(*got.Properties.ReplyTo, text("answer"))
	c.accept(receiver, got)
	c.accept(replies, c.expect(replies, "answer"))
}

func large(t *testing.T) {
	c, queue := connect(t, ""), queueFor(t, "LARGE")
	body := bytes.Repeat([]byte("mayfly"), 1<<18)
	c.mustSend(queue, amqp.NewMessage(body))
	receiver := c.receiver(queue, amqp.ReceiverOptions{})
	got := c.next(receiver)
	if !bytes.Equal(got.GetData(), body) {
		t.Fatal(len(got.GetData()))
	}
	c.accept(receiver, got)
}

func conditions(t *testing.T) {
	c := connect(t, "")
	if _, err := c.session.NewReceiver(c.ctx, "queue://DEV.NO.SUCH.QUEUE", nil); conditionOf(err) !=
		"amqp:not-found" {
		t.Fatal(err)
	}
	wrong := &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(os.Getenv("AMQP_USER"), "wrong")}
	if _, err := amqp.Dial(c.ctx, os.Getenv("AMQP_URL"), wrong); err == nil {
		t.Fatal("a wrong password comes in")
	}
}
