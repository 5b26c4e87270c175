package mayfly;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** What the operator does while a program runs: commands, and the time of the queue manager. */
final class Control {
    private static final String[] ADDRESS = System.getenv("MAYFLY_CONTROL").split(":");

    private Control() {
    }

    static void mqsc(String command) {
        ask("mqsc " + command);
    }

    /** Lets time pass; all that falls due on the way is done on return. */
    static void advance(long ms) {
        ask("advance " + ms);
    }

    private static void ask(String line) {
        try (Socket socket = new Socket(ADDRESS[0], Integer.parseInt(ADDRESS[1]))) {
            socket.getOutputStream().write((line + "\n").getBytes(StandardCharsets.UTF_8));
            String answer = new BufferedReader(
                new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
            if (!"ok".equals(answer)) {
                throw new AssertionError(line + ": " + answer);
            }
        } catch (IOException error) {
            throw new AssertionError(line, error);
        }
    }
}
