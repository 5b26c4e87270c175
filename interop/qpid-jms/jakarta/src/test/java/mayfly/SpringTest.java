package mayfly;

import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The rules of listeners by Spring's DefaultMessageListenerContainer. */
class SpringTest {
    @TestFactory
    Stream<DynamicTest> listeners() {
        return Scenarios.tests(true, "spring", steps ->
            new Play(new Classic(), ScenarioTest.factoryOfListeners(), SpringContainer::new)
                .run(steps));
    }
}
