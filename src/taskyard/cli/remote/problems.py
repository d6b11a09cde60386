"""What went wrong at a server, as the error that the same thing is in this process."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from taskyard.domain.errors import (
    ConfigurationError,
    InvalidOption,
    NotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    TaskyardError,
)


class NoServer(StoreError):
    """Nobody answers there, or not as a server of ours."""

    code = "no_server"


class OtherRelease(NoServer):
    """A server of ours, but of a release that says things differently."""

    code = "other_release"


class ServerFailed(TaskyardError):
    """Something unexpected happened at the server; its log has it."""

    code = "server_failed"


class Unauthorized(ConfigurationError):
    """The token is not accepted."""

    code = "unauthorized"


class Forbidden(ConfigurationError):
    """The role of the token does not allow that."""

    code = "forbidden"


class WrongHost(ConfigurationError):
    """The server does not go by the name it was asked by."""

    code = "wrong_host"


class Problem(msgspec.Struct, frozen=True):
    """problem+json, as far as it is told."""

    status: int
    code: str
    detail: str = ""
    path: str | None = None  # what in the request is wrong, as in $.params.url
    instance: str | None = None  # its name in the log of the server

    @property
    def text(self) -> str:
        where = f" - at `{self.path}`" if self.path else ""
        name = f" ({self.instance})" if self.instance else ""
        return f"{self.detail or self.code}{where}{name}"


_BY_STATUS: dict[int, type[TaskyardError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    429: StoreBusy,
    502: NoServer,
    503: NoServer,
    504: NoServer,
    507: StoreFull,
}


def error_of(problem: Problem) -> TaskyardError:
    return _kind_of(problem)(problem.text)


def _kind_of(problem: Problem) -> type[TaskyardError]:
    """By its code if this process knows it, else by its status."""
    known = {kind.code: kind for kind in _below(TaskyardError)}
    if problem.code in known:
        return known[problem.code]
    return _BY_STATUS.get(problem.status, ServerFailed if problem.status >= 500 else InvalidOption)


def _below(kind: type[TaskyardError]) -> Iterator[type[TaskyardError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
