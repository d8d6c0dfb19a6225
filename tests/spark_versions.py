"""Run the tests of the DataFrame transforms on every Spark they work on: ``make spark-matrix``.

Versions of pyspark are installed side by side below a folder, without their dependencies: those of the environment
serve them all. Spark Connect is the installed version's, with its server in the same machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from plain_spark import KIND

ROOT = Path(__file__).parent.parent
TESTS = ("tests/spark/test_frames.py",)

VERSIONS = {"3.5": "3.5.7", "4.0": "4.0.1", "4.2": "4.2.0", "4.3": "4.3.0"}
"""The release that is tried of each version; the environment has the one of 4.1."""


OLDEST = ("pyarrow==15.0.2", "numpy==1.26.4")
"""The oldest pyarrow of the extra ``decode``, with the numpy that it was built for; tried with the Spark of 4.1."""


def installed(folder: Path, *packages: str) -> Path:
    """The folder of some packages, which are installed there if they are not yet."""
    name, _, release = packages[0].partition("==")
    goal = folder / f"{name}-{release}"
    if not (goal / name).exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", str(goal), *packages], check=True)
    return goal


def environment(kind: str, folder: Path | None = None) -> Mapping[str, str]:
    """The environment of a test run: which Spark, and where it is."""
    variables = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_REMOTE")}
    variables[KIND] = kind
    if folder is not None:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), variables.get("PYTHONPATH")]))
    return variables


def run(variables: Mapping[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """The tests in a process of their own. Older Sparks warn of much that they cannot change any more."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-W", "default", "--durations=0", "--no-header"]
    return subprocess.run(
        [*command, *options, *TESTS], cwd=ROOT, env=dict(variables), capture_output=True, text=True, check=False
    )


def main(folder: Path) -> int:
    """Run the tests on all versions and print a line for each; the number of versions on which they fail."""
    failed = 0
    packages = {name: (f"pyspark=={release}",) for name, release in VERSIONS.items()} | {"pyarrow": OLDEST}
    for name in ("3.5", "4.0", "4.1", "4.2", "4.3", "Connect", "pyarrow"):
        where = installed(folder, *packages[name]) if name in packages else None
        began = time.monotonic()
        done = run(environment("connect" if name == "Connect" else "classic", where))
        last = done.stdout.strip().splitlines()[-1:] or ["no output"]
        print(f"{name:8} {last[0].strip('= ')} ({time.monotonic() - began:.0f} s)", flush=True)
        if done.returncode:
            failed += 1
            print(done.stdout, done.stderr, sep="\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))  # tests start programs in other folders
