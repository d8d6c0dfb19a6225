"""The changefeed verbs of the Open API: from a request's parts to an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidewire.changefeed.http.answers import Answer, json_answer, toml_answer
from tidewire.changefeed.http.bodies import change_of, overwritten_checkpoint, read_body, wanted_of
from tidewire.changefeed.http.documents import (
    Node,
    changefeed_info,
    changefeed_item,
    changefeed_status,
    changefeed_toml,
    listed,
    synced_status,
    tables_document,
    tso_document,
)
from tidewire.changefeed.service.feed import FeedKey
from tidewire.changefeed.service.lifecycle import State
from tidewire.changefeed.service.service import INVALID_PARAM, Service
from tidewire.errors import ChangefeedError

USUALLY_LISTED = frozenset({State.NORMAL, State.STOPPED, State.FAILED, State.WARNING})
NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Call:
    """A request, as far as its verb cares."""

    service: Service
    node: Node
    raw: bytes = b""
    namespace: str = "default"
    changefeed_id: str = ""
    state: str = ""
    accept: str = ""

    @property
    def key(self) -> FeedKey:
        """The changefeed that is meant."""
        return FeedKey(self.namespace, self.changefeed_id)

    @cached_property
    def body(self) -> Mapping[str, Any]:
        """What was sent along."""
        return read_body(self.raw)


def create(call: Call) -> Answer:
    """``POST /changefeeds``."""
    return json_answer(changefeed_info(call.service.create(call.namespace, wanted_of(call.body)), call.node))


def list_all(call: Call) -> Answer:
    """``GET /changefeeds?state=``."""
    if call.state not in ("", "all", *State):
        raise ChangefeedError(INVALID_PARAM, f"{call.state!r} is no state; there are all, {', '.join(State)}")
    views = call.service.views(call.namespace)
    wanted = [
        view
        for view in views
        if call.state == "all" or (view.feed.state == call.state if call.state else view.feed.state in USUALLY_LISTED)
    ]
    return json_answer(listed(changefeed_item(view, call.node) for view in wanted))


def query(call: Call) -> Answer:
    """``GET /changefeeds/{id}``; TOML for those who ask for it."""
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
    """``DELETE /changefeeds/{id}``; ``null`` where there was none."""
    return json_answer(NOTHING if call.service.remove(call.key) else None)


def status(call: Call) -> Answer:
    """``GET /changefeeds/{id}/status``."""
    return json_answer(changefeed_status(call.service.view(call.key)))


def synced(call: Call) -> Answer:
    """``GET /changefeeds/{id}/synced``."""
    return json_answer(synced_status(call.service.synced(call.key)))


def verify_table(call: Call) -> Answer:
    """``POST /verify_table``: the tables of a changefeed that could be made."""
    return json_answer(tables_document(call.service.verify(call.namespace, wanted_of(call.body))))


def get_all_tables(call: Call) -> Answer:
    """``POST /get_all_tables``: the tables that a configuration's filter keeps."""
    return json_answer(tables_document(call.service.tables(wanted_of(call.body).config)))


def tso(call: Call) -> Answer:
    """``POST /tso``."""
    return json_answer(tso_document(call.service.now()))
