package mayfly;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.jms.listener.DefaultMessageListenerContainer;

/** Spring's container, as programs configure it that came from a listener port. */
final class SpringContainer extends DefaultMessageListenerContainer implements Listener {
    private final AtomicInteger receiving = new AtomicInteger();
    private final AtomicInteger idle = new AtomicInteger();

    SpringContainer(ConnectionFactory factory, String queue, int sessions, String selector,
            Handler handler) {
        setConnectionFactory(factory);
        setDestinationName(queue);
        setConcurrency(sessions + "-" + sessions);
        setMessageSelector(selector);
        setSessionTransacted(true);
        setReceiveTimeout(50);
        setErrorHandler(failure -> { });
        setMessageListener(handler);
        afterPropertiesSet();
        start();
    }

    @Override
    protected Message receiveFromConsumer(MessageConsumer consumer, long timeout)
            throws JMSException {
        receiving.incrementAndGet();
        try {
            Message message = super.receiveFromConsumer(consumer, timeout);
            if (message == null) {
                idle.incrementAndGet();
            }
            return message;
        } finally {
            receiving.decrementAndGet();
        }
    }

    @Override
    public int receiving() {
        return receiving.get();
    }

    @Override
    public int idle() {
        return idle.get();
    }

    @Override
    public void end() {
        shutdown();
    }
}
