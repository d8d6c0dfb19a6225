"""The public names of the library are what they are called, however modules were imported before."""

from __future__ import annotations

import importlib
import pkgutil

import tidewire.spark as tw


def test_no_public_name_is_hidden_by_a_module_of_that_name() -> None:
    modules = {info.name for info in pkgutil.iter_modules(tw.__path__)}

    assert not modules & set(tw.__all__)
    for name in tw.__all__:
        found = getattr(tw, name)
        assert callable(found), name
        assert found.__doc__, name
        importlib.import_module(found.__module__)
        assert getattr(tw, name) is found
