"""Loads APP: `module:attribute` or `path/to/file.py:attribute`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from taskyard.domain.errors import ConfigurationError
from taskyard.yard import Yard

_OURS = str(Path(__file__).resolve().parent.parent)
_LIBRARIES = (_OURS, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


def load_yard(app: str) -> Yard:
    place, _, attribute = app.rpartition(":")
    if not (place and attribute):
        raise ConfigurationError(
            f"APP must be module:attribute or path/to/file.py:attribute, not {app!r}"
        )
    module = _load(place)
    found: object = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise ConfigurationError(f"{place} has no attribute {attribute}{_yards_of(module)}")
        found = getattr(found, name)
    if not isinstance(found, Yard):
        kind = type(found).__name__
        raise ConfigurationError(f"{app} is not a Yard but of type {kind}{_yards_of(module)}")
    return found


def _yards_of(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Yard)]
    return f"; its yards are: {', '.join(names)}" if names else ""


def _load(place: str) -> ModuleType:
    _make_importable(Path.cwd())
    path = Path(place)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise ConfigurationError(f"there is no file {place}")
    try:
        # What an application prints while it is imported is not our output.
        with contextlib.redirect_stdout(sys.stderr):
            return _run_file(path) if is_file else importlib.import_module(place)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"there is no module {place} in {Path.cwd()} or installed"
            ) from None
        raise ConfigurationError(f"importing {place} failed: {_cause(error)}") from None


def _run_file(path: Path) -> ModuleType:
    """As a module named for the file; its neighbours are importable, as if it were run."""
    _make_importable(path.resolve().parent)
    name = path.stem if path.stem not in sys.modules else f"taskyard_app_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _cause(error: BaseException) -> str:
    """The error and the line of the application it came from."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", *_LIBRARIES))
    ]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
