"""Which kernel reads rows out of messages: the Python one, or the native one if it is installed.

The native kernel is a distribution of its own, ``tidewire-native``. It gives the same rows, and what it does not take
it leaves to the Python kernel, so only the speed differs.
"""

from __future__ import annotations

import os
from enum import StrEnum
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from tidewire.errors import OptionError

SETTING: Final = "TIDEWIRE_KERNEL"
"""The environment variable that chooses a kernel by its name."""

_CONTRACT: Final = 4
"""The version of the calls between tidewire and its native kernel."""


class Kernel(StrEnum):
    """A kernel by its name."""

    PYTHON = "python"
    NATIVE = "native"


def _loaded() -> ModuleType | str:
    """The native kernel, or why it cannot be used."""
    try:
        module = import_module("tidewire_native")
    except ImportError:
        return "the package tidewire-native is not installed"
    if module.CONTRACT != _CONTRACT:
        return "the package tidewire-native belongs to another version of tidewire"
    return module


_NATIVE: Final = _loaded()


def chosen(setting: str | None = None) -> Kernel:
    """The kernel of this setting, by default the one in the environment; without any the fastest that is installed.

    Raises OptionError if a kernel of that name does not exist or is not installed.
    """
    setting = os.environ.get(SETTING) if setting is None else setting
    if not setting:
        return Kernel.PYTHON if isinstance(_NATIVE, str) else Kernel.NATIVE
    if setting not in set(Kernel):
        raise OptionError(SETTING, f"{setting!r} is not a kernel; there are {' and '.join(Kernel)}")
    if setting == Kernel.NATIVE and isinstance(_NATIVE, str):
        raise OptionError(SETTING, f"{_NATIVE}; install it with `pip install ./native`, or leave the setting out")
    return Kernel(setting)


KERNEL: Final = chosen()
"""The kernel of this process."""


def description() -> str:
    """The kernel of this process, for people.

    >>> description().split()[0] in ("python", "native")
    True
    """
    if KERNEL is Kernel.NATIVE and not isinstance(_NATIVE, str):
        return f"{KERNEL} {_NATIVE.VERSION}"
    return KERNEL.value


def native() -> Any:
    """The module of the native kernel; call it only if that kernel was chosen."""
    if isinstance(_NATIVE, str):
        raise OptionError(SETTING, _NATIVE)
    return _NATIVE
