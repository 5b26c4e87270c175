package mayfly;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.function.Executable;

/** One run of a scenario through one API: each step is a method named after its first key. */
final class Play {
    private static final AtomicInteger NUMBERS = new AtomicInteger();
    private static final long PATIENCE_MS = 60_000;

    private final String place =
        "P" + ProcessHandle.current().pid() + "N" + NUMBERS.incrementAndGet();
    private final Map<String, Api.Opened> sessions = new HashMap<>();
    private final Map<String, Api.Consumer> consumers = new HashMap<>();
    private final Map<String, Message> sent = new HashMap<>();
    private final Map<String, String> kept = new HashMap<>();
    private final Map<String, Listener> listeners = new HashMap<>();
    private final Map<String, Handler> handlers = new HashMap<>();
    private final Api api;
    private final ConnectionFactory factory;
    private final Listener.Kind listenerKind;

    Play(Api api, ConnectionFactory factory, Listener.Kind listenerKind) {
        this.api = api;
        this.factory = factory;
        this.listenerKind = listenerKind;
    }

    void run(JsonArray steps) throws Exception {
        for (String command : Scenarios.before()) {
            Control.mqsc(placed(command));
        }
        try {
            sessions.put("main", api.open(factory, false, null));
            for (JsonElement step : steps) {
                try {
                    carryOut(step.getAsJsonObject());
                } catch (Exception | AssertionError error) {
                    throw new AssertionError(step + ": " + error, error);
                }
            }
        } finally {
            close();
        }
    }

    private void carryOut(JsonObject step) throws Exception {
        String verb = step.keySet().iterator().next();
        String subject = placed(step.get(verb).getAsString());
        switch (verb) {
            case "mqsc" -> Control.mqsc(subject);
            case "advance_ms" -> Control.advance(step.get(verb).getAsLong());
            case "open" -> sessions.put(subject,
                api.open(factory, step.has("transacted"), text(step, "client_id")));
            case "send" -> refusable(step, () -> send(subject, step));
            case "consume" -> refusable(step, () -> consumers.put(subject, consumer(step)));
            case "end" -> consumers.get(subject).close();
            case "receive" -> receive(consumers.get(subject), step.get("gives"));
            case "browse" -> browse(subject, step);
            case "commit" -> sessions.get(subject).commit();
            case "rollback" -> sessions.get(subject).rollback();
            case "unsubscribe" -> session(step).unsubscribe(subject);
            case "listen" -> listen(subject, step);
            case "receiving" -> until(subject + " receives", listeners.get(subject)::receiving,
                step.get("sessions").getAsInt(), false);
            case "idle" -> until(subject + " is idle", listeners.get(subject)::idle,
                step.get("receives").getAsInt(), true);
            case "handled" -> handled(handlers.get(subject), step.get("gives"));
            case "let_go" -> handlers.get(subject).letGo();
            case "unlisten" -> listeners.remove(subject).end();
            default -> fail("no step is named " + verb);
        }
    }

    private void send(String text, JsonObject step) throws JMSException {
        Api.Opened session = session(step);
        Message message = session.text(text);
        if (step.has("properties")) {
            for (Map.Entry<String, JsonElement> one : step.getAsJsonObject("properties").entrySet()) {
                message.setObjectProperty(one.getKey(), value(one.getValue()));
            }
        }
        message.setJMSCorrelationID(text(step, "correlation_id"));
        message.setJMSType(text(step, "type"));
        session.send(destination(session, text(step, "to")), message,
            new Api.Terms(number(step, "delay_ms"), number(step, "ttl_ms"), step.has("ttl_first"),
                step.has("non_persistent") ? DeliveryMode.NON_PERSISTENT : DeliveryMode.PERSISTENT));
        if (step.has("as")) {
            sent.put(text(step, "as"), message);
        }
    }

    private Api.Consumer consumer(JsonObject step) throws JMSException {
        Api.Opened session = session(step);
        Destination from = destination(session, text(step, "from"));
        if (step.has("durable")) {
            return session.durableConsumer((Topic) from, text(step, "durable"));
        }
        if (step.has("shared")) {
            return session.sharedConsumer((Topic) from, text(step, "shared"));
        }
        String selector = text(step, "selector");
        for (Map.Entry<String, String> one : kept.entrySet()) {
            selector = selector == null ? null
                : selector.replace("{" + one.getKey() + "}", one.getValue());
        }
        return session.consumer(from, selector);
    }

    private void receive(Api.Consumer consumer, JsonElement expected) throws JMSException {
        if (expected.isJsonNull()) {
            assertNull(consumer.receiveNoWait());
        } else {
            compare(consumer.receive(PATIENCE_MS), expected.getAsJsonObject());
        }
    }

    private void browse(String queue, JsonObject step) throws JMSException {
        Api.Opened session = sessions.get("main");
        List<Message> found = session.browse((Queue) destination(session, queue));
        if (step.has("count")) {
            assertEquals(step.get("count").getAsInt(), found.size());
        } else {
            List<String> expected = new ArrayList<>();
            step.getAsJsonArray("gives").forEach(one -> expected.add(one.getAsString()));
            List<String> texts = new ArrayList<>();
            for (Message message : found) {
                texts.add(((TextMessage) message).getText());
            }
            assertEquals(expected, texts);
        }
        if (step.has("correlation_of_first")) {
            kept.put(text(step, "correlation_of_first"), found.get(0).getJMSCorrelationID());
        }
    }

    private void listen(String name, JsonObject step) throws JMSException {
        handlers.put(name, new Handler());
        listeners.put(name, listenerKind.start(factory, text(step, "from"),
            step.get("sessions").getAsInt(), text(step, "selector"), handlers.get(name)));
    }

    private void handled(Handler handler, JsonElement expected) throws Exception {
        if (expected.isJsonNull()) {
            assertFalse(handler.hasCalls());
        } else {
            compare(handler.nextCall(PATIENCE_MS), expected.getAsJsonObject());
        }
    }

    private static void until(String what, IntSupplier found, int wanted, boolean orMore)
            throws InterruptedException {
        long endNs = System.nanoTime() + PATIENCE_MS * 1_000_000;
        int now = found.getAsInt();
        while (now != wanted && !(orMore && now > wanted)) {
            assertTrue(System.nanoTime() < endNs, what + ": " + now + ", not " + wanted);
            Thread.sleep(1);
            now = found.getAsInt();
        }
    }

    private void compare(Message message, JsonObject expected) throws JMSException {
        assertNotNull(message, "no message");
        for (String name : expected.keySet()) {
            JsonElement wanted = expected.get(name);
            switch (name) {
                case "text" -> assertEquals(wanted.getAsString(), message.getBody(String.class));
                case "delay_ms" -> assertEquals(wanted.getAsLong(),
                    message.getJMSDeliveryTime() - message.getJMSTimestamp(), name);
                case "life_ms" -> assertEquals(wanted.getAsLong(), message.getJMSExpiration() == 0
                    ? 0 : message.getJMSExpiration() - message.getJMSTimestamp(), name);
                case "delivery_count" -> assertEquals(wanted.getAsInt(),
                    message.getIntProperty("JMSXDeliveryCount"), name);
                case "redelivered" ->
                    assertEquals(wanted.getAsBoolean(), message.getJMSRedelivered(), name);
                case "correlation_id" ->
                    assertEquals(wanted.getAsString(), message.getJMSCorrelationID(), name);
                case "type" -> assertEquals(wanted.getAsString(), message.getJMSType(), name);
                case "id_of" -> assertEquals(sent.get(wanted.getAsString()).getJMSMessageID(),
                    message.getJMSMessageID(), name);
                case "properties" -> {
                    for (String one : wanted.getAsJsonObject().keySet()) {
                        assertEquals(value(wanted.getAsJsonObject().get(one)),
                            message.getObjectProperty(one), one);
                    }
                }
                default -> fail("nothing is known of " + name);
            }
        }
    }

    /** Expects exactly the exception and the reason of a step, if it has them. */
    private void refusable(JsonObject step, Executable call) throws Exception {
        if (!step.has("refused")) {
            try {
                call.execute();
            } catch (Exception | Error error) {
                throw error;
            } catch (Throwable error) {
                throw new AssertionError(error);
            }
            return;
        }
        JsonObject refused = step.getAsJsonObject("refused");
        Exception error = assertThrows(Exception.class, call);
        assertEquals(api.exception(refused.get("type").getAsString()),
            error.getClass().getSimpleName(), error.toString());
        String reason = "(" + refused.get("reason").getAsString() + ")";
        assertTrue(error.getMessage().contains(reason), error.toString());
    }

    private Api.Opened session(JsonObject step) {
        return sessions.get(step.has("in") ? text(step, "in") : "main");
    }

    private static Destination destination(Api.Opened session, String name) throws JMSException {
        return name.startsWith("topic:") ? session.topic(name.substring("topic:".length()))
            : session.queue(name);
    }

    private String text(JsonObject step, String name) {
        return step.has(name) ? placed(step.get(name).getAsString()) : null;
    }

    private static long number(JsonObject step, String name) {
        return step.has(name) ? step.get(name).getAsLong() : 0;
    }

    private static Object value(JsonElement element) {
        JsonPrimitive value = element.getAsJsonPrimitive();
        if (value.isBoolean()) {
            return value.getAsBoolean();
        }
        return value.isNumber() ? (Object) value.getAsInt() : value.getAsString();
    }

    private String placed(String text) {
        return text.replace("$", place);
    }

    private void close() throws JMSException {
        handlers.values().forEach(Handler::letGo);
        for (Listener listener : listeners.values()) {
            listener.end();
        }
        for (Api.Opened session : sessions.values()) {
            session.close();
        }
    }
}
