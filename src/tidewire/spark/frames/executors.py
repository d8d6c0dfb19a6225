"""Sends work to executors: a function that carries its settings as text, and the code that it needs there."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zipfile import ZIP_DEFLATED, ZipFile

from tidewire.errors import SyncError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

MapBatches: TypeAlias = "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""What ``mapInArrow`` takes."""


_TEXTS: Final[Mapping[str, str]] = {
    "missing": "the executors do not have the Python package {}: {}",
    "version": "the executors have tidewire {}, the driver has {}: install the same",
    "tidewire": "install tidewire[decode] there, or send the code with spark.addArtifacts(tw.archive(), pyfile=True) "
    "or spark-submit --py-files",
    "other": "install tidewire[decode] there",
}
"""Error texts for executors that lack a package, and the advice by the name of the package."""


def on_executors(module: str, settings: Mapping[str, Any]) -> MapBatches:
    """A function for ``mapInArrow`` that runs ``run(settings, batches)`` of a module of ``tidewire.spark.frames``.

    The function is inside another one, so that it is pickled with its code. It can then say in one sentence that an
    executor does not have tidewire, where a reference to a module would end in a stack of pickle's. Settings are
    compressed: a password in an option is not readable in whatever shows the plan.
    """
    from tidewire import __version__ as version

    packed, texts = zlib.compress(json.dumps(dict(settings)).encode()), dict(_TEXTS)

    def tidewire_messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json
        import zlib
        from importlib import import_module

        try:
            found = import_module("tidewire").__version__
            task: Any = import_module("tidewire.spark.frames." + module)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            raise RuntimeError(texts["missing"].format(missing, texts.get(missing, texts["other"]))) from None
        if found != version:
            raise RuntimeError(texts["version"].format(found, version))
        return task.run(json.loads(zlib.decompress(packed)), batches)  # type: ignore[no-any-return]

    return tidewire_messages


_SYNC: Final = ("tidewire", "pyarrow", "msgspec", "numpy", "obstore", "pyroaring", "mmh3")
"""The packages that every sync imports in its tasks."""


def check_executors(spark: SparkSession, packages: Sequence[str] = _SYNC) -> None:
    """Refuse executors that lack a package that a sync needs there; :class:`SyncError` with the way out."""
    from tidewire import __version__ as version

    def first_lack(_: object) -> tuple[str, str]:
        from importlib import import_module

        for name in packages:
            try:
                found = import_module(name)
            except ModuleNotFoundError:
                return name, ""
            if name == "tidewire" and found.__version__ != version:
                return "", str(found.__version__)
        return "", ""

    missing, other = spark.sparkContext.parallelize([0], 1).map(first_lack).collect()[0]
    if missing:
        way = _TEXTS.get(missing, _TEXTS["other"]).replace("[decode]", "[sync]")
        raise SyncError(_TEXTS["missing"].format(missing, way))
    if other:
        raise SyncError(_TEXTS["version"].format(other, version))


def archive(path: str | Path | None = None) -> str:
    """Write tidewire's own code to a zip file, as Python imports it, and return the file's path.

    Executors get it by ``spark.addArtifacts(path, pyfile=True)`` or ``spark-submit --py-files``. What tidewire needs
    beside Spark is compiled and not in it: pyarrow and msgspec, and fastavro and httpx for Avro. Without a ``path`` the
    file is in a new temporary folder.
    """
    goal = Path(tempfile.mkdtemp(prefix="tidewire-")) / "tidewire.zip" if path is None else Path(path)
    with ZipFile(goal, "w", ZIP_DEFLATED) as code:
        for name, content in _members(files("tidewire"), "tidewire"):
            code.writestr(name, content)
    return str(goal)


def _members(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for member in folder.iterdir():
        if member.is_dir():
            if member.name != "__pycache__":
                yield from _members(member, f"{name}/{member.name}")
        else:
            yield f"{name}/{member.name}", member.read_bytes()
