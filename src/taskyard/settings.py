"""Settings: defaults, taskyard.toml, TASKYARD_* variables and flags, each before the one before.

What a program says in its code stands above all of them: settings are for what it leaves open.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import time, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from taskyard.domain.errors import ConfigurationError, InvalidOption
from taskyard.domain.logs import KeepLogs
from taskyard.domain.retention import FOREVER, Keep, Retention
from taskyard.store.passwords import without_secrets

FILE = "taskyard.toml"
PREFIX = "TASKYARD_"
FILE_VARIABLE = "TASKYARD_CONFIG"  # names another file
TOKEN_VARIABLE = "TASKYARD_TOKEN"  # noqa: S105 - its name; no setting, so it is in no file
NOT_OURS = "TASKYARD_TEST_"  # for the tests of Taskyard itself
DEFAULT_URL = "sqlite:///yard.db"
SHORTEST_SECRET = 16  # bytes
HIDDEN = "***"

_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])", re.ASCII)
_AGE_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMG]?)B?", re.ASCII)
_SIZE_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


class Discreet:
    """A struct that keeps some of its fields to itself when it is shown."""

    __slots__ = ()
    _hidden = frozenset[str]()

    def __repr__(self) -> str:
        each = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({', '.join(each)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What rich asks for in the place of repr."""
        each: dict[str, Any] = msgspec.structs.asdict(self)  # type: ignore[arg-type]
        return [
            (name, HIDDEN if value and name in self._hidden else value)
            for name, value in each.items()
        ]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    slots: int = 100
    kinds: list[str] | None = None  # None: all
    capabilities: list[str] = []
    grace: float = 30.0  # seconds bodies may go on after SIGTERM
    lease: float = 30.0  # seconds of silence after which a worker counts as dead
    memory_limit: str | None = None  # such as 2GB: a worker that needs more is drained and ends


class ServerSettings(Discreet, msgspec.Struct, frozen=True, kw_only=True):
    _hidden = frozenset({"secret"})

    host: str = "127.0.0.1"
    port: int = 8321  # 0: any that is free
    allowed_hosts: list[str] = []  # names browsers may use for it, beside those of loopback
    folder: str = ".taskyard"  # where the secret and the list of tokens are
    secret: str | None = None  # instead of the one in the folder
    secure_cookie: bool = False  # for a server behind a proxy that does TLS
    tls_cert: str | None = None
    tls_key: str | None = None


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.TEXT
    keep: KeepLogs = KeepLogs.INFO  # least level of what bodies say that is kept with their task


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Ages such as 12h or 30d, or forever."""

    completed: str = "7d"
    failed: str = "30d"
    cancelled: str = "30d"
    audit: str = "90d"
    statistics: str = "90d"
    at: str = "02:00"
    zone: str = "UTC"
    lanes: dict[str, dict[str, str]] = {}  # [retention.lanes.NAME] completed = "1d"
    kinds: dict[str, dict[str, str]] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    url: str = DEFAULT_URL
    app: str | None = None  # what `taskyard worker` runs, unless it is told
    worker: WorkerSettings = WorkerSettings()
    server: ServerSettings = ServerSettings()
    log: LogSettings = LogSettings()
    retention: RetentionSettings = RetentionSettings()

    def __repr__(self) -> str:
        return f"Settings({_shown('url', self.url)}, …)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", without_secrets(self.url)), ("server", self.server)]


class Setting(msgspec.Struct, frozen=True):
    """One of them, and who said so."""

    name: str  # worker.slots
    value: Any
    source: str  # "default", the file, a variable or a flag

    def __repr__(self) -> str:
        return f"Setting({self.name!r}, {_shown(self.name, self.value)}, {self.source!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("name", self.name), ("value", _shown(self.name, self.value))]


SECRET = frozenset({"server.secret"})  # is never shown
_SECTIONS = ("worker", "server", "log", "retention")


class Loaded(msgspec.Struct, frozen=True):
    """All settings, and where each came from."""

    settings: Settings
    each: tuple[Setting, ...]

    @property
    def retention(self) -> Retention:
        return _retention(self.settings.retention)


def load(
    flags: Mapping[str, tuple[str, Any]] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Loaded:
    """`flags`: by setting, the name of the flag and its value. What is unknown is an error."""
    environ = os.environ if environ is None else environ
    said: dict[str, Setting] = {}
    for setting in (*_from_file(environ, folder or Path()), *_from_variables(environ)):
        said[setting.name] = setting
    for name, (flag, value) in (flags or {}).items():
        said[name] = Setting(name, _checked(name, value, flag), flag)
    each = tuple(said.get(name, Setting(name, value, "default")) for name, value in _defaults())
    return Loaded(_assembled(each), each)


def _types() -> dict[str, Any]:
    """The type of each setting by its name."""
    hints = get_type_hints(Settings)
    found = {name: kind for name, kind in hints.items() if name not in _SECTIONS}
    for section in _SECTIONS:
        for name, kind in get_type_hints(hints[section]).items():
            found[f"{section}.{name}"] = kind
    return found


def _defaults() -> Iterator[tuple[str, Any]]:
    plain = Settings()
    for name in _types():
        section, _, field = name.rpartition(".")
        yield name, getattr(getattr(plain, section) if section else plain, field)


def _assembled(each: tuple[Setting, ...]) -> Settings:
    values: dict[str, Any] = {section: {} for section in _SECTIONS}
    for setting in each:
        section, _, field = setting.name.rpartition(".")
        (values[section] if section else values)[field] = setting.value
    return msgspec.convert(values, Settings)


# --- the file ---


def _from_file(environ: Mapping[str, str], folder: Path) -> Iterator[Setting]:
    named = environ.get(FILE_VARIABLE)
    path = Path(named) if named else folder / FILE
    if not named and not path.is_file():
        return
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from None
    for name, value in _flat(tables):
        if name not in _types():
            raise ConfigurationError(f"{path}: there is no setting {name}{_like(name, _types())}")
        yield Setting(name, _checked(name, value, str(path)), str(path))


def _flat(tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if name in _SECTIONS and isinstance(value, dict):
            for field, inner in value.items():
                yield f"{name}.{field}", inner
        else:
            yield name, value


# --- the environment ---


def variable(name: str) -> str:
    """TASKYARD_WORKER_SLOTS for worker.slots."""
    return PREFIX + name.replace(".", "_").upper()


def _from_variables(environ: Mapping[str, str]) -> Iterator[Setting]:
    known = {variable(name): name for name in _types()}
    for wanted, text in sorted(environ.items()):
        if not wanted.startswith(PREFIX) or wanted.startswith(NOT_OURS):
            continue
        if wanted in (FILE_VARIABLE, TOKEN_VARIABLE):
            continue
        name = known.get(wanted)
        if name is None:
            raise ConfigurationError(f"there is no setting {wanted}{_like(wanted, known)}")
        if not text:
            continue  # as good as not set
        yield Setting(name, _checked(name, _from_text(name, text), wanted), wanted)


def _from_text(name: str, text: str) -> Any:
    """A list is written with commas, a table as JSON."""
    kind = str(_types()[name])
    if "list[" in kind:
        return [word.strip() for word in text.split(",") if word.strip()]
    if "dict[" in kind:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    return text


# --- checking ---


def _checked(name: str, value: Any, source: str) -> Any:
    try:
        made = msgspec.convert(value, _types()[name], strict=not isinstance(value, str))
        _CHECKS.get(name.rpartition(".")[2], _anything)(made)
    except (msgspec.ValidationError, InvalidOption) as error:
        if source.startswith("--"):
            raise InvalidOption(f"{source} {_shown(name, value)}: {_plainly(error)}") from None
        told = f"{source}: {name} = {_shown(name, value)}: {_plainly(error)}"
        raise ConfigurationError(told) from None
    return made


def _shown(name: str, value: Any) -> str:
    """Without secrets, also without the password in a URL."""
    if name in SECRET:
        return HIDDEN
    if name != "url":
        return repr(value)
    return repr(without_secrets(value)) if isinstance(value, str) else "…"


def _anything(_: Any) -> None:
    pass


def _age_or_all(text: str) -> None:
    _keep_for(text)


def _size_or_none(text: str | None) -> None:
    if text is not None:
        read_size(text)


def _clock(text: str) -> None:
    try:
        time.fromisoformat(text)
    except ValueError:
        raise InvalidOption("a time of day is written as 02:00") from None


def _at_least_one(number: int) -> None:
    if number < 1:
        raise InvalidOption("it must be 1 or more")


def _not_negative(number: float) -> None:
    if number < 0:
        raise InvalidOption("it must be 0 or more")


def _port(number: int) -> None:
    if not 0 <= number <= 65_535:
        raise InvalidOption("a port is from 0 to 65535")


def _long_enough(text: str | None) -> None:
    if text is not None and len(text.encode()) < SHORTEST_SECRET:
        raise InvalidOption(f"it must have at least {SHORTEST_SECRET} bytes")


def _not_empty(text: str) -> None:
    if not text:
        raise InvalidOption("it must not be empty")


_CHECKS: Mapping[str, Any] = {
    "url": _not_empty,
    "host": _not_empty,
    "port": _port,
    "folder": _not_empty,
    "secret": _long_enough,
    "slots": _at_least_one,
    "grace": _not_negative,
    "lease": _not_negative,
    "memory_limit": _size_or_none,
    "completed": _age_or_all,
    "failed": _age_or_all,
    "cancelled": _age_or_all,
    "audit": _age_or_all,
    "statistics": _age_or_all,
    "at": _clock,
}


def _plainly(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:].replace("`", "")


def _like(name: str, known: Mapping[str, Any]) -> str:
    meant = [one for one in known if one.rpartition(".")[2] == name]
    meant = meant or difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {meant[0]}?" if meant else f"; known are: {', '.join(sorted(known))}"


# --- words ---


def read_age(text: str) -> timedelta:
    """`90m`, `12h`, `1.5d`, `2w`."""
    found = _AGE.fullmatch(text)
    try:
        if found:
            return timedelta(**{_AGE_UNITS[found[2]]: float(found[1])})
    except OverflowError:
        pass
    raise InvalidOption(
        f"an age is a number with s, m, h, d or w, for example 12h or 30d, not {text!r}"
    )


def read_size(text: str) -> int:
    """Bytes: `500MB`, `2GB`, `1.5G`, or a number of bytes."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise InvalidOption(f"a size is a number with kB, MB or GB, for example 2GB, not {text!r}")
    return int(float(found[1]) * _SIZE_UNITS[found[2]])


def _keep_for(text: str) -> timedelta:
    return FOREVER if text == "forever" else read_age(text)


def _retention(said: RetentionSettings) -> Retention:
    made = Retention(
        completed=_keep_for(said.completed),
        failed=_keep_for(said.failed),
        cancelled=_keep_for(said.cancelled),
        audit=_keep_for(said.audit),
        statistics=_keep_for(said.statistics),
        at=time.fromisoformat(said.at),
        zone=said.zone,
        lanes={name: _keep("lanes", name, ages) for name, ages in said.lanes.items()},
        kinds={name: _keep("kinds", name, ages) for name, ages in said.kinds.items()},
    )
    try:
        made.check()
    except InvalidOption as error:
        raise ConfigurationError(f"retention: {error}") from None
    return made


def _keep(what: str, name: str, ages: Mapping[str, str]) -> Keep:
    try:
        return Keep(**{state: _keep_for(age) for state, age in ages.items()})
    except (InvalidOption, TypeError) as error:
        raise ConfigurationError(f"retention.{what}.{name}: {error}") from None
