package mayfly;

import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;

/** Connection, Session, MessageProducer, MessageConsumer. */
final class Classic implements Api {
    @Override
    public Opened open(ConnectionFactory factory, boolean isTransacted, String clientId)
            throws JMSException {
        Connection connection = factory.createConnection();
        if (clientId != null) {
            connection.setClientID(clientId);
        }
        connection.start();
        int mode = isTransacted ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE;
        return new OfSession(connection, connection.createSession(mode));
    }

    @Override
    public String exception(String nameInClassicApi) {
        return nameInClassicApi;
    }

    private record OfSession(Connection connection, Session session) implements Opened {
        @Override
        public Queue queue(String name) throws JMSException {
            return session.createQueue(name);
        }

        @Override
        public Topic topic(String name) throws JMSException {
            return session.createTopic(name);
        }

        @Override
        public Message text(String text) throws JMSException {
            return session.createTextMessage(text);
        }

        @Override
        public void send(Destination to, Message message, Terms terms) throws JMSException {
            try (MessageProducer producer = session.createProducer(to)) {
                if (terms.isLifeFirst()) {
                    producer.setTimeToLive(terms.ttlMs());
                }
                producer.setDeliveryDelay(terms.delayMs());
                producer.setTimeToLive(terms.ttlMs());
                producer.setDeliveryMode(terms.deliveryMode());
                producer.send(message);
            }
        }

        @Override
        public Consumer consumer(Destination from, String selector) throws JMSException {
            return of(session.createConsumer(from, selector));
        }

        @Override
        public Consumer durableConsumer(Topic from, String name) throws JMSException {
            return of(session.createDurableConsumer(from, name));
        }

        @Override
        public Consumer sharedConsumer(Topic from, String name) throws JMSException {
            return of(session.createSharedConsumer(from, name));
        }

        @Override
        public List<Message> browse(Queue queue) throws JMSException {
            List<Message> found = new ArrayList<>();
            try (QueueBrowser browser = session.createBrowser(queue)) {
                Enumeration<?> messages = browser.getEnumeration();
                while (messages.hasMoreElements()) {
                    found.add((Message) messages.nextElement());
                }
            }
            return found;
        }

        @Override
        public void commit() throws JMSException {
            session.commit();
        }

        @Override
        public void rollback() throws JMSException {
            session.rollback();
        }

        @Override
        public void unsubscribe(String name) throws JMSException {
            session.unsubscribe(name);
        }

        @Override
        public void close() throws JMSException {
            connection.close();
        }

        private static Consumer of(MessageConsumer consumer) {
            return new Consumer() {
                @Override
                public Message receive(long timeoutMs) throws JMSException {
                    return consumer.receive(timeoutMs);
                }

                @Override
                public Message receiveNoWait() throws JMSException {
                    return consumer.receiveNoWait();
                }

                @Override
                public void close() throws JMSException {
                    consumer.close();
                }
            };
        }
    }
}
