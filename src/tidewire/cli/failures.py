"""What a person reads when a command fails: one line that says what is wrong and what to do, and an exit code.

| code | meaning |
|---|---|
| 1 | something was done, but not all of it; each verb says what |
| 2 | the command was wrong, or could not go on |
| 3 | another sync already drives the target |
| 4 | a newer driver has taken over the target |
| 130, 143 | ended by Ctrl-C, by SIGTERM |
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final, NamedTuple

import click

from tidewire.errors import AlreadyRunning, Fenced, MissingExtra, TidewireError
from tidewire.sync.toml_section import Secrets

_SECRETS: Final = f"{__name__}.secrets"
_TRACE: Final = "; the trace is printed with tidewire --debug"
_PYTHON_TRACE: Final = "Traceback (most recent call last)"
_MOST_CAUSES: Final = 20
_UNREACHABLE: Final = "check the address, and that the server runs"
_FULL: Final = "make room there, then give the same command again"

_ADVICE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("ConnectException", "HttpHostConnectException", "ConnectTimeoutException", "SocketTimeoutException"),
        _UNREACHABLE,
    ),
    "UnknownHostException": "check the name of the server",
    "NotAuthorizedException": "check the credentials in the settings of the catalog",
    **dict.fromkeys(
        ("PSQLException", "RESTException", "SQLException", "SdkClientException"),
        "check the address, the credentials and the settings of the catalog",
    ),
    **dict.fromkeys(("ForbiddenException", "AccessDeniedException"), "check the rights of the user"),
    "OutOfMemoryError": "give Spark more memory, such as --spark spark.driver.memory=4g",
    **dict.fromkeys(
        ("ClassNotFoundException", "NoClassDefFoundError"), "check the settings of Spark that name classes and jars"
    ),
    **dict.fromkeys(
        ("Py4JNetworkError", "Answer", "ConnectionRefusedError"),
        "the Java process of Spark has ended: it may have had too little memory (--spark spark.driver.memory=4g)",
    ),
}
"""What to do, by the class of the root cause."""


class Failure(click.ClickException):
    """An error in one line, with the exit code of the command."""

    exit_code = 2


class HasDriver(Failure):
    """Another sync already drives the target."""

    exit_code = 3


class TakenOver(Failure):
    """A newer driver has taken over the target."""

    exit_code = 4


_FAILURES: Final[Mapping[type[Exception], type[Failure]]] = {AlreadyRunning: HasDriver, Fenced: TakenOver}


class _Cause(NamedTuple):
    kind: str
    text: str


def hide(secrets: Secrets) -> None:
    """Never print these texts in an error of the running command."""
    click.get_current_context().meta.setdefault(_SECRETS, Secrets()).texts.update(secrets.texts)


def failure(error: Exception, context: click.Context) -> Failure:
    """What to print of an error that ended a command."""
    secrets = context.meta.get(_SECRETS, Secrets())
    chosen = next((failure for kind, failure in _FAILURES.items() if isinstance(error, kind)), Failure)
    return chosen(secrets.hide(one_line(error)))


def print_trace(error: Exception, context: click.Context, file: IO[str] | None = None) -> None:
    """Print the stack of an error, without secrets."""
    secrets = context.meta.get(_SECRETS, Secrets())
    text = "".join(traceback.format_exception(error))
    click.echo(secrets.hide(text), file=file or sys.stderr, nl=False)


def missing(error: ModuleNotFoundError, extra: str) -> MissingExtra:
    """The error for a package that is not installed, and the extra that brings it."""
    return MissingExtra(str(error.name).partition(".")[0], extra)


def one_line(error: Exception) -> str:
    """What is wrong and what to do about it, in one line."""
    if isinstance(error, TidewireError):
        text = _joined(str(error))
        return f"{text}; {_FULL if _is_full(text) else _UNREACHABLE}" if getattr(error, "transient", False) else text
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("tidewire"):
        return str(missing(error, "all"))
    causes = list(_causes(error))
    root = next((cause for cause in reversed(causes) if cause.text), causes[-1])
    advice = next((_ADVICE[cause.kind] for cause in reversed(causes) if cause.kind in _ADVICE), None)
    if _is_full(root.text):
        advice = _FULL
    what = f"{root.kind}: {root.text}" if root.text else root.kind
    return f"{what}{'' if advice is None else f'; {advice}'}{_TRACE}"


def _is_full(text: str) -> bool:
    """Does an error say that a disk is full?"""
    return os.strerror(errno.ENOSPC) in text


def _causes(error: BaseException) -> Iterator[_Cause]:
    """An error and what led to it, the root cause last. Errors of Java count with their own causes."""
    found: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if found is None:
            return
        java = getattr(found, "java_exception", None) or getattr(found, "_origin", None)
        causes = [] if java is None else _java_causes(java)
        yield from causes or [_Cause(type(found).__name__, _first_line(str(found)))]
        found = found.__cause__


def _java_causes(error: Any) -> list[_Cause]:
    """A Java exception and its causes; nothing if Java does not answer any more."""
    causes: list[_Cause] = []
    try:
        while error is not None and len(causes) < _MOST_CAUSES:
            kind = str(error.getClass().getName()).rpartition(".")[2].rpartition("$")[2]
            causes.append(_Cause(kind, _first_line(str(error.getMessage() or ""))))
            error = error.getCause()
    except Exception:
        return []
    return causes


def _first_line(text: str) -> str:
    """The line of a message that says what happened: of a Python task that failed, the last line of its trace."""
    if _PYTHON_TRACE in text:
        lines = text.partition(_PYTHON_TRACE)[2].splitlines()[1:]
        text = next((line for line in lines if line and not line[0].isspace()), "")
    return next((_joined(line) for line in text.splitlines() if line.strip()), "")


def _joined(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip())
