package mayfly;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import javax.naming.Context;
import javax.naming.NameNotFoundException;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsQueue;
import org.apache.qpid.jms.JmsTopic;
import org.objectweb.jtests.jms.admin.Admin;

/**
 * What the suite asks of a provider: objects by name. The server is there already, by the wall clock.
 *
 * <p>Each test has a queue and a topic of its own, so that nothing is left from the test before.
 */
public final class MayflyAdmin implements Admin {
  private static final AtomicInteger NUMBER = new AtomicInteger();

  private final Map<String, Object> objects = new HashMap<>();

  @Override
  public String getName() {
    return "Mayfly";
  }

  @Override
  public Context createContext() {
    return (Context)
        Proxy.newProxyInstance(
            Context.class.getClassLoader(),
            new Class<?>[] {Context.class},
            (proxy, method, arguments) -> {
              if (!method.getName().equals("lookup")) {
                return null;
              }
              Object found = objects.get(String.valueOf(arguments[0]));
              if (found == null) {
                throw new NameNotFoundException(String.valueOf(arguments[0]));
              }
              return found;
            });
  }

  @Override
  public void createConnectionFactory(String name) {
    objects.put(
        name,
        new JmsConnectionFactory(
            System.getenv("AMQP_USER"),
            System.getenv("AMQP_WALL_PASSWORD"),
            System.getenv("AMQP_WALL_URL")));
  }

  @Override
  public void createQueueConnectionFactory(String name) {
    createConnectionFactory(name);
  }

  @Override
  public void createTopicConnectionFactory(String name) {
    createConnectionFactory(name);
  }

  @Override
  public void createQueue(String name) {
    String queue = "DEV.JORAM." + NUMBER.incrementAndGet();
    command("DEFINE QLOCAL('" + queue + "') DEFPSIST(YES)");
    objects.put(name, new JmsQueue(queue));
  }

  @Override
  public void createTopic(String name) {
    objects.put(name, new JmsTopic("dev/joram/" + NUMBER.incrementAndGet()));
  }

  @Override
  public void deleteQueue(String name) {
    command("DELETE QLOCAL('" + ((JmsQueue) objects.remove(name)).getQueueName() + "') PURGE");
  }

  @Override
  public void deleteTopic(String name) {
    objects.remove(name);
  }

  @Override
  public void deleteConnectionFactory(String name) {
    objects.remove(name);
  }

  @Override
  public void deleteQueueConnectionFactory(String name) {
    objects.remove(name);
  }

  @Override
  public void deleteTopicConnectionFactory(String name) {
    objects.remove(name);
  }

  @Override
  public void startServer() {}

  @Override
  public void stopServer() {}

  @Override
  public void start() {}

  @Override
  public void stop() {}

  private static void command(String mqsc) {
    String[] place = System.getenv("MAYFLY_WALL_CONTROL").split(":");
    try (Socket socket = new Socket(place[0], Integer.parseInt(place[1]))) {
      socket.getOutputStream().write(("mqsc " + mqsc + "\n").getBytes(StandardCharsets.UTF_8));
      String answer =
          new BufferedReader(
                  new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8))
              .readLine();
      if (!"ok".equals(answer)) {
        throw new IllegalStateException(mqsc + ": " + answer);
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
