import JMS.Connection;
import JMS.MessageConsumer;
import JMS.MessageProducer;
import JMS.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Sends COUNT messages, and prints how many a consumer in an acknowledgement mode receives: URL MODE COUNT. */
public class TopicAcknowledger {
    public static void main(String[] arguments) throws Exception {
        Connection connection = new ActiveMQConnectionFactory("ann", "anns-secret", arguments[0]).createConnection();
        connection.start();
        int count = Integer.parseInt(arguments[2]);
        Session reading = connection.createSession(false, Integer.parseInt(arguments[1]));
        MessageConsumer consumer = reading.createConsumer(reading.createTopic("acknowledged"));
        Session writing = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = writing.createProducer(writing.createTopic("acknowledged"));
        for (int number = 0; number < count; number++) {
            producer.send(writing.createTextMessage("x"));
        }
        int came = 0;
        while (came < count && consumer.receive(5000) != null) {
            came++;
        }
        System.out.println(came);
        connection.close();
    }
}
