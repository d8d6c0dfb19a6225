"""Iceberg's classes in Spark's Java process, and the one of ours that makes commits, ``IcebergCommit.java``."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from tidewire.spark.targets.base import Java

_COMMIT: Final[Traversable] = files(__package__).joinpath("IcebergCommit.java")

_compiled: WeakKeyDictionary[Java, Java] = WeakKeyDictionary()
"""Our class in the Java process behind a gateway."""

_COMPILING: Final = Lock()
"""Tables commit in several threads. py4j takes two classes of one name for one, so only one thread may compile."""


class JavaNames:
    """Java's classes, and their static methods, by name.

    They are kept, because py4j asks Java about every part of a name, each time: that is most of a small commit.
    """

    def __init__(self, gateway: Java) -> None:
        self._gateway = gateway
        self._found: dict[str, Java] = {}

    def __call__(self, name: str) -> Java:
        found = self._found.get(name)
        if found is None:
            found = self._gateway.jvm
            for part in name.split("."):
                found = getattr(found, part)
            self._found[name] = found
        return found

    @property
    def commit(self) -> Java:
        """An ``IcebergCommit``. Spark's own compiler of Java compiles it once for each Java process."""
        with _COMPILING:
            found = _compiled.get(self._gateway)
            if found is None:
                found = _compiled[self._gateway] = self._compile()
        return found

    def _compile(self) -> Java:
        compiler = self("org.codehaus.janino.SimpleCompiler")()
        iceberg = self("org.apache.iceberg.util.JsonUtil.mapper")().getClass().getClassLoader()
        compiler.setParentClassLoader(iceberg)
        compiler.cook(_COMMIT.read_text("utf-8"))
        return compiler.getClassLoader().loadClass("tidewire.IcebergCommit").newInstance()
