"""Import strings: `package.module:Name` or `path/to/file.py:Name`, for a user's own code."""

import hashlib
import importlib
import importlib.util
import os
import sys
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from metis.core import in_memory
from metis.errors import MetisError, located

FORMS = "package.module:Name or path/to/file.py:Name"


def is_import_string(name: str) -> bool:
    """True for an import string, false for a registered name."""
    return ":" in name


def import_object(key: str, name: str) -> Any:
    """Import the class or function that the setting `key` names."""
    place, _, attribute = name.partition(":")
    if not place or not attribute:
        raise MetisError(f"{key} = {name!r}: write {FORMS}")
    if in_memory.is_in_memory(name):
        return in_memory.recall(key, name)
    module = _from_file(key, name, place) if place.endswith(".py") else _module(key, name, place)
    try:
        return reduce(getattr, attribute.split("."), module)
    except AttributeError:
        hint = f"; if it was a notebook's, put it into a file: {FORMS}" * (place == "__main__")
        raise MetisError(f"{key} = {name!r}: {place!r} has no {attribute!r}{hint}") from None


def import_string_of(key: str, given: Any) -> str:
    """The import string of a class or function, valid in later processes too."""
    module, name = given.__module__, getattr(given, "__qualname__", "<instance>")
    if module == "__main__" and (script := getattr(sys.modules[module], "__file__", None)):
        module = os.path.relpath(script)
    if "<" in name:
        raise MetisError(
            f"{key} = {given!r}: a run imports it again by name; define it at the top level of a "
            "module"
        )
    return f"{module}:{name}"


def source_digest(name: str) -> str:
    """The SHA-256 (16 hex digits) of the file that defines a loaded name; empty without a file."""
    place = name.partition(":")[0]
    file = place if place.endswith(".py") else getattr(sys.modules.get(place), "__file__", None)
    content = Path(file).expanduser().read_bytes() if file else None
    return "" if content is None else hashlib.sha256(content).hexdigest()[:16]


def _module(key: str, name: str, place: str) -> ModuleType:
    """Import an installed module, or one in the current folder."""
    _look_in(Path.cwd())
    try:
        return importlib.import_module(place)
    except (Exception, SystemExit) as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent and f"{place}.".startswith(f"{absent}."):
            raise MetisError(
                f"{key} = {name!r}: there is no module {absent!r}; run from the folder it is in, "
                "set PYTHONPATH, install it, or name the file: path/to/file.py:Name"
            ) from None
        raise _broken(key, name, place, error) from error


def _from_file(key: str, name: str, place: str) -> ModuleType:
    """Import a file as a module named by its path; imported again only when it has changed.

    It may import files beside it.
    """
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise MetisError(
            f"{key} = {name!r}: there is no file {place!r}; paths start at the folder that the "
            "command runs in"
        )
    main = sys.modules["__main__"]
    if (script := getattr(main, "__file__", None)) and Path(script).resolve() == path:
        return main
    about = path.stat()
    version = (about.st_mtime_ns, about.st_size)
    loaded = sys.modules.get(str(path))
    if loaded is not None and loaded.__spec__ and loaded.__spec__.loader_state == version:
        return loaded
    _look_in(path.parent)
    spec = importlib.util.spec_from_file_location(str(path), path)
    assert spec is not None and spec.loader is not None
    spec.loader_state = version
    module = sys.modules[str(path)] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[str(path)]
        raise _broken(key, name, place, error) from error
    return module


def _look_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _broken(key: str, name: str, place: str, error: BaseException) -> MetisError:
    return MetisError(f"{key} = {name!r}: importing {place!r} raised {located(error)}")
