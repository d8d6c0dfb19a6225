"""Real servers for the tests: fetched once, started on a free port, stopped by their process.

They come from Maven Central through jgo, a resolver in plain Python, and are kept below ``build/servers``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from jgo.maven import MavenContext

CACHE = Path(__file__).parents[2] / "build" / "servers"
_DOWNLOAD_SECONDS = 120
_INSTALL_SECONDS = 300
_START_SECONDS = 120  # on a busy machine; alone it takes six
_STOP_SECONDS = 20
_LONG_STOP_SECONDS = 60  # for those that first write down what they have


@contextmanager
def maven() -> Iterator[MavenContext]:
    """Maven Central, for one test process at a time: jgo fails if another one fetches the same file meanwhile."""
    from jgo.maven import MavenContext

    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "maven.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield MavenContext(repo_cache=CACHE / "maven", timeout=_DOWNLOAD_SECONDS)


class Archive(NamedTuple):
    """A packed server in Maven Central, and the checksum of the very file that was tried."""

    group: str
    artifact: str
    version: str
    classifier: str
    packaging: str
    sha256: str

    def unpacked(self) -> Path:
        """The folder it is unpacked in."""
        home = CACHE / f"{self.artifact}-{self.version}"
        if home.is_dir():
            return home
        partial = CACHE / f".{home.name}.{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(self._fetched()) as packed:
            packed.extractall(partial, filter="data")
        if not home.is_dir():  # another test run may have been faster
            partial.rename(home)
        shutil.rmtree(partial, ignore_errors=True)
        return home

    def _fetched(self) -> Path:
        with maven() as context:
            component = context.project(self.group, self.artifact).at_version(self.version)
            path = Path(component.artifact(classifier=self.classifier, packaging=self.packaging).resolve())
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            path.unlink()
            raise RuntimeError(f"{path.name} has the SHA-256 {found}, {self.sha256} was expected")
        return path


class Jars(NamedTuple):
    """Java programs in Maven Central with everything they need, and one checksum of the very files that were tried.

    Each root is a group, an artifact, a version and, if it has one, a classifier.
    """

    roots: tuple[tuple[str, ...], ...]
    sha256: str

    def paths(self) -> list[Path]:
        """All jars, fetched once, in order of their names."""
        from jgo.maven import Dependency

        with maven() as context:
            roots = [
                context.project(group, artifact).at_version(version).artifact(*classifier)
                for group, artifact, version, *classifier in self.roots
            ]
            _, found = context.resolver.get_dependency_list([Dependency(root) for root in roots])
            resolved = {Path(artifact.resolve()) for artifact in [*roots, *(node.dep.artifact for node in found)]}
        paths = sorted(resolved, key=lambda path: path.name)
        whole = hashlib.sha256()
        for path in paths:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        found_sum, name = whole.hexdigest(), self.roots[0][1]
        if found_sum != self.sha256:
            raise RuntimeError(f"the jars of {name} have the SHA-256 {found_sum}, {self.sha256} was expected")
        return paths

    def classpath(self) -> str:
        """All jars, as Java takes them."""
        return ":".join(map(str, self.paths()))


APICURIO = Archive(
    "io.apicurio",
    "apicurio-registry-app",
    "3.0.9",
    "all",
    "tar.gz",
    "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43",
)


@contextmanager
def schema_registry() -> Iterator[str]:
    """An empty registry with Confluent's interface, kept in memory; its URI."""
    home = APICURIO.unpacked()
    port = free_port()
    uri = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    command = (
        java(),
        "-Xmx384m",
        "-XX:TieredStopAtLevel=1",  # half the time to start
        "-XX:+UseSerialGC",
        "-Dquarkus.http.host=127.0.0.1",
        f"-Dquarkus.http.port={port}",
        "-jar",
        str(home / f"{APICURIO.artifact}-{APICURIO.version}-runner.jar"),
    )
    with running(command, home, CACHE / f"registry-{port}.log", f"{uri}/subjects"):
        yield uri


def install_package(name: str, is_there: Callable[[], bool]) -> None:
    """Install a package of a Debian system, without starting its service, unless it is there or we may not."""
    with (Path(tempfile.gettempdir()) / f"tidewire-{name}-install.lock").open("w") as turn:
        # Test processes begin at the same time: one of them installs, and the others wait until it is done.
        fcntl.flock(turn, fcntl.LOCK_EX)
        apt = shutil.which("apt-get")
        if apt is None or os.geteuid() != 0:
            return
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for arguments in (["install", "-y", name], ["update"], ["install", "-y", name]):
            if is_there():
                return
            try:
                subprocess.run(
                    [apt, *arguments], env=environment, timeout=_INSTALL_SECONDS, capture_output=True, check=False
                )
            except subprocess.TimeoutExpired:
                return


class OwnProcess:
    """A server that tests stop, take away and start again."""

    _process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """Stop it, and wait until it is gone."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_LONG_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Take it away without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running(command: Sequence[str], folder: Path, log: Path, ready_at: str) -> Iterator[None]:
    """A server process from when it answers at a URI until the end of the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not answers(ready_at):
            if process.poll() is not None or time.monotonic() > deadline:
                state = "is not ready" if process.poll() is None else f"ended with {process.returncode}"
                raise RuntimeError(f"the server {state}; its log ends:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    log.unlink()


def answers(uri: str) -> bool:
    """Is there a server that says OK?"""
    try:
        with urllib.request.urlopen(uri, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def free_port() -> int:
    """A port nobody listens on, and that the system gives to no outgoing connection before the server is up."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def java() -> str:
    """The Java to run servers with; the test is skipped where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        pytest.skip("Java 17 or newer is needed")
    return found


def jdk() -> str:
    """A Java that runs source files; the test is skipped where there is none."""
    found = java()
    modules = subprocess.run([found, "--list-modules"], capture_output=True, text=True, check=False).stdout
    if "jdk.compiler@" not in modules:
        pytest.skip("a JDK is needed: this Java has no compiler")
    return found
