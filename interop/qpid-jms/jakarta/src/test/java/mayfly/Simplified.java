package mayfly;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.Destination;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.JMSProducer;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;

/** JMSContext, JMSProducer, JMSConsumer. */
final class Simplified implements Api {
    @Override
    public Opened open(ConnectionFactory factory, boolean isTransacted, String clientId) {
        JMSContext context = factory.createContext(
            isTransacted ? JMSContext.SESSION_TRANSACTED : JMSContext.AUTO_ACKNOWLEDGE);
        if (clientId != null) {
            context.setClientID(clientId);
        }
        return new OfContext(context);
    }

    @Override
    public String exception(String nameInClassicApi) {
        return nameInClassicApi.replace("Exception", "RuntimeException");
    }

    private record OfContext(JMSContext context) implements Opened {
        @Override
        public Queue queue(String name) {
            return context.createQueue(name);
        }

        @Override
        public Topic topic(String name) {
            return context.createTopic(name);
        }

        @Override
        public Message text(String text) {
            return context.createTextMessage(text);
        }

        @Override
        public void send(Destination to, Message message, Terms terms) {
            JMSProducer producer = context.createProducer();
            if (terms.isLifeFirst()) {
                producer.setTimeToLive(terms.ttlMs());
            }
            producer.setDeliveryDelay(terms.delayMs()).setTimeToLive(terms.ttlMs());
            producer.setDeliveryMode(terms.deliveryMode()).send(to, message);
        }

        @Override
        public Consumer consumer(Destination from, String selector) {
            return of(context.createConsumer(from, selector));
        }

        @Override
        public Consumer durableConsumer(Topic from, String name) {
            return of(context.createDurableConsumer(from, name));
        }

        @Override
        public Consumer sharedConsumer(Topic from, String name) {
            return of(context.createSharedConsumer(from, name));
        }

        @Override
        public List<Message> browse(Queue queue) throws JMSException {
            List<Message> found = new ArrayList<>();
            try (QueueBrowser browser = context.createBrowser(queue)) {
                Enumeration<?> messages = browser.getEnumeration();
                while (messages.hasMoreElements()) {
                    found.add((Message) messages.nextElement());
                }
            }
            return found;
        }

        @Override
        public void commit() {
            context.commit();
        }

        @Override
        public void rollback() {
            context.rollback();
        }

        @Override
        public void unsubscribe(String name) {
            context.unsubscribe(name);
        }

        @Override
        public void close() {
            context.close();
        }

        private static Consumer of(JMSConsumer consumer) {
            return new Consumer() {
                @Override
                public Message receive(long timeoutMs) {
                    return consumer.receive(timeoutMs);
                }

                @Override
                public Message receiveNoWait() {
                    return consumer.receiveNoWait();
                }

                @Override
                public void close() {
                    consumer.close();
                }
            };
        }
    }
}
