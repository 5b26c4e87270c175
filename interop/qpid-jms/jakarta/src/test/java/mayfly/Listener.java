package mayfly;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;

/** A listener of a scenario: sessions that receive, each in a transaction of its own. */
interface Listener {
    /** What starts a listener. */
    interface Kind {
        Listener start(ConnectionFactory factory, String queue, int sessions, String selector,
            Handler handler) throws JMSException;
    }

    /** How many sessions wait for a message. */
    int receiving();

    /** How many receives have found nothing. */
    int idle();

    /** Stops it; calls at work end first. */
    void end() throws JMSException;
}
