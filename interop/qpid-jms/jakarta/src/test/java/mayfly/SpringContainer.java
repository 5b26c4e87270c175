package mayfly;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.springframework.jms.listener.DefaultMessageListenerContainer;

/** Spring's container, as programs configure it that came from a listener port. */
final class SpringContainer extends DefaultMessageListenerContainer implements Listener {
    private final AtomicInteger receiving = new AtomicInteger();
    private final AtomicInteger idle = new AtomicInteger();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

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

    /** The container would hide it, and try again 5 seconds later. */
    @Override
    protected void handleListenerSetupFailure(Throwable found, boolean alreadyRecovered) {
        failure.compareAndSet(null, found);
        super.handleListenerSetupFailure(found, alreadyRecovered);
    }

    /** A shutdown alone interrupts what is still at work after a receive timeout: a commit, say. */
    @Override
    public void end() {
        CountDownLatch stopped = new CountDownLatch(1);
        stop(stopped::countDown);
        try {
            if (!stopped.await(60, TimeUnit.SECONDS)) {
                throw new AssertionError("the container has not stopped");
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        shutdown();
        if (failure.get() != null) {
            throw new AssertionError("a session has failed", failure.get());
        }
    }
}
