import java.io.FileInputStream;
import java.util.Properties;
import JMS.Connection;
import JMS.ConnectionFactory;
import JMS.DeliveryMode;
import JMS.MessageProducer;
import JMS.Session;
import javax.naming.InitialContext;

/** Sends numbered persistent messages to a queue, and prints the number of each and the duration of its send in ms. */
public class SendThroughTakeOver {
    public static void main(String[] arguments) throws Exception {
        String username = System.getenv("BROKER_USERNAME");
        String password = System.getenv("BROKER_PASSWORD");
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        int count = Integer.parseInt(arguments[2]);
        Object factory = new InitialContext(properties).lookup(properties.getProperty("connectionfactoryName"));
        Connection connection = ((ConnectionFactory) factory).createConnection(username, password);
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(arguments[1]));
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        for (int number = 0; number < count; number++) {
            long began = System.nanoTime();
            producer.send(session.createTextMessage("message " + number));
            System.out.println(number + " " + (System.nanoTime() - began) / 1000000);
            Thread.sleep(20);
        }
        connection.close();
    }
}
