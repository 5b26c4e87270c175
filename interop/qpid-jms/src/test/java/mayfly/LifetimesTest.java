package mayfly;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.BytesMessage;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.InvalidDestinationRuntimeException;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSRuntimeException;
import jakarta.jms.JMSSecurityRuntimeException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.Collections;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Programs of JMS 2.0 as they are written for any provider; names begin with the rule they show. */
class LifetimesTest {
    private static final String URL = System.getenv("AMQP_URL");
    private static final String USER = System.getenv("AMQP_USER");
    private static final String PASSWORD = System.getenv("AMQP_PASSWORD");
    private static final long WAIT_MS = 10_000;

    private static ConnectionFactory factory(String options) {
        return new JmsConnectionFactory(USER, PASSWORD, URL + options);
    }

    private static JMSContext context(int mode) {
        return factory("").createContext(mode);
    }

    private static JMSContext context() {
        return context(JMSContext.AUTO_ACKNOWLEDGE);
    }

    @BeforeEach
    void emptyTheQueue() {
        try (JMSContext context = context()) {
            JMSConsumer consumer = context.createConsumer(context.createQueue("DEV.QUEUE.1"));
            while (consumer.receiveNoWait() != null) {
                continue;
            }
        }
    }

    @Test
    void D1_aDelayedMessageComesAtItsDeliveryTimeAndNotBefore() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            JMSConsumer consumer = context.createConsumer(queue);
            long sent = System.currentTimeMillis();
            context.createProducer().setDeliveryDelay(1_000).send(queue, "later");
            assertNull(consumer.receiveNoWait());
            Message message = consumer.receive(WAIT_MS);
            assertTrue(System.currentTimeMillis() - sent >= 1_000);
            assertEquals("later", message.getBody(String.class));
            assertEquals(1_000, message.getJMSDeliveryTime() - message.getJMSTimestamp());
        }
    }

    @Test
    void D7_aLifeShorterThanTheDelayIsRefused() {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            JMSRuntimeException refused = assertThrows(JMSRuntimeException.class,
                () -> context.createProducer().setTimeToLive(500).setDeliveryDelay(1_000)
                    .send(queue, "x"));
            assertTrue(refused.getMessage().contains("MQRC_EXPIRY_ERROR (2013)"));
        }
    }

    @Test
    void E9_anExpiredMessageIsNotReceived() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().setTimeToLive(200).send(queue, "short");
            Thread.sleep(300);
            assertNull(context.createConsumer(queue).receive(500));
        }
    }

    @Test
    void E5_theExpirationAndTheFieldsOfAMessageArrive() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().setTimeToLive(60_000).setPriority(7)
                .setJMSType("kind").setJMSCorrelationID("c-1")
                .setProperty("colour", "red").setProperty("count", 5)
                .send(queue, "body");
            Message message = context.createConsumer(queue).receive(WAIT_MS);
            assertEquals(60_000, message.getJMSExpiration() - message.getJMSTimestamp());
            assertEquals(7, message.getJMSPriority());
            assertEquals("kind", message.getJMSType());
            assertEquals("c-1", message.getJMSCorrelationID());
            assertEquals("red", message.getStringProperty("colour"));
            assertEquals(5, message.getIntProperty("count"));
            assertEquals(1, message.getIntProperty("JMSXDeliveryCount"));
            assertEquals(queue.getQueueName(), ((Queue) message.getJMSDestination()).getQueueName());
        }
    }

    @Test
    void bodiesOfEveryKindComeBack() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            MapMessage map = context.createMapMessage();
            map.setInt("i", 5);
            map.setString("s", "t");
            map.setBytes("b", new byte[] {1, 2});
            StreamMessage stream = context.createStreamMessage();
            stream.writeLong(5);
            stream.writeString("z");
            BytesMessage bytes = context.createBytesMessage();
            bytes.writeBytes(new byte[] {9, 8, 7});
            context.createProducer().send(queue, map).send(queue, stream).send(queue, bytes)
                .send(queue, new java.util.ArrayList<>(java.util.List.of("object")))
                .send(queue, context.createMessage());
            JMSConsumer consumer = context.createConsumer(queue);
            map = (MapMessage) consumer.receive(WAIT_MS);
            assertEquals(5, map.getInt("i"));
            assertEquals("t", map.getString("s"));
            assertEquals(2, map.getBytes("b").length);
            stream = (StreamMessage) consumer.receive(WAIT_MS);
            assertEquals(5, stream.readLong());
            assertEquals("z", stream.readString());
            assertEquals(3, ((BytesMessage) consumer.receive(WAIT_MS)).getBodyLength());
            assertNotNull(consumer.receive(WAIT_MS));
            assertNotNull(consumer.receive(WAIT_MS));
        }
    }

    @Test
    void aRequestIsAnsweredOverATemporaryQueue() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            TemporaryQueue replies = context.createTemporaryQueue();
            TextMessage request = context.createTextMessage("request");
            request.setJMSReplyTo(replies);
            context.createProducer().send(queue, request);
            Message got = context.createConsumer(queue).receive(WAIT_MS);
            context.createProducer().send(got.getJMSReplyTo(), "answer");
            Message answer = context.createConsumer(replies).receive(WAIT_MS);
            assertEquals("answer", answer.getBody(String.class));
        }
    }

    @Test
    void aBrowserAndASelectorSeeWhatTheyShould() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            for (String colour : new String[] {"red", "blue", "red"}) {
                context.createProducer().setProperty("colour", colour).send(queue, colour);
            }
            try (QueueBrowser browser = context.createBrowser(queue)) {
                assertEquals(3, Collections.list(browser.getEnumeration()).size());
            }
            JMSConsumer blue = context.createConsumer(queue, "colour = 'blue'");
            assertEquals("blue", blue.receive(WAIT_MS).getBody(String.class));
            assertNull(blue.receiveNoWait());
        }
    }

    @Test
    void G8_aRollbackGivesBackAndCounts() throws Exception {
        try (JMSContext context = context(JMSContext.SESSION_TRANSACTED)) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().send(queue, "one");
            context.commit();
            JMSConsumer consumer = context.createConsumer(queue);
            assertEquals("one", consumer.receive(WAIT_MS).getBody(String.class));
            context.createProducer().send(queue, "never");
            context.rollback();
            Message again = consumer.receive(WAIT_MS);
            assertTrue(again.getJMSRedelivered());
            assertEquals(2, again.getIntProperty("JMSXDeliveryCount"));
            context.commit();
            assertNull(consumer.receive(300));
        }
    }

    @Test
    void subscriptionsAreDurableAndShared() throws Exception {
        try (JMSContext context = factory("?jms.clientID=interop").createContext()) {
            Topic topic = context.createTopic("dev/interop");
            JMSConsumer durable = context.createDurableConsumer(topic, "durable");
            JMSConsumer one = context.createSharedConsumer(topic, "shared");
            JMSConsumer two = context.createSharedConsumer(topic, "shared");
            context.createProducer().send(topic, "goal");
            assertEquals("goal", durable.receive(WAIT_MS).getBody(String.class));
            Message shared = one.receive(500);
            shared = shared == null ? two.receive(WAIT_MS) : shared;
            assertEquals("goal", shared.getBody(String.class));
            durable.close();
            context.createProducer().send(topic, "while away");
            durable = context.createDurableConsumer(topic, "durable");
            assertEquals("while away", durable.receive(WAIT_MS).getBody(String.class));
            durable.close();
            context.unsubscribe("durable");
            assertThrows(InvalidDestinationRuntimeException.class,
                () -> context.unsubscribe("durable"));
        }
    }

    @Test
    void errorsHaveTheirOwnTypes() {
        try (JMSContext context = context()) {
            assertThrows(InvalidDestinationRuntimeException.class,
                () -> context.createConsumer(context.createQueue("DEV.NO.SUCH.QUEUE")));
        }
        ConnectionFactory wrong = new JmsConnectionFactory(USER, "wrong", URL);
        assertThrows(JMSSecurityRuntimeException.class, () -> wrong.createContext().start());
    }
}
