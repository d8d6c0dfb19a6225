"""The application on a port."""

from __future__ import annotations

import logging
import socket
import threading

from tidewire.errors import ChangefeedError, MissingExtra

try:
    import uvicorn
    from starlette.applications import Starlette
except ImportError as error:
    raise MissingExtra("uvicorn", "server") from error

log = logging.getLogger(__name__)

UNUSABLE = "CDC:ErrServeHTTP"
_GRACE_SECONDS = 30


def listening_socket(host: str, port: int) -> socket.socket:
    """A listening socket; raises ``CDC:ErrServeHTTP`` if the address cannot be used. Port 0 takes any free port."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ChangefeedError(UNUSABLE, f"cannot listen on {host}:{port}: {error.strerror or error}") from error


class HttpServer:
    """Serves an application from a thread, until it is stopped."""

    def __init__(self, app: Starlette, listening: socket.socket) -> None:
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=_GRACE_SECONDS
        )
        self._server = uvicorn.Server(config)
        self._listening = listening
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer what was asked, then end."""
        self._server.should_exit = True
        self._thread.join()

    def _serve(self) -> None:
        with self._listening:
            self._server.run(sockets=[self._listening])
