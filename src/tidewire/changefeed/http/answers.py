"""Answers: a status, a document and how it is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidewire.changefeed.http.toml import toml_text
from tidewire.changefeed.service.failure import code_of, codes_in
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
"""The errors that are the asker's; an error that has one of them inside is too. All others are 500."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back to a client."""

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
    """The answer to a request that raised an error of ours; none of the secrets is in it."""
    code = code_of(error)
    reason = scrubbed(error.reason if isinstance(error, ChangefeedError) else str(error), secrets)
    asked_wrong = code in BAD_REQUESTS or not BAD_REQUESTS.isdisjoint(codes_in(reason))
    return error_answer(400 if asked_wrong else 500, code, reason)
