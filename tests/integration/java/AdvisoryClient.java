import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Prints one line per operation that a client tries with an account; by reflection, for javax and jakarta. */
public class AdvisoryClient {
  interface Step { void run() throws Throwable; }

  static Object call(Object target, String name, Object... arguments) throws Throwable {
    for (Method method : target.getClass().getMethods()) {
      Class<?>[] types = method.getParameterTypes();
      if (!method.getName().equals(name) || types.length != arguments.length) continue;
      boolean fits = true;
      for (int i = 0; i < types.length; i++)
        fits &= types[i].isPrimitive() ? !(arguments[i] instanceof String) : types[i].isInstance(arguments[i]);
      if (!fits) continue;
      method.setAccessible(true);
      try { return method.invoke(target, arguments); } catch (InvocationTargetException error) { throw error.getCause(); }
    }
    throw new NoSuchMethodException(name);
  }

  static Object connect(String[] arguments) throws Throwable {
    Object factory = Class.forName("org.apache.activemq.ActiveMQConnectionFactory")
        .getConstructor(String.class, String.class, String.class).newInstance(arguments[1], arguments[2], arguments[0]);
    return call(factory, "createConnection");
  }

  static void roundTrip(Object sender, Object receiver, Object destination) throws Throwable {
    Object consumer = call(receiver, "createConsumer", destination);
    Object producer = call(sender, "createProducer", destination);
    sendWhenKnown(producer, call(sender, "createTextMessage", "x"));
    if (call(consumer, "receive", 20000L) == null) throw new IllegalStateException("no message was received in 20 s");
    call(consumer, "close");
    call(producer, "close");
  }

  /** Sends again until an advisory has announced the temporary destination of the other connection. */
  static void sendWhenKnown(Object producer, Object message) throws Throwable {
    for (long end = System.nanoTime() + 20_000_000_000L; ; Thread.sleep(50)) {
      try { call(producer, "send", message); return; } catch (Exception error) {
        if (System.nanoTime() > end || !String.valueOf(error.getMessage()).contains("deleted Destination")) throw error;
      }
    }
  }

  static void send(Object session, Object destination) throws Throwable {
    call(call(session, "createProducer", destination), "send", call(session, "createTextMessage", "x"));
  }

  static void attempt(String what, Step step) {
    String outcome = "ok";
    try { step.run(); } catch (Throwable error) { outcome = String.valueOf(error.getMessage()).split("\n")[0]; }
    System.out.println(what + "\t" + outcome);
  }

  public static void main(String[] arguments) throws Throwable {
    Object connection = connect(arguments), other = connect(arguments);
    call(connection, "setClientID", "durable");
    call(connection, "start");
    call(other, "start");
    Object session = call(connection, "createSession", false, 1), second = call(other, "createSession", false, 1);
    attempt("queue", () -> roundTrip(session, second, call(session, "createQueue", "app.new")));
    attempt("topic", () -> roundTrip(session, second, call(session, "createTopic", "app.new")));
    attempt("reply", () -> {
      Object replies = call(second, "createTemporaryQueue");
      roundTrip(session, second, replies);
      call(replies, "delete");
    });
    attempt("temporary topic", () -> roundTrip(session, second, call(second, "createTemporaryTopic")));
    attempt("durable", () -> {
      call(call(session, "createDurableSubscriber", call(session, "createTopic", "app.kept"), "name"), "close");
      call(session, "unsubscribe", "name");
    });
    attempt("wildcard", () -> call(call(session, "createConsumer", call(session, "createQueue", "app.>")), "close"));
    attempt("topic without consumers", () -> send(session, call(session, "createTopic", "app.unused")));
    attempt("destinations", () -> call(connection, "getDestinationSource"));
    attempt("advisories", () -> call(session, "createConsumer", call(session, "createTopic", "ActiveMQ.Advisory.Consumer.>")));
    attempt("delete", () -> call(connection, "destroyDestination", call(session, "createQueue", "app.new")));
    for (String name : new String[] {"Consumer.Queue.app.new", "Consumer.Queue.other", "TempQueue", "Connection", "NetworkBridge"})
      attempt("forged " + name, () -> send(session, call(session, "createTopic", "ActiveMQ.Advisory." + name)));
    attempt("forged among others", () -> send(session, call(session, "createTopic", "app.new,ActiveMQ.Advisory.Consumer.Queue.x")));
    System.exit(0);
  }
}
