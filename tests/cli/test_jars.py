"""``tidewire jars``, as a user types it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidewire.cli.app import app
from tidewire.spark import jars
from tidewire.spark.jars import Jar

TIDE = Jar("org.example", "tide", "1.0", hashlib.sha256(b"high").hexdigest(), "because")


@pytest.fixture(autouse=True)
def small_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "lock", lambda file: (TIDE,))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / TIDE.file).write_bytes(b"high")
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["jars", *map(str, arguments)])


def test_jars_are_copied_checked_and_shown(source: Path, tmp_path: Path) -> None:
    result = run("--dir", tmp_path / "jars", "--from", source)

    assert result.exit_code == 0, result.output
    folder, *table = result.stdout.splitlines()
    assert folder == str(tmp_path / "jars")
    assert [line.split() for line in table] == [
        ["artifact", "version", "size", "state"],
        ["tide", "1.0", "0.0", "MB", "ready"],
    ]


def test_jars_are_shown_as_json(source: Path, tmp_path: Path) -> None:
    result = run("--dir", tmp_path / "jars", "--from", source, "--output", "json")

    assert json.loads(result.stdout) == {
        "group": "org.example",
        "artifact": "tide",
        "version": "1.0",
        "sha256": TIDE.sha256,
        "why": "because",
        "set": "base",
        "path": str(tmp_path / "jars" / TIDE.file),
        "size": 4,
        "state": "ready",
    }


def test_a_check_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEWIRE_HOME", str(tmp_path))

    result = run("--check", "--output", "json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["state"] == "missing"
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_one_line_and_exit_code_1(source: Path, tmp_path: Path) -> None:
    (source / TIDE.file).write_bytes(b"low")

    result = run("--dir", tmp_path / "jars", "--from", source)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: Spark jars: tide-1.0.jar has the SHA-256 ")
    assert len(result.stderr.splitlines()) == 1


def test_options_that_contradict_one_another_are_refused(source: Path) -> None:
    result = run("--check", "--from", source)

    assert result.exit_code == 2
    assert "exclude each other" in result.stderr
