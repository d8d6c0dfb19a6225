"""Every exception tidewire raises.

::

    TidewireError
    ├── DecodeError          (ValueError)    a message breaks the rules of its protocol
    │   └── SchemaUnknown                    it may be right, but the schema it needs has not come yet
    ├── EncodeError          (ValueError)    an event cannot be written in this protocol
    │   └── MessageTooLarge                  it can, but not below the size limit
    ├── OptionError          (ValueError)    an option is unknown or has a value it cannot take
    ├── UnknownProtocol      (LookupError)   no codec of that name
    ├── ClaimCheckError      (OSError)       the external part of a large message cannot be stored or fetched
    │   └── BadClaimCheck                    because what the message says of it is wrong
    ├── RegistryError        (OSError)       a schema registry does not answer, or refuses
    ├── BrokerError          (OSError)       a Kafka broker does not answer, or refuses
    ├── StorageError         (OSError)       a store of files does not answer, or refuses
    │   └── FileTooLarge                     it has the file, but that is larger than the reader allows
    ├── TopicError           (OSError)       a topic in files is not there, or not as it should be
    ├── JarError             (OSError)       the jars Spark needs, or the Java to run it, cannot be had
    ├── DdlMismatch          (ValueError)    a statement does not fit the table it is about
    ├── SyncError            (RuntimeError)  a sync cannot begin or go on
    │   ├── SyncStopped                      a user has to decide how
    │   ├── Fenced                           a newer driver has taken over
    │   ├── AlreadyRunning                   a target has a living driver already
    │   ├── StepImpossible                   a step can never be done to its tables
    │   ├── Retry                            the files that a commit was planned on have changed
    │   ├── KeyNeeded                        a table's rows cannot be told apart
    │   ├── StateError                       what it remembers cannot be read
    │   └── LoadError                        a dump, a server or a table cannot be loaded
    ├── TargetError          (LookupError)   a target does not have what was asked of it
    │   ├── ColumnError                      a column is not there, or its name is taken
    │   ├── ForeignTable                     a table in a shared catalog is another program's
    │   └── NameRefused                      a catalog cannot have a table of that name
    ├── ChangefeedError      (ValueError)    a changefeed cannot be made so, or cannot go on
    └── MissingExtra         (ImportError)   an optional package is not installed

An error carries its facts as attributes and in its text, and survives pickling: its ``args`` are what its
``__init__`` takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidewire.model import TableName


def known_names(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is not known: the known name that is most like it, or all of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"


class TidewireError(Exception):
    """The root: catch this to catch everything tidewire raises on purpose."""


class DecodeError(TidewireError, ValueError):
    """A message breaks the rules of its protocol.

    ``at`` says where: a byte offset, or a JSON path such as ``$.u.id.v``.
    ``part`` says which half of the message the place is in: ``key`` or ``value``.
    """

    def __init__(self, protocol: str, reason: str, at: int | str | None = None, part: str | None = None) -> None:
        super().__init__(protocol, reason, at, part)
        self.protocol = protocol
        self.reason = reason
        self.at = at
        self.part = part

    @property
    def place(self) -> str:
        """Where it is, as words behind the reason."""
        place = "" if self.part is None else f" in {self.part}"
        if self.at is not None:
            place += f" at {self.at}" if isinstance(self.at, str) else f" at byte {self.at}"
        return place

    def __str__(self) -> str:
        return f"{self.protocol}: {self.reason}{self.place}"


class SchemaUnknown(DecodeError):
    """A row came before the schema it needs; it can be decoded once the schema is there."""

    def __init__(self, protocol: str, table: str, version: int) -> None:
        super().__init__(protocol, f"the schema of {table} at version {version} has not come yet")
        self.args = (protocol, table, version)
        self.table = table
        self.version = version


class EncodeError(TidewireError, ValueError):
    """An event cannot be written in this protocol.

    ``code`` is the name TiCDC gives the same refusal, where it has one.
    """

    def __init__(self, protocol: str, reason: str, code: str | None = None) -> None:
        super().__init__(protocol, reason, code)
        self.protocol = protocol
        self.reason = reason
        self.code = code

    def __str__(self) -> str:
        code = "" if self.code is None else f" [{self.code}]"
        return f"{self.protocol}: {self.reason}{code}"


class MessageTooLarge(EncodeError):
    """One event is larger than ``max-message-bytes`` and nothing is configured to make it smaller."""

    def __init__(self, protocol: str, table: str, length: int, limit: int) -> None:
        super().__init__(
            protocol,
            f"a change of {table} takes {length} bytes, max-message-bytes is {limit}",
            "CDC:ErrMessageTooLarge",
        )
        self.args = (protocol, table, length, limit)
        self.table = table
        self.length = length
        self.limit = limit


class OptionError(TidewireError, ValueError):
    """An option is unknown or has a value it cannot take."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"option {self.name}: {self.reason}"


class UnknownProtocol(TidewireError, LookupError):
    """No codec of that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = tuple(known)
        super().__init__(name, known)
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"unknown protocol {self.name!r}; known are {', '.join(self.known)}"


class ClaimCheckError(TidewireError, OSError):
    """The external part of a large message cannot be stored or fetched, because its store does not answer or refuses.

    ``transient``: the store may work again later, so it is worth waiting.
    """

    def __init__(self, name: str, reason: str, transient: bool = False) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason
        self.transient = transient

    def __reduce__(self) -> tuple[type[ClaimCheckError], tuple[str, str, bool]]:
        return type(self), (self.name, self.reason, self.transient)  # OSError keeps two arguments, not three

    def __str__(self) -> str:
        return f"claim check {self.name!r}: {self.reason}"


class BadClaimCheck(ClaimCheckError):
    """What a message says of its external part is wrong: its name is not safe, or the store has no such file."""


class RegistryError(TidewireError, OSError):
    """A schema registry does not answer, or refuses.

    ``registry`` says which one, without credentials; ``status`` is the HTTP status where there was an answer, and 404
    for an unknown schema in any kind of registry. ``transient``: it may work again later, so it is worth waiting.
    """

    code = "CDC:ErrAvroSchemaAPIError"

    def __init__(self, registry: str, reason: str, status: int | None = None, transient: bool = False) -> None:
        super().__init__(registry, reason)
        self.registry = registry
        self.reason = reason
        self.status = status
        self.transient = transient

    def __reduce__(self) -> tuple[type[RegistryError], tuple[str, str, int | None, bool]]:
        return type(self), (self.registry, self.reason, self.status, self.transient)  # OSError keeps two arguments

    def __str__(self) -> str:
        status = "" if self.status is None else f" (HTTP {self.status})"
        return f"schema registry {self.registry}: {self.reason}{status} [{self.code}]"


class BrokerError(TidewireError, OSError):
    """A Kafka broker does not answer, or refuses.

    ``brokers`` are their addresses. ``transient``: it can be tried again, because the broker may come back.
    """

    def __init__(self, brokers: str, reason: str, transient: bool = True) -> None:
        super().__init__(brokers, reason)
        self.brokers = brokers
        self.reason = reason
        self.transient = transient

    def __reduce__(self) -> tuple[type[BrokerError], tuple[str, str, bool]]:
        return type(self), (self.brokers, self.reason, self.transient)  # OSError keeps two arguments, not three

    def __str__(self) -> str:
        return f"Kafka at {self.brokers}: {self.reason}"


class StorageError(TidewireError, OSError):
    """A store of files does not answer, or refuses; never: a document is not there.

    ``store`` says which one, without credentials; ``name`` is the file, empty if it is about the whole store.
    ``transient``: the store may work again later, so it is worth waiting. ``code`` is TiCDC's name for it.
    """

    code = "CDC:ErrExternalStorageAPI"

    def __init__(self, store: str, name: str, reason: str, transient: bool = False) -> None:
        super().__init__(store, reason)
        self.store = store
        self.name = name
        self.reason = reason
        self.transient = transient

    def __reduce__(self) -> tuple[type[StorageError], tuple[str, str, str, bool]]:
        return type(self), (self.store, self.name, self.reason, self.transient)  # OSError keeps two arguments only

    def __str__(self) -> str:
        name = f", {self.name!r}" if self.name else ""
        return f"storage {self.store}{name}: {self.reason}"


class FileTooLarge(StorageError):
    """A stored file is larger than its reader allows."""


class TopicError(TidewireError, OSError):
    """A topic in files is not there, or not as it should be, or messages cannot be appended to it."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(topic, reason)
        self.topic = topic
        self.reason = reason

    def __str__(self) -> str:
        return f"topic {self.topic!r}: {self.reason}"


class JarError(TidewireError, OSError):
    """The jars Spark needs, or the Java to run it, cannot be had."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"Spark jars: {self.reason}"


class DdlMismatch(TidewireError, ValueError):
    """A statement does not fit the table it is about, as far as the table is known."""

    def __init__(self, table: str, reason: str) -> None:
        super().__init__(table, reason)
        self.table = table
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.table}: {self.reason}"


class SyncError(TidewireError, RuntimeError):
    """A sync cannot begin or go on."""


class SyncStopped(SyncError):
    """A sync met something that a user has to decide about."""


class Fenced(SyncError):
    """A newer driver has taken over this sync. This process must not be started again by itself."""


class AlreadyRunning(SyncError):
    """A target has a living driver already."""

    def __init__(self, target: str, host: str, pid: int, since: str) -> None:
        super().__init__(target, host, pid, since)
        self.target = target
        self.host = host
        self.pid = pid
        self.since = since

    def __str__(self) -> str:
        return (
            f"a sync already writes to {self.target}: process {self.pid} on {self.host}, since {self.since}. "
            "Stop it first, or start with --take-over"
        )


class StepImpossible(SyncError):
    """A step can never be done to its tables, however often it is tried; other tables are not affected.

    ``step`` is the step's id, ``tables`` are the tables it touches.
    """

    def __init__(self, step: str, tables: Iterable[TableName], reason: str) -> None:
        super().__init__(step, tuple(tables), reason)
        self.step = step
        self.tables: tuple[TableName, ...] = self.args[1]
        self.reason = reason

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.tables))}: {self.reason}"


class Retry(SyncError):
    """Another program changed the files that a commit was planned on: the files must be searched again."""


class KeyNeeded(SyncError):
    """A table has no key to tell its rows apart, and its mode needs one."""

    def __init__(self, table: str, mode: str) -> None:
        super().__init__(table, mode)
        self.table = table
        self.mode = mode

    def __str__(self) -> str:
        return (
            f"{self.table} has neither a primary key nor a unique index over columns that are NOT NULL, "
            f"which mode {self.mode} needs; mode history does not"
        )


class StateError(SyncError):
    """The document of what a sync remembers cannot be read."""


class LoadError(SyncError):
    """A dump, a server or a table cannot be loaded."""


class TargetError(TidewireError, LookupError):
    """A table, column or version is not there, or its place is taken."""


class NoTable(TargetError):
    """There is no table of that name."""


class ColumnError(TargetError):
    """A column is not there, or its name is taken."""


class ForeignTable(TargetError):
    """A table in a catalog that is shared with others was not made by this sync, so it is left alone."""


class NameRefused(TargetError):
    """A catalog cannot have a table of that name, or not beside one whose name differs in case only."""


class ChangefeedError(TidewireError, ValueError):
    """A changefeed cannot be made so, or cannot go on. ``code`` is TiCDC's name for it, ``CDC:Err…``."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"[{self.code}]{self.reason}"


class MissingExtra(TidewireError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.package} is needed here; install it with: pip install 'tidewire[{self.extra}]'"
