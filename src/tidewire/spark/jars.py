"""The jars Spark needs beyond PySpark's own: which they are, where they are kept, how they get there.

The lock beside this module names each with its SHA-256 and its set: ``base`` is always needed, the others where a
target's store or catalog needs them. They are fetched by Apache Ivy, which PySpark ships, from the public repository
that Ivy knows by itself, or from wherever a user's Ivy settings say, or copied from a folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from tidewire.errors import JarError, MissingExtra

_PROBLEM = re.compile(r"^\s*(?:::\s+(?P<module>\S+#\S+;\S+: .+?)|Server access error .*\((?P<network>.+?)\))\s*$")
_NOISE = re.compile(r"\s*(?:at |\.\.|$)")  # the frames of a Java stack, the dots of a download
_PROBLEMS_SHOWN = 3  # offline, every jar has the same one

# A host that does not answer must not hang the command; milliseconds.
_PATIENCE = {"connectionTimeout": "30000", "readTimeout": "60000"}


@dataclass(frozen=True, slots=True)
class Jar:
    """One entry of the lock; ``why`` gives the reason where the choice is not obvious, ``set`` what needs it."""

    group: str
    artifact: str
    version: str
    sha256: str
    why: str = ""
    set: str = "base"

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.artifact}-{self.version}.jar"


class JarState(StrEnum):
    """The state of a jar in a folder."""

    READY = "ready"
    MISSING = "missing"
    WRONG = "wrong checksum"


class Found(NamedTuple):
    """A jar as it was found in a folder; ``size`` is in bytes, 0 if the file is missing."""

    jar: Jar
    path: Path
    state: JarState
    size: int


LOCK: Final[Traversable] = files(__package__).joinpath("jars.lock.toml")
"""The lock of tidewire's own jars. Every function here can be given another one."""


SETS: Final = ("base", "aws", "postgresql")
"""The sets of jars: what every target needs, S3 and Glue, and a catalog in PostgreSQL."""

BASE: Final = SETS[:1]


def lock(file: Traversable = LOCK) -> tuple[Jar, ...]:
    """The jars of a lock: they were proved together."""
    return tuple(Jar(**entry) for entry in tomllib.loads(file.read_text("utf-8"))["jar"])


def home() -> Path:
    """Where jars are kept: below ``TIDEWIRE_HOME`` if that is set, else in the user's cache folder."""
    own = os.environ.get("TIDEWIRE_HOME")
    if own:
        return Path(own) / "jars"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidewire" / "jars"


def check(folder: Path | None = None, *, sets: Collection[str] = BASE, lock_file: Traversable = LOCK) -> list[Found]:
    """Every jar of some sets as it stands in a folder."""
    return [_found(jar, folder or home()) for jar in lock(lock_file) if jar.set in sets]


def spark_jars(
    folder: Path | None = None,
    *,
    sets: Collection[str] = BASE,
    lock_file: Traversable = LOCK,
    artifacts: Collection[str] | None = None,
) -> list[Path]:
    """The paths of all jars of some sets, each with the right checksum; of the base set maybe only some artifacts."""
    found = [
        each
        for each in check(folder, sets=sets, lock_file=lock_file)
        if artifacts is None or each.jar.set not in BASE or each.jar.artifact in artifacts
    ]
    amiss = [file for file in found if file.state is not JarState.READY]
    if amiss:
        wanted = sorted({file.jar.set for file in amiss} - {*BASE})
        named = ", ".join(f"{file.jar.file} ({file.state})" for file in amiss)
        raise JarError(f"not in {folder or home()}: {named}; run {' '.join(('tidewire jars', *wanted))}")
    return [file.path for file in found]


def complete_sets(folder: Path | None = None) -> tuple[str, ...]:
    """The base set, and the others whose jars are all there."""
    missing = {file.jar.set for file in check(folder, sets=SETS) if file.state is not JarState.READY}
    return tuple(each for each in SETS if each in BASE or each not in missing)


def fetch(
    folder: Path | None = None,
    *,
    sets: Collection[str] = BASE,
    source: Path | None = None,
    ivy_settings: Path | None = None,
    lock_file: Traversable = LOCK,
) -> list[Path]:
    """The paths of all jars of some sets, after getting those that are missing or wrong.

    They come out of the folder ``source`` if one is given, else through Ivy. A jar takes its place in one step and
    only when its checksum is right, so a fetch that fails or is interrupted, or two at once, do no harm.
    """
    folder = folder or home()
    found = check(folder, sets=sets, lock_file=lock_file)
    wanted = [file.jar for file in found if file.state is not JarState.READY]
    if wanted:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as work:
                arrived = _copy(wanted, source, Path(work)) if source else _retrieve(wanted, ivy_settings, Path(work))
                _verify(wanted, arrived)
                for jar in wanted:
                    (arrived / jar.file).replace(folder / jar.file)
        except JarError:
            raise
        except OSError as error:
            raise JarError(str(error)) from error
    return spark_jars(folder, sets=sets, lock_file=lock_file)


def java() -> str:
    """The Java to run, from ``JAVA_HOME`` or the path."""
    own = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(own) / "bin") if own else None)
    if found is None:
        place = f"JAVA_HOME, which is {own}" if own else "the path"
        raise JarError(f"there is no java in {place}; Spark needs Java 17")
    return found


def _found(jar: Jar, folder: Path) -> Found:
    path = folder / jar.file
    if not path.is_file():
        return Found(jar, path, JarState.MISSING, 0)
    state = JarState.READY if _sha256(path) == jar.sha256 else JarState.WRONG
    return Found(jar, path, state, path.stat().st_size)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(jars: Iterable[Jar], folder: Path) -> None:
    for jar in jars:
        found = _sha256(folder / jar.file)
        if found != jar.sha256:
            raise JarError(f"{jar.file} has the SHA-256 {found}, the lock says {jar.sha256}; nothing was changed")


def _copy(jars: Collection[Jar], source: Path, work: Path) -> Path:
    missing = [jar.file for jar in jars if not (source / jar.file).is_file()]
    if missing:
        raise JarError(f"not in {source}: {', '.join(missing)}")
    for jar in jars:
        shutil.copyfile(source / jar.file, work / jar.file)
    return work


def _retrieve(jars: Collection[Jar], settings: Path | None, work: Path) -> Path:
    if settings is None:
        settings = work / "settings.xml"
        _settings().write(settings)
    _module(jars).write(work / "module.xml")
    # Paths below the work folder are relative: Ivy would read a bracket in the folder's name as part of a pattern.
    command = [java(), "-jar", str(_ivy()), "-warn", "-settings", str(settings.absolute()), "-cache", "cache"]
    command += ["-ivy", "module.xml", "-confs", "default", "-retrieve", "jars/[artifact]-[revision].[ext]"]
    done = subprocess.run(
        command, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    output = done.stdout.decode(errors="replace")
    absent = [jar.file for jar in jars if not (work / "jars" / jar.file).is_file()]
    if done.returncode or absent:
        raise JarError(f"Ivy could not fetch {', '.join(absent) or 'the jars'}: {_problems(output)}")
    return work / "jars"


def _problems(output: str) -> str:
    """The errors that Ivy reports, the cause first, without the places where it looked."""
    found = [match for line in output.splitlines() if (match := _PROBLEM.match(line))]
    network = dict.fromkeys(match["network"] for match in found if match["network"])
    modules = dict.fromkeys(match["module"].replace("#", ":").replace(";", ":") for match in found if match["module"])
    other = [line.strip() for line in output.splitlines() if not _NOISE.match(line)]
    return "; ".join(([*network, *modules] or other[-1:])[:_PROBLEMS_SHOWN]) or "it said nothing"


def _settings() -> ElementTree.ElementTree[ElementTree.Element]:
    """Ivy settings that leave the repository to Ivy and read no POM: the lock is complete."""
    root = ElementTree.Element("ivysettings")
    ElementTree.SubElement(root, "settings", defaultResolver="public")
    patience = ElementTree.SubElement(root, "timeout-constraints")
    ElementTree.SubElement(patience, "timeout-constraint", _PATIENCE, name="patient")
    resolvers = ElementTree.SubElement(root, "resolvers")
    public = {"name": "public", "m2compatible": "true", "usepoms": "false", "timeoutConstraint": "patient"}
    ElementTree.SubElement(resolvers, "ibiblio", public)
    return ElementTree.ElementTree(root)


def _module(jars: Iterable[Jar]) -> ElementTree.ElementTree[ElementTree.Element]:
    """An Ivy module that depends on just these jars."""
    root = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(root, "info", organisation="tidewire", module="jars")
    ElementTree.SubElement(ElementTree.SubElement(root, "configurations"), "conf", name="default")
    dependencies = ElementTree.SubElement(root, "dependencies")
    for jar in jars:
        named = {"org": jar.group, "name": jar.artifact, "rev": jar.version}
        ElementTree.SubElement(dependencies, "dependency", named, transitive="false", conf="default->default")
    return ElementTree.ElementTree(root)


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtra("pyspark", "spark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise JarError("this PySpark has no Ivy in it; install the full package, or give a folder that holds the jars")
    return found[-1]
