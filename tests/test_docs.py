"""Every example in the documentation runs: doctests, and the Python and shell blocks of README and docs."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidewire

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


@pytest.mark.parametrize("module", [info.name for info in pkgutil.walk_packages(tidewire.__path__, "tidewire.")])
def test_doctests_hold(module: str) -> None:
    failures, _ = doctest.testmod(importlib.import_module(module))

    assert failures == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_console_blocks_print_what_they_show(page: Path, tmp_path: Path) -> None:
    """A block is commands after ``$`` and the output they give; blocks of a page share a folder."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for block in blocks(page, "console"):
        for command, expected in re.findall(r"^\$ (.*(?:\\\n.*)*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            done = subprocess.run(
                ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.stdout + done.stderr == expected, command


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run_and_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 40
    subprocess.run([sys.executable, str(path)], check=True, capture_output=True)
