import java.util.HashMap;
import java.util.Map;
import javax.management.Attribute;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Reads the name of a broker over JMX and calls one operation; prints both results, or why JMX refused. */
public class ReadBroker {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> environment = new HashMap<>();
        if (arguments.length > 1) {
            environment.put(JMXConnector.CREDENTIALS, new String[] {arguments[1], arguments[2]});
        }
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(arguments[0]), environment)) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName name : server.queryNames(new ObjectName("org.apache.activemq:*"), null)) {
                boolean broker = name.getKeyPropertyList().size() == 2 && name.toString().toLowerCase().contains("type=broker");
                if (broker) {
                    System.out.println("read " + server.getAttribute(name, "BrokerName"));
                    server.invoke(name, "resetStatistics", null, null);
                    System.out.println("wrote");
                }
            }
        } catch (SecurityException error) {
            System.out.println("refused " + error.getMessage());
        }
    }
}
