package mayfly;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.Topic;
import java.util.List;

/** The classic or the simplified API of JMS, as far as a scenario meets their differences. */
interface Api {
    /** Opens a session that receives, on a connection of its own. */
    Opened open(ConnectionFactory factory, boolean isTransacted, String clientId)
        throws JMSException;

    /** D10: the exception that stands for one of the classic API. */
    String exception(String nameInClassicApi);

    /** A session, or a context. */
    interface Opened {
        Queue queue(String name) throws JMSException;

        Topic topic(String name) throws JMSException;

        Message text(String text) throws JMSException;

        void send(Destination to, Message message, Terms terms) throws JMSException;

        Consumer consumer(Destination from, String selector) throws JMSException;

        Consumer durableConsumer(Topic from, String name) throws JMSException;

        Consumer sharedConsumer(Topic from, String name) throws JMSException;

        List<Message> browse(Queue queue) throws JMSException;

        void commit() throws JMSException;

        void rollback() throws JMSException;

        void unsubscribe(String name) throws JMSException;

        void close() throws JMSException;
    }

    /** A consumer of either API. */
    interface Consumer {
        Message receive(long timeoutMs) throws JMSException;

        Message receiveNoWait() throws JMSException;

        void close() throws JMSException;
    }

    /** Delay and life of a send, 0 for none; the life is set second unless it comes first (D7). */
    record Terms(long delayMs, long ttlMs, boolean isLifeFirst, int deliveryMode) {
    }
}
