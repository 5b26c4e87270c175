package mayfly;

import java.util.stream.Stream;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The rules D1 to D31 and L1 to L15, by both APIs. */
class ScenarioTest {
    /**
     * Time stands still until a scenario lets it pass, so the client must not look at its own; and a
     * send in a transaction, which returns before it has come, would come after that.
     */
    private static final String OPTIONS = "?jms.localMessageExpiry=false&jms.forceSyncSend=true"
            + "&jms.connectTimeout=60000";
    /** A session that is busy would keep what it had prefetched from the others. */
    private static final String OF_LISTENERS = OPTIONS + "&jms.prefetchPolicy.all=0";

    static JmsConnectionFactory factory(String options) {
        return new JmsConnectionFactory(System.getenv("AMQP_USER"),
            System.getenv("AMQP_PASSWORD"), System.getenv("AMQP_URL") + options);
    }

    static JmsConnectionFactory factoryOfListeners() {
        return factory(OF_LISTENERS);
    }

    @TestFactory
    Stream<DynamicTest> classic() {
        return both(new Classic(), "classic");
    }

    @TestFactory
    Stream<DynamicTest> simplified() {
        return both(new Simplified(), "simplified");
    }

    private static Stream<DynamicTest> both(Api api, String name) {
        Listener.Kind loop = (factory, queue, sessions, selector, handler) ->
            new ReceiveLoop(api, factory, queue, sessions, selector, handler);
        return Stream.concat(
            Scenarios.tests(false, name,
                steps -> new Play(api, factory(OPTIONS), loop).run(steps)),
            Scenarios.tests(true, name,
                steps -> new Play(api, factoryOfListeners(), loop).run(steps)));
    }
}
