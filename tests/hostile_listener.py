"""A listener that acts as a broker for each client: it records all received bytes, and returns each message.

python tests/hostile_listener.py HOST PORT RECORD PROTOCOL [CERTIFICATE KEY]: bind, print the port, then serve until
killed. The listener appends to RECORD a line per connection, and a line with all bytes of the client. PROTOCOL is mqtt,
stomp, openwire, or pending, which accepts no connection and records each pending one. The listener imports no module of
the project, so that any account can run it.
"""

import select
import socket
import ssl
import sys


class Client:
    """A connected client; ``received`` contains all bytes that it sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""

    def receive(self, size: int) -> bytes:
        """Return at most ``size`` bytes; EOFError if the client has closed the connection."""
        block = self.connection.recv(size)
        if not block:
            raise EOFError
        self.received += block
        return block

    def receive_exactly(self, count: int) -> bytes:
        """Return ``count`` bytes; EOFError if the client closes the connection before that."""
        content = b""
        while len(content) < count:
            content += self.receive(count - len(content))
        return content

    def send(self, content: bytes) -> None:
        """Send all of ``content``."""
        self.connection.sendall(content)


def serve_mqtt(client: Client) -> None:
    while True:
        head, length, shift = client.receive_exactly(1)[0], 0, 0
        while True:
            digit = client.receive_exactly(1)[0]
            length |= (digit & 127) << shift
            shift += 7
            if not digit & 128:
                break
        body = client.receive_exactly(length)
        if head >> 4 == 1:
            client.send(b"\x20\2\0\0")
        elif head >> 4 == 8:
            client.send(b"\x90\3" + body[:2] + b"\1")
        elif head >> 4 == 3:
            client.send(bytes([0x30, len(body)]) + body)


def serve_stomp(client: Client) -> None:
    frames = b""
    while True:
        frames += client.receive(4096)
        while b"\0" in frames:
            frame, _, frames = frames.partition(b"\0")
            if frame.lstrip().startswith(b"CONNECT"):
                client.send(b"CONNECTED\n\n\0")
            elif frame.lstrip().startswith(b"SUBSCRIBE"):
                client.send(b"RECEIPT\nreceipt-id:s\n\n\0")
            elif frame.lstrip().startswith(b"SEND"):
                client.send(b"MESSAGE\n\n" + frame.partition(b"\n\n")[2] + b"\0")


def serve_openwire(client: Client) -> None:
    client.send(b"\0\0\1\x3a\x01ActiveMQ" + bytes(305))
    while True:
        client.receive_exactly(1)


SERVE = {"mqtt": serve_mqtt, "stomp": serve_stomp, "openwire": serve_openwire}


def main() -> None:
    host, port, path, protocol, *pem = sys.argv[1:]
    is_wide = host == "::"
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_wide:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((host, int(port)))
    listener.listen(16)
    context = None
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pem)
    print(listener.getsockname()[1], flush=True)
    with open(path, "ab", buffering=0) as file:
        while True:
            select.select([listener], [], [])
            file.write(b"CONNECTION\n")
            if protocol == "pending":
                select.select([], [], [])
            connection = listener.accept()[0]
            client = Client(connection)
            try:
                connection.settimeout(30)
                if context:
                    client.connection = context.wrap_socket(connection, server_side=True)
                SERVE[protocol](client)
            except (EOFError, OSError):
                connection.close()
            finally:
                file.write(b"SENT " + client.received + b"\n")


if __name__ == "__main__":
    main()
