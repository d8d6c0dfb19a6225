"""The verbs of the Open API that are about the server itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidewire.changefeed.http.answers import Answer, json_answer
from tidewire.changefeed.http.bodies import log_level_of
from tidewire.changefeed.http.changefeeds import NOTHING, Call
from tidewire.changefeed.http.documents import capture_item, listed, processor_item, server_status
from tidewire.changefeed.service.service import INVALID_PARAM
from tidewire.errors import ChangefeedError

LOG_LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}


def health(call: Call) -> Answer:
    """``GET /health``: an answer at all is a good one."""
    return json_answer(NOTHING)


def status(call: Call) -> Answer:
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
        raise ChangefeedError(INVALID_PARAM, f"{name!r} is no log level; there are {', '.join(LOG_LEVELS)}")
    logging.getLogger("tidewire").setLevel(level)
    return json_answer(NOTHING)
