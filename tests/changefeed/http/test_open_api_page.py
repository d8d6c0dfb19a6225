"""The reference page of the Open API says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from tidewire.changefeed.http.app import VERBS
from tidewire.changefeed.http.handlers import BAD_REQUESTS
from tidewire.changefeed.service.errors import UNRETRYABLE
from tidewire.changefeed.service.lifecycle import State

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "open-api.md").read_text()


def names(text: str) -> set[str]:
    return {f"CDC:{name}" for name in re.findall(r"`(Err\w+)`", text)}


def test_every_path_is_there() -> None:
    told = {(method, path.partition("?")[0]) for method, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^`]*)`", PAGE)}

    assert told == {
        (method, path.removeprefix("/api/v2").replace("{changefeed_id}", "{id}"))
        for path, verbs in VERBS.items()
        for method in verbs
    }


def test_the_codes_are_those_of_the_code() -> None:
    (bad_requests,) = re.findall(r"^\| 400 \|(.*)$", PAGE, re.MULTILINE)
    unretryable = PAGE.partition("These errors do not pass:")[2]

    assert names(bad_requests) == BAD_REQUESTS
    assert names(unretryable) == UNRETRYABLE


def test_every_state_is_there() -> None:
    how_to = (Path(__file__).parents[3] / "docs" / "how-to" / "changefeed-server.md").read_text()
    shown = set(State) - {State.REMOVED}

    assert set(re.findall(r"^\| `(\w+)` \|", how_to.partition("## States")[2], re.MULTILINE)) == shown
