"""The Open API as a web application: paths, verbs, and who may use them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping

from tidewire.changefeed.http import changefeeds, node
from tidewire.changefeed.http.answers import INTERNAL, Answer, error_answer, refusal
from tidewire.changefeed.http.authentication import Guard
from tidewire.changefeed.http.bodies import LARGEST, read_body, secrets_in_body
from tidewire.changefeed.http.changefeeds import Call
from tidewire.changefeed.http.documents import Node
from tidewire.changefeed.service.service import INVALID_PARAM, Service
from tidewire.errors import ChangefeedError, MissingExtra, TidewireError

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtra("starlette", "server") from error

log = logging.getLogger(__name__)

Verb = Callable[[Call], Answer]
UNAUTHORIZED = "CDC:ErrUnauthorized"
OPEN_PATHS = frozenset({"/api/v2/health"})
"""What needs no credentials: it tells nothing."""

VERBS: Mapping[str, Mapping[str, Verb]] = {
    "/api/v2/changefeeds": {"POST": changefeeds.create, "GET": changefeeds.list_all},
    "/api/v2/changefeeds/{changefeed_id}": {
        "GET": changefeeds.query,
        "PUT": changefeeds.update,
        "DELETE": changefeeds.remove,
    },
    "/api/v2/changefeeds/{changefeed_id}/pause": {"POST": changefeeds.pause},
    "/api/v2/changefeeds/{changefeed_id}/resume": {"POST": changefeeds.resume},
    "/api/v2/changefeeds/{changefeed_id}/status": {"GET": changefeeds.status},
    "/api/v2/changefeeds/{changefeed_id}/synced": {"GET": changefeeds.synced},
    "/api/v2/verify_table": {"POST": changefeeds.verify_table},
    "/api/v2/get_all_tables": {"POST": changefeeds.get_all_tables},
    "/api/v2/tso": {"POST": changefeeds.tso},
    "/api/v2/health": {"GET": node.health},
    "/api/v2/status": {"GET": node.status},
    "/status": {"GET": node.status},
    "/api/v2/captures": {"GET": node.captures},
    "/api/v2/processors": {"GET": node.processors},
    "/api/v2/owner/resign": {"POST": node.resign},
    "/api/v2/log": {"POST": node.set_log_level},
}


def web_app(service: Service, node: Node, guard: Guard) -> Starlette:
    """The application over a service."""
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
    """The answer of a verb, whatever it raises."""
    try:
        return verb(call)
    except TidewireError as error:
        return refusal(error, _secrets(call))
    except Exception as error:
        # Without the error's own words: they may repeat a secret.
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
            raise ChangefeedError(INVALID_PARAM, f"the body is larger than {LARGEST} bytes")
    return bytes(raw)


async def _no_such_verb(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _response(error_answer(status, INVALID_PARAM, f"there is no {request.method} {request.url.path}"))


def _response(answer: Answer, headers: Mapping[str, str] = {}) -> Response:
    return Response(answer.body, answer.status, headers=dict(headers), media_type=answer.content_type)
