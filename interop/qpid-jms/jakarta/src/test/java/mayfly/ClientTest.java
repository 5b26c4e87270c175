package mayfly;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.jms.BytesMessage;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.Destination;
import jakarta.jms.InvalidClientIDRuntimeException;
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
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Programs of JMS 2.0 as they are written for any provider, by the wall clock and with no option of
 * the provider; the first word of a test is a row of the table in docs/AMQP.md.
 */
class ClientTest {
    private static final String URL = System.getenv("AMQP_WALL_URL");
    private static final String USER = System.getenv("AMQP_USER");
    private static final String PASSWORD = System.getenv("AMQP_WALL_PASSWORD");
    private static final long WAIT_MS = 30_000;
    /** What Qpid JMS calls the outcome of a message. */
    private static final String ACK_TYPE = "JMS_AMQP_ACK_TYPE";
    private static final int ACCEPTED = 1;
    private static final int RELEASED = 3;
    private static final int MODIFIED_FAILED = 4;

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
    void delay_aDelayedMessageComesAtItsDeliveryTimeAndNotBefore() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            JMSConsumer consumer = context.createConsumer(queue);
            long sentNs = System.nanoTime();
            context.createProducer().setDeliveryDelay(500).send(queue, "later");
            Message message = consumer.receive(WAIT_MS);
            assertTrue(System.nanoTime() - sentNs >= 499_000_000);
            assertEquals("later", message.getBody(String.class));
            assertEquals(500, message.getJMSDeliveryTime() - message.getJMSTimestamp());
        }
    }

    @Test
    void refusal_aLifeShorterThanTheDelayIsRefused() {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            JMSRuntimeException refused = assertThrows(JMSRuntimeException.class,
                () -> context.createProducer().setTimeToLive(500).setDeliveryDelay(1_000)
                    .send(queue, "x"));
            assertTrue(refused.getMessage().contains("MQRC_EXPIRY_ERROR (2013)"));
        }
    }

    @Test
    void expiry_anExpiredMessageIsNotReceived() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().setTimeToLive(100).send(queue, "short");
            Thread.sleep(150);
            assertNull(context.createConsumer(queue).receiveNoWait());
        }
    }

    @Test
    void life_theExpirationArrives() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().setTimeToLive(600_000).send(queue, "body");
            Message message = context.createConsumer(queue).receive(WAIT_MS);
            assertEquals(600_000, message.getJMSExpiration() - message.getJMSTimestamp());
        }
    }

    @Test
    void properties_andHeadersArrive() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().setPriority(7)
                .setJMSType("kind").setJMSCorrelationID("c-1")
                .setProperty("colour", "red").setProperty("count", 5)
                .send(queue, "body");
            Message message = context.createConsumer(queue).receive(WAIT_MS);
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
    void bodies_ofEveryKindComeBack() throws Exception {
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
                .send(queue, new ArrayList<>(List.of("object")))
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
    void drain_anEmptyQueueIsTold() {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            JMSConsumer consumer = context.createConsumer(queue);
            for (int round = 0; round < 3; round++) {
                assertNull(consumer.receiveNoWait());
                context.createProducer().send(queue, "x");
                assertEquals("x", consumer.receiveBody(String.class, WAIT_MS));
            }
        }
    }

    @Test
    void outcomes_releasedAndModified() throws Exception {
        try (JMSContext context = context(JMSContext.CLIENT_ACKNOWLEDGE)) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().send(queue, "x");
            JMSConsumer consumer = context.createConsumer(queue);
            assertEquals(1, countAndSettle(consumer, RELEASED));
            assertEquals(1, countAndSettle(consumer, MODIFIED_FAILED));
            assertEquals(2, countAndSettle(consumer, ACCEPTED));
            assertNull(consumer.receiveNoWait());
        }
    }

    private static int countAndSettle(JMSConsumer consumer, int outcome) throws Exception {
        Message message = consumer.receive(WAIT_MS);
        message.setIntProperty(ACK_TYPE, outcome);
        message.acknowledge();
        return message.getIntProperty("JMSXDeliveryCount");
    }

    @Test
    void temporary_aRequestIsAnsweredOverATemporaryQueue() throws Exception {
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
    void browser_seesMessagesAndLeavesThem() throws Exception {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().send(queue, "one").send(queue, "two");
            for (int round = 0; round < 2; round++) {
                try (QueueBrowser browser = context.createBrowser(queue)) {
                    assertEquals(2, Collections.list(browser.getEnumeration()).size());
                }
            }
        }
    }

    @Test
    void selector_takesWhatItNames() {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            for (String colour : new String[] {"red", "blue", "red"}) {
                context.createProducer().setProperty("colour", colour).send(queue, colour);
            }
            JMSConsumer blue = context.createConsumer(queue, "colour = 'blue'");
            assertEquals("blue", blue.receiveBody(String.class, WAIT_MS));
            assertNull(blue.receiveNoWait());
        }
    }

    @Test
    void transactions_aRollbackGivesBackAndCounts() throws Exception {
        try (JMSContext context = context(JMSContext.SESSION_TRANSACTED)) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            context.createProducer().send(queue, "one");
            context.commit();
            JMSConsumer consumer = context.createConsumer(queue);
            assertEquals("one", consumer.receiveBody(String.class, WAIT_MS));
            context.createProducer().send(queue, "never");
            context.rollback();
            Message again = consumer.receive(WAIT_MS);
            assertTrue(again.getJMSRedelivered());
            assertEquals(2, again.getIntProperty("JMSXDeliveryCount"));
            context.commit();
            assertNull(consumer.receiveNoWait());
        }
    }

    @Test
    void durable_aSubscriptionGoesOnWhileItsClientIsAway() {
        try (JMSContext context = factory("?jms.clientID=durable").createContext()) {
            Topic topic = context.createTopic("dev/durable");
            context.createDurableConsumer(topic, "durable").close();
            context.createProducer().send(topic, "while away");
            JMSConsumer again = context.createDurableConsumer(topic, "durable");
            assertEquals("while away", again.receiveBody(String.class, WAIT_MS));
            again.close();
            context.unsubscribe("durable");
            assertThrows(InvalidDestinationRuntimeException.class,
                () -> context.unsubscribe("durable"));
        }
    }

    @Test
    void shared_eachMessageComesToOne() {
        try (JMSContext context = factory("?jms.clientID=shared").createContext()) {
            Topic topic = context.createTopic("dev/shared");
            JMSConsumer one = context.createSharedConsumer(topic, "shared");
            JMSConsumer two = context.createSharedConsumer(topic, "shared");
            context.createProducer().send(topic, "x").send(topic, "y");
            List<String> got = new ArrayList<>();
            for (JMSConsumer consumer : List.of(one, two)) {
                String text = consumer.receiveBodyNoWait(String.class);
                while (text != null) {
                    got.add(text);
                    text = consumer.receiveBodyNoWait(String.class);
                }
            }
            Collections.sort(got);
            assertEquals(List.of("x", "y"), got);
        }
    }

    @Test
    void large_aMessageComesInFrames() {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            String body = "mayfly".repeat(1 << 18);
            context.createProducer().send(queue, body);
            JMSConsumer consumer = context.createConsumer(queue);
            assertEquals(body, consumer.receiveBody(String.class, WAIT_MS));
        }
    }

    @Test
    void errors_haveTheirOwnTypes() {
        try (JMSContext context = context()) {
            assertThrows(InvalidDestinationRuntimeException.class,
                () -> context.createConsumer(context.createQueue("DEV.NO.SUCH.QUEUE")));
        }
        ConnectionFactory wrong = new JmsConnectionFactory(USER, "wrong", URL);
        assertThrows(JMSSecurityRuntimeException.class, () -> wrong.createContext().start());
    }

    @Test
    void selector_findsAMessageByItsId() {
        try (JMSContext context = context()) {
            Queue queue = context.createQueue("DEV.QUEUE.1");
            TextMessage one = context.createTextMessage("1");
            TextMessage two = context.createTextMessage("2");
            context.createProducer().send(queue, one).send(queue, two);
            String selector = assertDoesNotThrow(
                () -> "JMSMessageID = '" + two.getJMSMessageID() + "'");
            JMSConsumer chosen = context.createConsumer(queue, selector);
            assertEquals("2", chosen.receiveBody(String.class, WAIT_MS));
            assertNull(chosen.receiveNoWait());
        }
    }

    @Test
    void temporary_onlyItsConnectionReceivesAndNobodySendsToOneThatIsGone() throws Exception {
        try (JMSContext context = context(); JMSContext other = context()) {
            TemporaryQueue queue = context.createTemporaryQueue();
            TemporaryTopic topic = context.createTemporaryTopic();
            Queue sameQueue = other.createQueue(queue.getQueueName());
            Topic sameTopic = other.createTopic(topic.getTopicName());
            assertThrows(JMSRuntimeException.class, () -> other.createConsumer(sameQueue));
            assertThrows(JMSRuntimeException.class, () -> other.createConsumer(sameTopic));
            JMSConsumer consumer = context.createConsumer(topic);
            other.createProducer().send(sameTopic, "answer");
            assertEquals("answer", consumer.receiveBody(String.class, WAIT_MS));
            consumer.close();
            queue.delete();
            topic.delete();
            for (Destination gone : new Destination[] {sameQueue, sameTopic}) {
                assertThrows(InvalidDestinationRuntimeException.class,
                    () -> other.createProducer().send(gone, "late"));
                assertThrows(InvalidDestinationRuntimeException.class,
                    () -> other.createConsumer(gone));
            }
        }
    }

    @Test
    void durable_noLocalLeavesOutWhatTheClientIdSends() {
        try (JMSContext context = factory("?jms.clientID=local").createContext();
                JMSContext other = context()) {
            Topic topic = context.createTopic("dev/local");
            JMSConsumer others = context.createDurableConsumer(topic, "local", null, true);
            context.createProducer().send(topic, "mine");
            other.createProducer().send(topic, "theirs");
            assertEquals("theirs", others.receiveBody(String.class, WAIT_MS));
            others.close();
            context.unsubscribe("local");
        }
    }

    @Test
    void shared_aDurableOneNeedsNoClientIdAndTakesANewSelector() {
        try (JMSContext context = context()) {
            Topic topic = context.createTopic("dev/shared");
            for (int number = 0; number < 10; number++) {
                JMSConsumer consumer =
                    context.createSharedDurableConsumer(topic, "durable", "number = " + number);
                context.createProducer().setProperty("number", number).send(topic, "x");
                assertEquals("x", consumer.receiveBody(String.class, WAIT_MS));
                consumer.close();
            }
            context.unsubscribe("durable");
            assertThrows(InvalidDestinationRuntimeException.class,
                () -> context.unsubscribe("durable"));
        }
    }

    @Test
    void errors_aClientIdInUseIsOne() {
        try (JMSContext first = factory("?jms.clientID=taken").createContext()) {
            first.start();
            assertThrows(InvalidClientIDRuntimeException.class,
                () -> factory("?jms.clientID=taken").createContext().start());
        }
    }
}
