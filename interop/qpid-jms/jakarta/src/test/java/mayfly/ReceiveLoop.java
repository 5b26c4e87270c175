package mayfly;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** L5, L7: threads that receive, call the listener, and commit or roll back. */
final class ReceiveLoop implements Listener {
    private static final long RECEIVE_TIMEOUT_MS = 50;

    private final List<Thread> threads = new ArrayList<>();
    private final List<Api.Opened> sessions = new ArrayList<>();
    private final AtomicInteger receiving = new AtomicInteger();
    private final AtomicInteger idle = new AtomicInteger();
    private volatile boolean isStopped;

    ReceiveLoop(Api api, ConnectionFactory factory, String queue, int count, String selector,
            Handler handler) throws JMSException {
        for (int number = 0; number < count; number++) {
            Api.Opened session = api.open(factory, true, null);
            Api.Consumer consumer = session.consumer(session.queue(queue), selector);
            sessions.add(session);
            threads.add(new Thread(() -> run(session, consumer, handler)));
        }
        threads.forEach(Thread::start);
    }

    private void run(Api.Opened session, Api.Consumer consumer, Handler handler) {
        try {
            while (!isStopped) {
                receiving.incrementAndGet();
                Message message = consumer.receive(RECEIVE_TIMEOUT_MS);
                receiving.decrementAndGet();
                if (message == null) {
                    session.rollback();
                    idle.incrementAndGet();
                    continue;
                }
                try {
                    handler.onMessage(message);
                    session.commit();
                } catch (Handler.Failure failure) {
                    session.rollback();
                }
            }
        } catch (JMSException error) {
            throw new AssertionError(error);
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
    public void end() throws JMSException {
        isStopped = true;
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
        for (Api.Opened session : sessions) {
            session.close();
        }
    }
}
