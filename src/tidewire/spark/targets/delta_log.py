"""The log of a Delta table, looked at from outside: which commits it has, since when, and what they noted."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tidewire.errors import StorageError
from tidewire.spark.targets.base import CommitTag
from tidewire.storage import Storage

LOG: Final = "_delta_log"

_SLACK: Final = 60.0
"""A commit is written after its files are marked as removed; clocks and a slow store are within this."""

_SEQUENCES: Final = 3
"""The plans, of those that touched a table, in which a step is looked for; an unfinished plan is the last of them."""

_COMMITS: Final = 1000
"""And in no more commits than this."""


class Note(NamedTuple):
    """What a commit of a sync noted in its ``userMetadata``."""

    version: int
    sync: str
    epoch: int
    sequence: int
    step: str | None = None
    part: int | None = None


def note_of(tag: CommitTag, *, step: bool = True) -> str:
    """What a commit with a tag notes; without its step it only says who made it."""
    noted: dict[str, object] = {"sync": tag.sync, "epoch": tag.epoch, "sequence": tag.sequence}
    if step:
        noted["step"] = tag.step
        if tag.part is not None:
            noted["part"] = tag.part
    return json.dumps({"tidewire": noted}, separators=(",", ":"))


def notes(table: Storage, newest: int) -> Iterator[Note]:
    """What commits with tags noted, newest first, as far back as a step is looked for."""
    sequences: set[int] = set()
    for version in range(newest, max(-1, newest - _COMMITS), -1):
        text = _user_metadata(table, version)
        if text is None:
            return
        note = _note(version, text)
        if note is not None:
            if note.step is not None:
                sequences.add(note.sequence)
            if len(sequences) > _SEQUENCES:
                return
            yield note


def _note(version: int, text: str) -> Note | None:
    try:
        noted = json.loads(text)["tidewire"]
        return Note(version, **noted)
    except (ValueError, TypeError, LookupError):  # another program's note
        return None


def _user_metadata(table: Storage, version: int) -> str | None:
    """The note of a commit, empty if it has none; ``None`` if the log does not have the commit any more."""
    try:
        with table.input(f"{LOG}/{version:020}.json") as lines:
            for line in lines:
                info = json.loads(line).get("commitInfo")
                if info is not None:
                    return str(info.get("userMetadata") or "")
    except StorageError:
        if table.exists(f"{LOG}/{version:020}.json"):
            raise
        return None
    return ""


def commits(table: Storage) -> dict[int, float]:
    """The commits in the log of a table's folder, each with the second it was written in."""
    named = ((entry.name.rpartition("/")[2].removesuffix(".json"), entry.modified) for entry in table.list(LOG))
    return {int(name): written for name, written in named if name.isdecimal()}


def hours_kept(commits: Mapping[int, float], before: float, needed: int | None) -> int:
    """For how many hours removed files stay, so that what is younger than a second, or needed by a commit, is there.

    Delta takes whole hours. None at all are right only for a second just now, with nothing committed since.
    """
    now = time.time()
    if needed is None and max(commits.values(), default=0.0) <= before and now - before < _SLACK:
        return 0
    since = before if needed is None else min(before, commits.get(needed, 0.0) - _SLACK)
    return max(1, math.ceil((now - since) / 3600))


def is_younger(commits: Mapping[int, float], hours: int) -> bool:
    """Was a table made in the last hours? Then none of its files can have been removed before."""
    return 0 in commits and commits[0] > time.time() - hours * 3600
