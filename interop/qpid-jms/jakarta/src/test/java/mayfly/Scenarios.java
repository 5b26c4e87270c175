package mayfly;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** The file that programs of Python and of Java share; interop/README.md says what a step means. */
final class Scenarios {
    private static final JsonObject CONTENT = read();

    /** mvn test -Dscenario=D7 runs those of one rule. */
    private static final String WANTED = System.getProperty("scenario", "");

    private Scenarios() {
    }

    /** The commands that come before each scenario. */
    static List<String> before() {
        List<String> commands = new ArrayList<>();
        CONTENT.getAsJsonArray("before").forEach(one -> commands.add(one.getAsString()));
        return commands;
    }

    /** A test for each scenario that has a listener, or has none. */
    static Stream<DynamicTest> tests(boolean withListener, String suffix,
            ThrowingConsumer<JsonArray> run) {
        List<DynamicTest> tests = new ArrayList<>();
        for (JsonElement one : CONTENT.getAsJsonArray("scenarios")) {
            JsonObject scenario = one.getAsJsonObject();
            JsonArray steps = scenario.getAsJsonArray("steps");
            if (hasListener(steps) == withListener) {
                String name = scenario.get("name").getAsString();
                if (name.startsWith(WANTED)) {
                    tests.add(DynamicTest.dynamicTest(name + " " + suffix, () -> run.accept(steps)));
                }
            }
        }
        return tests.stream();
    }

    private static boolean hasListener(JsonArray steps) {
        for (JsonElement step : steps) {
            if (step.getAsJsonObject().has("listen")) {
                return true;
            }
        }
        return false;
    }

    private static JsonObject read() {
        try {
            String text = Files.readString(Path.of("..", "..", "scenarios.json"));
            return new Gson().fromJson(text, JsonObject.class);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Takes a value; may throw. */
    interface ThrowingConsumer<T> {
        void accept(T value) throws Exception;
    }
}
