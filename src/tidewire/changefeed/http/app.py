"""The Open API as a web application: paths, verbs, who may use them, and the application on a port."""

from __future__ import annotations

import logging
import socket
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping

from tidewire.changefeed.config.replica import PARAM_INVALID
from tidewire.changefeed.http import handlers
from tidewire.changefeed.http.authentication import Guard
from tidewire.changefeed.http.bodies import LARGEST, read_body, secrets_in_body
from tidewire.changefeed.http.documents import Node
from tidewire.changefeed.http.handlers import INTERNAL, Answer, Call, error_answer, refusal
from tidewire.changefeed.service.service import Service
from tidewire.errors import ChangefeedError, MissingExtra, TidewireError

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtra((error.name or "starlette").partition(".")[0], "server") from error

log = logging.getLogger(__name__)

Verb = Callable[[Call], Answer]
UNAUTHORIZED = "CDC:ErrUnauthorized"
OPEN_PATHS = frozenset({"/api/v2/health"})
"""Paths without authentication; their answers contain no information."""

VERBS: Mapping[str, Mapping[str, Verb]] = {
    "/api/v2/changefeeds": {"POST": handlers.create, "GET": handlers.list_all},
    "/api/v2/changefeeds/{changefeed_id}": {
        "GET": handlers.query,
        "PUT": handlers.update,
        "DELETE": handlers.remove,
    },
    "/api/v2/changefeeds/{changefeed_id}/pause": {"POST": handlers.pause},
    "/api/v2/changefeeds/{changefeed_id}/resume": {"POST": handlers.resume},
    "/api/v2/changefeeds/{changefeed_id}/status": {"GET": handlers.status},
    "/api/v2/changefeeds/{changefeed_id}/synced": {"GET": handlers.synced},
    "/api/v2/verify_table": {"POST": handlers.verify_table},
    "/api/v2/get_all_tables": {"POST": handlers.get_all_tables},
    "/api/v2/tso": {"POST": handlers.tso},
    "/api/v2/health": {"GET": handlers.health},
    "/api/v2/status": {"GET": handlers.node_status},
    "/status": {"GET": handlers.node_status},
    "/api/v2/captures": {"GET": handlers.captures},
    "/api/v2/processors": {"GET": handlers.processors},
    "/api/v2/owner/resign": {"POST": handlers.resign},
    "/api/v2/log": {"POST": handlers.set_log_level},
}

UNUSABLE = "CDC:ErrServeHTTP"
_GRACE_SECONDS = 30


def web_app(service: Service, node: Node, guard: Guard) -> Starlette:
    """The web application of a service."""
    routes = [
        Route(path, _endpoint(verb, service, node, guard), methods=[method])
        for path, verbs in VERBS.items()
        for method, verb in verbs.items()
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _no_such_verb})


def _endpoint(verb: Verb, service: Service, node: Node, guard: Guard) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        refused = None if request.url.path in OPEN_PATHS else guard.refuses(request.headers)
        if refused is not None:
            answer = error_answer(401, UNAUTHORIZED, refused)
            return _response(answer, {"WWW-Authenticate": guard.credentials.challenge} if guard.credentials else {})
        try:
            raw = await _body(request)
        except ChangefeedError as error:
            return _response(refusal(error))
        query = request.query_params
        call = Call(
            service,
            node,
            raw,
            query.get("namespace") or query.get("keyspace") or "default",
            request.path_params.get("changefeed_id", ""),
            query.get("state", ""),
            request.headers.get("accept", ""),
        )
        return _response(await run_in_threadpool(answered, verb, call))

    return endpoint


def answered(verb: Verb, call: Call) -> Answer:
    """The answer of a verb, also if it raises an error."""
    try:
        return verb(call)
    except TidewireError as error:
        return refusal(error, _secrets(call))
    except Exception as error:
        # Without the error's text, which may contain a secret.
        trace = "".join(traceback.format_tb(error.__traceback__))
        log.error("%s in %s:\n%s", type(error).__name__, verb.__qualname__, trace)
        return error_answer(500, INTERNAL, f"an unexpected {type(error).__name__}; the server's log says where")


def _secrets(call: Call) -> frozenset[str]:
    try:
        return call.service.secrets.union(secrets_in_body(read_body(call.raw)))
    except ChangefeedError:
        return call.service.secrets


async def _body(request: Request) -> bytes:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > LARGEST:
            raise ChangefeedError(PARAM_INVALID, f"the body is larger than {LARGEST} bytes")
    return bytes(raw)


async def _no_such_verb(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _response(error_answer(status, PARAM_INVALID, f"there is no {request.method} {request.url.path}"))


def _response(answer: Answer, headers: Mapping[str, str] = {}) -> Response:
    return Response(answer.body, answer.status, headers=dict(headers), media_type=answer.content_type)


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
        """Answer the current requests, then end."""
        self._server.should_exit = True
        self._thread.join()

    def _serve(self) -> None:
        with self._listening:
            self._server.run(sockets=[self._listening])
