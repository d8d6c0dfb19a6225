"""Bodies of requests to the Open API; invalid ones raise ``CDC:ErrAPIInvalidParam``."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from tidewire.changefeed.config.reading import kind_of
from tidewire.changefeed.config.replica import DEFAULT, PARAM_INVALID, ReplicaConfig, from_json
from tidewire.changefeed.service.service import Change, Wanted
from tidewire.dispatch.table_rules import INVALID
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret, is_secret, secrets_in_uri

log = logging.getLogger(__name__)

LARGEST = 4 << 20
"""The largest body, in bytes."""

_LARGEST_TSO = 2**64 - 1


def read_body(raw: bytes) -> Mapping[str, Any]:
    """The JSON object of a request; an empty body is an empty object."""
    if not raw.strip():
        return {}
    try:
        document = json.loads(raw)
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        # Without the text itself, which may contain a password.
        reason = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else "not UTF-8"
        raise ChangefeedError(PARAM_INVALID, f"the body is not JSON: {reason}") from None
    if not isinstance(document, dict):
        raise ChangefeedError(PARAM_INVALID, f"the body must be a JSON object, not {kind_of(document)}")
    return document


def wanted_of(body: Mapping[str, Any]) -> Wanted:
    """The changefeed that a request wants to create."""
    return Wanted(
        Secret(_text(body, "sink_uri")),
        _text(body, "changefeed_id"),
        _config(body) or DEFAULT,
        _tso(body, "start_ts"),
        _tso(body, "target_ts"),
    )


def change_of(body: Mapping[str, Any]) -> Change:
    """The changes that a request wants."""
    uri = _text(body, "sink_uri")
    return Change(Secret(uri) if uri else None, _config(body), _tso(body, "start_ts"), _tso(body, "target_ts"))


def overwritten_checkpoint(body: Mapping[str, Any]) -> int:
    """The timestamp that a changefeed should resume at; 0 for its checkpoint."""
    return _tso(body, "overwrite_checkpoint_ts")


def log_level_of(body: Mapping[str, Any]) -> str:
    """The wanted log level."""
    return _text(body, "log_level") or "info"


def secrets_in_body(document: Any) -> Iterator[str]:
    """The secrets in a request, which no answer may repeat."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            if isinstance(value, str) and is_secret(name):
                yield value
            yield from secrets_in_body(value)
    elif isinstance(document, list):
        for item in document:
            yield from secrets_in_body(item)
    elif isinstance(document, str) and "://" in document:
        yield from secrets_in_uri(document)


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ChangefeedError(PARAM_INVALID, f"{name} must be text, not {kind_of(value)}")
    return value


def _tso(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= _LARGEST_TSO:
        raise ChangefeedError(PARAM_INVALID, f"{name} must be a whole number of 64 bits, not {kind_of(value)}")
    return value


def _config(body: Mapping[str, Any]) -> ReplicaConfig | None:
    document = body.get("replica_config")
    if document is None:
        return None
    if not isinstance(document, Mapping):
        raise ChangefeedError(PARAM_INVALID, f"replica_config must be an object, not {kind_of(document)}")
    config, warnings = from_json(document)
    for warning in warnings:
        log.warning("%r", warning)
    _refuse_files(config)
    return config


def _refuse_files(config: ReplicaConfig) -> None:
    """Refuse ``@file`` in rules: it would let API clients read files of the server."""
    matchers = [config.filter.rules]
    matchers += [rule.matcher for rule in config.filter.event_filters]
    matchers += [rule.matcher for rule in config.sink.dispatchers]
    matchers += [rule.matcher for rule in config.sink.column_selectors]
    for rule in (line for lines in matchers for line in lines):
        if rule.strip(" \t").startswith("@"):
            raise ChangefeedError(
                INVALID, f"the rule {rule!r}: the server does not read files; give the lines of the file instead"
            )
