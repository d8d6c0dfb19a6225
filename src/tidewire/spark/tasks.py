"""Work in Spark's tasks, as plain jobs of pickled objects: without SQL, Java has nothing to plan or to compile."""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar
from zipimport import zipimporter

from pyspark import SparkContext, cloudpickle

Result = TypeVar("Result", covariant=True)


class TaskWork(Protocol[Result]):
    """What one Spark task does. It can be pickled, and so can its result."""

    def run(self) -> Result:
        """Do it, in the task."""
        ...


def run_in_tasks(context: SparkContext, work: Sequence[TaskWork[Result]]) -> list[Result]:
    """Run each piece of work in a Spark task, and return the results. An error that can be pickled is raised unchanged.

    Classes that executors cannot import, such as those of a notebook, travel along.
    """
    pieces = [cloudpickle.dumps(each) for each in work]  # type: ignore[no-untyped-call]
    found = context.parallelize(pieces, len(pieces)).map(_run).collect()
    results: list[Any] = [pickle.loads(each) for each in found]
    for result in results:
        if isinstance(result, _Failure):
            result.error.add_note(f"In a Spark task:\n{result.where}")
            raise result.error
    return results


class _Failure(NamedTuple):
    """What a piece of work raised, and where."""

    error: Exception
    where: str


def _run(work: bytes) -> bytes:
    """Do a piece in a task."""
    _keep_archives()
    try:
        return pickle.dumps(pickle.loads(work).run())
    except Exception as error:
        try:
            failure = pickle.dumps(_Failure(error, "".join(traceback.format_tb(error.__traceback__))))
            pickle.loads(failure)
        except Exception:
            raise error from None
        return failure


class _Archive(zipimporter):
    """An archive of modules that stays as it is."""

    def invalidate_caches(self) -> None:
        """Nothing in it has changed."""


def _keep_archives() -> None:
    """Let this worker read the directories of archives once.

    PySpark invalidates import caches before every task, and Python then reads the directory of each archive of modules
    again, PySpark's own among them. That takes longer than many a task.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if type(finder) is zipimporter:
            sys.path_importer_cache[path] = _Archive(path)
