"""A listener that plays a broker for each client: it records what it is sent, and returns each message.

python tests/hostile_listener.py HOST PORT RECORD PROTOCOL [CERTIFICATE KEY]: binds, prints the port, then serves until
it is killed. It appends what each client sends to RECORD, a line for each connection and each block of bytes. PROTOCOL:
mqtt, stomp, openwire, or pending, which accepts no connection and records that one waits. It imports nothing of the
project, so any account can run it.
"""

import select
import socket
import ssl
import sys


def read_exactly(client: socket.socket, count: int, record: list[bytes]) -> bytes:
    content = b""
    while len(content) < count:
        block = client.recv(count - len(content))
        if not block:
            raise EOFError
        content += block
    record.append(content)
    return content


def serve_mqtt(client: socket.socket, record: list[bytes]) -> None:
    while True:
        head, length, shift = read_exactly(client, 1, record)[0], 0, 0
        while True:
            digit = read_exactly(client, 1, record)[0]
            length |= (digit & 127) << shift
            shift += 7
            if not digit & 128:
                break
        body = read_exactly(client, length, record)
        if head >> 4 == 1:
            client.sendall(b"\x20\2\0\0")
        elif head >> 4 == 8:
            client.sendall(b"\x90\3" + body[:2] + b"\1")
        elif head >> 4 == 3:
            client.sendall(bytes([0x30, len(body)]) + body)


def serve_stomp(client: socket.socket, record: list[bytes]) -> None:
    frames = b""
    while True:
        block = client.recv(4096)
        if not block:
            raise EOFError
        record.append(block)
        frames += block
        while b"\0" in frames:
            frame, _, frames = frames.partition(b"\0")
            if frame.lstrip().startswith(b"CONNECT"):
                client.sendall(b"CONNECTED\n\n\0")
            elif frame.lstrip().startswith(b"SUBSCRIBE"):
                client.sendall(b"RECEIPT\nreceipt-id:s\n\n\0")
            elif frame.lstrip().startswith(b"SEND"):
                client.sendall(b"MESSAGE\n\n" + frame.partition(b"\n\n")[2] + b"\0")


def serve_openwire(client: socket.socket, record: list[bytes]) -> None:
    client.sendall(b"\0\0\1\x3a\x01ActiveMQ" + bytes(305))
    while True:
        read_exactly(client, 1, record)


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
            client = listener.accept()[0]
            record: list[bytes] = []
            try:
                client.settimeout(30)
                secured = context.wrap_socket(client, server_side=True) if context else client
                SERVE[protocol](secured, record)
            except (EOFError, OSError):
                client.close()
            finally:
                file.write(b"SENT " + b"".join(record) + b"\n")


if __name__ == "__main__":
    main()
