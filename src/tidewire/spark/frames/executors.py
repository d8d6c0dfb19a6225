"""How work gets to executors: a function that carries settings as text, and the code that it needs there."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from zipfile import ZIP_DEFLATED, ZipFile

if TYPE_CHECKING:
    import pyarrow as pa

MapBatches: TypeAlias = "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"
"""What ``mapInArrow`` takes."""


def on_executors(module: str, settings: Mapping[str, Any]) -> MapBatches:
    """A function for ``mapInArrow`` that runs ``run(settings, batches)`` of a module of ``tidewire.spark.frames``.

    The function is inside another one, so that it is pickled with its code. It can then say in one sentence that an
    executor does not have tidewire, where a reference to a module would end in a stack of pickle's. Settings are
    compressed: a password in an option is not readable in whatever shows the plan.
    """
    from tidewire import __version__ as version

    packed = zlib.compress(json.dumps(dict(settings)).encode())

    def tidewire_messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json
        import zlib
        from importlib import import_module

        try:
            found = import_module("tidewire").__version__
            task: Any = import_module("tidewire.spark.frames." + module)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            way = (
                "install tidewire[decode] there, or send the code with spark.addArtifacts(tw.archive(), pyfile=True) "
                "or spark-submit --py-files"
                if missing == "tidewire"
                else "install tidewire[decode] there"
            )
            raise RuntimeError(f"the executors do not have the Python package {missing}: {way}") from None
        if found != version:
            raise RuntimeError(f"the executors have tidewire {found}, the driver has {version}: install the same")
        return task.run(json.loads(zlib.decompress(packed)), batches)  # type: ignore[no-any-return]

    return tidewire_messages


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
