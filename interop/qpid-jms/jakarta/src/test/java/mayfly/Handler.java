package mayfly;

import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Does with each message as its properties say, and notes the calls. */
final class Handler implements MessageListener {
    private final BlockingQueue<Message> calls = new LinkedBlockingQueue<>();
    private final CountDownLatch gate = new CountDownLatch(1);

    /** What the listener throws because its message says so. */
    static final class Failure extends RuntimeException {
        private static final long serialVersionUID = 1;

        Failure() {
            super("its message says so", null, false, false);
        }
    }

    @Override
    public void onMessage(Message message) {
        try {
            calls.add(message);
            if (message.propertyExists("held") && !gate.await(60, TimeUnit.SECONDS)) {
                throw new AssertionError("nobody lets it go");
            }
            int failures = message.propertyExists("failures")
                ? message.getIntProperty("failures") : 0;
            if (message.getIntProperty("JMSXDeliveryCount") <= failures) {
                throw new Failure();
            }
        } catch (JMSException error) {
            throw new AssertionError(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    Message nextCall(long timeoutMs) throws InterruptedException {
        return calls.poll(timeoutMs, TimeUnit.MILLISECONDS);
    }

    boolean hasCalls() {
        return !calls.isEmpty();
    }

    void letGo() {
        gate.countDown();
    }
}
