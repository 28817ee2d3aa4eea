"""Taking one guard away from the product, in memory, for as long as a block runs.

The guard's text is replaced in the source of its module, which is compiled anew; the function that runs keeps its
identity and gets the code of the compiled one. So whoever imported it, in whichever way, meets the mutant.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard of the product: what it keeps from happening, where it stands, and who notices that it is gone.

    `where` is `module:qualified.name` of a function, `text` a part of its source that is there once, `instead` what
    is left of it. `killed_by` is the line of a plan (`scenario/kind/points`; without points the undisturbed run) or,
    for what no simulation can reach, the id of a test (`tests/unit/…::test_…`).
    """

    name: str
    where: str
    text: str
    instead: str
    killed_by: str


@contextmanager
def taken_away(guard: Guard) -> Iterator[None]:
    """The product without the guard, while the block runs. Raises ValueError when the guard is not where it was."""
    function, cached = _function(guard.where)
    code = function.__code__
    function.__code__ = _mutant(guard, code)
    _forget(cached)
    try:
        yield
    finally:
        function.__code__ = code
        _forget(cached)


def _function(where: str) -> tuple[FunctionType, Any]:
    """The function that runs, and what may remember its results."""
    module, _, path = where.partition(":")
    *owners, last = path.split(".")
    found: Any = inspect.getattr_static(reduce(getattr, owners, import_module(module)), last)
    for attribute in ("__func__", "fget", "func"):
        found = getattr(found, attribute, found)
    function = inspect.unwrap(found)
    if not isinstance(function, FunctionType):
        raise ValueError(f"{where} is no function")
    return function, found


def _forget(cached: Any) -> None:
    if hasattr(cached, "cache_clear"):
        cached.cache_clear()


def _mutant(guard: Guard, code: CodeType) -> CodeType:
    module = import_module(guard.where.partition(":")[0])
    lines = inspect.getsource(module).splitlines(keepends=True)
    mine = inspect.getblock(lines[code.co_firstlineno - 1 :])
    first, last = code.co_firstlineno - 1, code.co_firstlineno - 1 + len(mine)
    source = "".join(mine)
    if source.count(guard.text) != 1:
        raise ValueError(f"{guard.name}: its text is {source.count(guard.text)} times in {guard.where}, not once")
    changed = "".join([*lines[:first], source.replace(guard.text, guard.instead), *lines[last:]])
    # The flags of this file's own `from __future__ import annotations` are not to be added to the module's.
    whole = compile(changed, code.co_filename, "exec", dont_inherit=True)
    return next(each for each in _nested(whole) if each.co_qualname == code.co_qualname)


def _nested(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _nested(each)
