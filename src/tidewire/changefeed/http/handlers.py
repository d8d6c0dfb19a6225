"""The verbs of the Open API: from a request's parts to an answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidewire.changefeed.config.replica import PARAM_INVALID
from tidewire.changefeed.http.bodies import change_of, log_level_of, overwritten_checkpoint, read_body, wanted_of
from tidewire.changefeed.http.documents import (
    Node,
    capture_item,
    changefeed_info,
    changefeed_item,
    changefeed_status,
    changefeed_toml,
    listed,
    processor_item,
    server_status,
    synced_status,
    tables_document,
    toml_text,
    tso_document,
)
from tidewire.changefeed.service.errors import code_of, codes_in
from tidewire.changefeed.service.lifecycle import State
from tidewire.changefeed.service.service import Service
from tidewire.changefeed.service.store import FeedKey
from tidewire.errors import ChangefeedError
from tidewire.secrets import scrubbed

JSON = "application/json; charset=utf-8"
TOML = "application/toml; charset=utf-8"
INTERNAL = "CDC:ErrInternalServerError"

BAD_REQUESTS = frozenset(
    f"CDC:{name}"
    for name in (
        "ErrAPIInvalidParam",
        "ErrSinkURIInvalid",
        "ErrStartTsBeforeGC",
        "ErrChangeFeedNotExists",
        "ErrChangeFeedAlreadyExists",
        "ErrTargetTsBeforeStartTs",
        "ErrTableIneligible",
        "ErrFilterRuleInvalid",
        "ErrChangefeedUpdateRefused",
        "ErrMySQLConnectionError",
        "ErrMySQLInvalidConfig",
        "ErrCaptureNotExist",
        "ErrSchedulerRequestFailed",
    )
)
"""Errors of the request, with status 400, also if one wraps another. All other errors have status 500."""

USUALLY_LISTED = frozenset({State.NORMAL, State.STOPPED, State.FAILED, State.WARNING})
NOTHING: Mapping[str, Any] = {}

LOG_LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a client."""

    body: bytes
    status: int = 200
    content_type: str = JSON


def json_answer(document: Any, status: int = 200) -> Answer:
    """A document as JSON."""
    return Answer(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(), status)


def toml_answer(document: Mapping[str, Any]) -> Answer:
    """A document as TOML."""
    return Answer(toml_text(document).encode(), content_type=TOML)


def error_answer(status: int, code: str, reason: str) -> Answer:
    """An error under TiCDC's code."""
    return json_answer({"error_msg": f"[{code}]{reason}", "error_code": code}, status)


def refusal(error: Exception, secrets: Iterable[str] = ()) -> Answer:
    """The answer to a request that raised one of our errors, without the secrets."""
    code = code_of(error)
    reason = scrubbed(error.reason if isinstance(error, ChangefeedError) else str(error), secrets)
    is_bad_request = code in BAD_REQUESTS or not BAD_REQUESTS.isdisjoint(codes_in(reason))
    return error_answer(400 if is_bad_request else 500, code, reason)


@dataclass(frozen=True)
class Call:
    """The parts of a request that its verb needs."""

    service: Service
    node: Node
    raw: bytes = b""
    namespace: str = "default"
    changefeed_id: str = ""
    state: str = ""
    accept: str = ""

    @property
    def key(self) -> FeedKey:
        """The key of the changefeed."""
        return FeedKey(self.namespace, self.changefeed_id)

    @cached_property
    def body(self) -> Mapping[str, Any]:
        """The body of the request."""
        return read_body(self.raw)


def create(call: Call) -> Answer:
    """``POST /changefeeds``."""
    return json_answer(changefeed_info(call.service.create(call.namespace, wanted_of(call.body)), call.node))


def list_all(call: Call) -> Answer:
    """``GET /changefeeds?state=``."""
    if call.state not in ("", "all", *State):
        raise ChangefeedError(PARAM_INVALID, f"{call.state!r} is not a state; use all, {', '.join(State)}")
    views = call.service.views(call.namespace)
    wanted = [
        view
        for view in views
        if call.state == "all" or (view.feed.state == call.state if call.state else view.feed.state in USUALLY_LISTED)
    ]
    return json_answer(listed(changefeed_item(view, call.node) for view in wanted))


def query(call: Call) -> Answer:
    """``GET /changefeeds/{id}``; as TOML if the client asks for it."""
    view = call.service.view(call.key)
    if "application/toml" in call.accept.lower():
        return toml_answer(changefeed_toml(view, call.node))
    return json_answer(changefeed_info(view, call.node))


def update(call: Call) -> Answer:
    """``PUT /changefeeds/{id}``."""
    return json_answer(changefeed_info(call.service.update(call.key, change_of(call.body)), call.node))


def pause(call: Call) -> Answer:
    """``POST /changefeeds/{id}/pause``."""
    call.service.pause(call.key)
    return json_answer(NOTHING)


def resume(call: Call) -> Answer:
    """``POST /changefeeds/{id}/resume``."""
    call.service.resume(call.key, overwritten_checkpoint(call.body))
    return json_answer(NOTHING)


def remove(call: Call) -> Answer:
    """``DELETE /changefeeds/{id}``; ``null`` if it did not exist."""
    return json_answer(NOTHING if call.service.remove(call.key) else None)


def status(call: Call) -> Answer:
    """``GET /changefeeds/{id}/status``."""
    return json_answer(changefeed_status(call.service.view(call.key)))


def synced(call: Call) -> Answer:
    """``GET /changefeeds/{id}/synced``."""
    return json_answer(synced_status(call.service.synced(call.key)))


def verify_table(call: Call) -> Answer:
    """``POST /verify_table``: the tables of a changefeed that could be created."""
    return json_answer(tables_document(call.service.verify(call.namespace, wanted_of(call.body))))


def get_all_tables(call: Call) -> Answer:
    """``POST /get_all_tables``: the tables that a configuration's filter keeps."""
    return json_answer(tables_document(call.service.tables(wanted_of(call.body).config)))


def tso(call: Call) -> Answer:
    """``POST /tso``."""
    return json_answer(tso_document(call.service.now()))


def health(call: Call) -> Answer:
    """``GET /health``: an answer means that the server is healthy."""
    return json_answer(NOTHING)


def node_status(call: Call) -> Answer:
    """``GET /status``."""
    return json_answer(server_status(call.node))


def captures(call: Call) -> Answer:
    """``GET /captures``: the servers of the cluster, which is this one."""
    return json_answer(listed([capture_item(call.node)]))


def processors(call: Call) -> Answer:
    """``GET /processors``: the changefeeds that run."""
    return json_answer(listed(processor_item(key, call.node) for key in call.service.running()))


def resign(call: Call) -> Answer:
    """``POST /owner/resign``: a single server cannot hand over, so nothing changes."""
    return json_answer(NOTHING)


def set_log_level(call: Call) -> Answer:
    """``POST /log``."""
    name = log_level_of(call.body)
    level = LOG_LEVELS.get(name.lower())
    if level is None:
        raise ChangefeedError(PARAM_INVALID, f"{name!r} is not a log level; use one of {', '.join(LOG_LEVELS)}")
    logging.getLogger("tidewire").setLevel(level)
    return json_answer(NOTHING)
