"""An HTTP server for Prometheus metrics with a limited number of connections and a limited time for each.

Any account of the machine can connect to the port. A server without limits gives every idle connection a thread and a
descriptor, until the agent has none for its broker and its store.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler

from activemq_agent.agent_errors import AgentError
from activemq_agent.config_values import Endpoint

CONNECTIONS = 8
"""Largest number of connections that are served at once; further ones wait in the queue of the kernel."""
SECONDS = 5.0
"""Seconds after which a connection is closed, even if the client is still sending or reading."""
_POLL = 0.1


class MetricsServer(ThreadingHTTPServer):
    """An HTTP server from which Prometheus scrapes metrics.

    It serves a registry on http://ADDRESS/metrics, from ``start`` to ``close``. Raises AgentError if the
    endpoint cannot be listened on.
    """

    daemon_threads = True
    request_queue_size = CONNECTIONS

    def __init__(self, endpoint: Endpoint, registry: CollectorRegistry) -> None:
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._closing = False
        try:
            addresses = socket.getaddrinfo(*endpoint.socket_address, type=socket.SOCK_STREAM)
            self.address_family, *_, resolved = addresses[0]
            super().__init__((str(resolved[0]), int(resolved[1])), MetricsHandler.factory(registry))
        except OSError as error:
            raise AgentError(
                f"the agent cannot listen on {endpoint} for its metrics ({error.strerror or error}): in agent.conf, "
                "set metrics.address to an address of this host and a free port"
            ) from error
        self._thread = threading.Thread(target=self.serve_forever, args=(_POLL,), name="metrics", daemon=True)

    def start(self) -> None:
        """Start the HTTP server of the agent's metrics, in a thread that accepts connections."""
        self._thread.start()

    def close(self) -> None:
        """Close the HTTP server of the agent's metrics, and release its address."""
        self._closing = True
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Process one HTTP connection to the server of the agent's metrics, in a separate thread.

        The thread starts once fewer than ``CONNECTIONS`` are being served.
        """
        while not self._slots.acquire(timeout=_POLL):
            if self._closing:
                self.shutdown_request(request)
                return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Process the request of one HTTP connection to the server of the agent's metrics, and close the connection.

        This runs in the connection's thread. The connection is closed after ``SECONDS`` at the latest.
        """
        closer = threading.Timer(SECONDS, _shut_down_connection, (request,))
        closer.daemon = True
        try:
            closer.start()
            super().process_request_thread(request, client_address)
        finally:
            closer.cancel()
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore an error of an HTTP connection to the server of the agent's metrics, and print no traceback.

        Its client closed the connection, or it was open for ``SECONDS``.
        """


def _shut_down_connection(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
