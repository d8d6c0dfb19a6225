"""Files in the work directory that no run asks for any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tidewire.spark.states import newest_state
from tidewire.spark.work import Work

_BY_BATCH: Final = ("staged", "parked", "rejects")


def leftovers(work: Work) -> list[str]:
    """What runs that were cut short left behind.

    The files of the state's last batch and of later ones are left alone: a sync may be at work on them.
    """
    state = newest_state(work)
    if state is None:
        return []
    needed = {each.file.path for each in state.pending} | {each.path for each in state.parked} | _planned(work)
    files = [
        path
        for folder in _BY_BATCH
        for path in work.files(folder)
        if path not in needed and _number(work, folder, path) < state.batch
    ]
    steps = [path for path in work.files("steps") if _number(work, "steps", path) <= state.sequence]
    done = [name for name in work.names("plans") if int(name.partition(".")[0]) <= state.sequence]
    return [*files, *steps, *(work.path("plans", name) for name in done)]


def _planned(work: Work) -> set[str]:
    """The files that plans name."""
    documents = (work.read(f"plans/{name}") for name in work.names("plans"))
    return {path for document in documents if document is not None for path in _files(document["manifest"])}


def _files(manifest: Mapping[str, Any]) -> Iterator[str]:
    yield from (file[0] for file in manifest["files"])
    yield from (each[-1] for each in manifest["parked"])
    yield from manifest["reject_files"]


def _number(work: Work, folder: str, path: str) -> int:
    """The batch, or the plan, that a file belongs to."""
    return int(path.removeprefix(f"{work.path(folder)}/").partition("/")[0])
