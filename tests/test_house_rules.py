"""What keeps the house straight: import directions, the public names, what may not be in the tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tidewire
from tidewire.codec import PROTOCOLS, protocol

SOURCE = Path(tidewire.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Every module a file imports, by its full name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module}
    return found


@pytest.mark.parametrize(
    "module", ["tidewire", "tidewire.codec.open_protocol", "tidewire.codec.canal_json", "tidewire.plain"]
)
def test_the_core_imports_nothing_heavy(module: str) -> None:
    heavy = (
        *("pyspark", "pyarrow", "confluent_kafka", "fastavro", "httpx", "click", "rich", "lz4", "cramjam"),
        *("starlette", "uvicorn", "pymysql", "pymysqlreplication", "re2", "obstore"),
    )
    block = "; ".join(f"sys.modules[{name!r}] = None" for name in heavy)

    subprocess.run([sys.executable, "-c", f"import sys; {block}; import {module}"], check=True)


ALLOWED = {
    "model": {"model"},
    "errors": {"model"},
    "secrets": {"secrets"},
    "storage": {"storage", "errors", "secrets"},
    "registry": {"registry", "storage", "errors"},
    "codec": {"codec", "model", "errors", "registry", "storage"},
    "plain": {"plain", "model", "codec", "errors"},
    "arrow": {"arrow", "model", "codec", "errors"},
    "topic": {"topic", "model", "errors"},
    "kafka": {"kafka", "codec", "model", "errors", "secrets"},
    "ddl": {"ddl", "model", "errors"},
    "dispatch": {"dispatch", "ddl", "codec", "model", "errors"},
    "workload": {"workload", "dispatch", "ddl", "arrow", "codec", "plain", "model", "errors"},
    "changefeed": {
        *("changefeed", "dispatch", "ddl", "workload", "topic", "arrow", "codec", "registry", "plain"),
        *("kafka", "model", "errors", "secrets", "storage"),
    },
    "sync": {"sync", "ddl", "model", "plain", "errors", "secrets"},
    "load": {"load", "changefeed", "ddl", "arrow", "model", "storage", "errors"},
    "spark": {
        *("spark", "load", "sync", "ddl", "arrow", "topic", "kafka", "codec", "registry", "model", "plain", "storage"),
        "errors",
    },
}


def test_spark_is_imported_in_one_folder_only() -> None:
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] != "spark":
            assert not any(name.partition(".")[0] in ("pyspark", "py4j") for name in imports(path)), path


def test_kafkas_client_is_imported_in_one_folder_only() -> None:
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] != "kafka":
            assert not any(name.partition(".")[0] == "confluent_kafka" for name in imports(path)), path


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_knows_only_the_rooms_below(room: str) -> None:
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0].removesuffix(".py") != room:
            continue
        for name in imports(path):
            package, _, rest = name.partition(".")
            if package == "tidewire" and rest:
                assert rest.split(".")[0] in ALLOWED[room], (path, name)


def test_examples_use_public_names_only() -> None:
    for path in (SOURCE.parent.parent / "examples").glob("*.py"):
        inside = {name for name in imports(path) if name.startswith("tidewire")}
        assert inside <= {"tidewire", "tidewire.spark"}, path


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_codec_offers_the_same_names(name: str) -> None:
    codec = protocol(name)

    for member in ("Encoder", "Decoder", "encode", "decode", "inspect", "capabilities"):
        assert getattr(codec, member).__doc__, member


def test_the_public_names_are_there_and_documented() -> None:
    assert len(set(tidewire.__all__)) == len(tidewire.__all__)
    for name in tidewire.__all__:
        public = getattr(tidewire, name)
        assert not isinstance(public, type) or public.__doc__, name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_one_sitting_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) <= 500
    assert not text.strip() or ast.get_docstring(ast.parse(text))
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}
