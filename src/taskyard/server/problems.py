"""Errors as problem+json (RFC 9457), mapped once from what went wrong to a status and a code."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from taskyard.domain.errors import (
    ConfigurationError,
    IllegalTransition,
    InvalidTask,
    NotFound,
    PayloadTooLarge,
    StoreError,
    StoreFull,
    TaskRefused,
    TaskyardError,
)
from taskyard.engine.log import logger
from taskyard.engine.redact import without_logins

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"  # seconds

log = logger("server")

STATUSES: Mapping[type[BaseException], HTTPStatus] = {
    TaskyardError: HTTPStatus.INTERNAL_SERVER_ERROR,
    InvalidTask: HTTPStatus.UNPROCESSABLE_ENTITY,
    PayloadTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    TaskRefused: HTTPStatus.CONFLICT,
    NotFound: HTTPStatus.NOT_FOUND,
    IllegalTransition: HTTPStatus.CONFLICT,
    ConfigurationError: HTTPStatus.INTERNAL_SERVER_ERROR,
    StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    StoreFull: HTTPStatus.INSUFFICIENT_STORAGE,
}

CODES: Mapping[int, str] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "no_route",  # what is not there at a route that is, has a code of its own: not_found
    405: "method_not_allowed",
    413: "too_large",
    415: "not_json",
    421: "wrong_host",
    422: "invalid",
    429: "too_many",
}

_PLACE = re.compile(r" - at `(\$[^`]*)`$")


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every answer of 400 and more looks like."""

    type: str
    title: str
    status: int
    code: str
    detail: str = ""
    path: str | None = None  # what in the request is wrong, as in $.params.url
    instance: str | None = None  # of something unexpected: its name in the log


class Refusal(Exception):
    """What the API itself refuses, told as it is. No error of the engine: none of it knows HTTP."""

    def __init__(self, status: int, code: str, detail: str, *, path: str | None = None) -> None:
        super().__init__(detail)
        self.problem = problem(status, detail, code=code, path=path)


def problem(
    status: int, detail: str, *, code: str | None = None, path: str | None = None
) -> Problem:
    code = code or CODES.get(status, "error")
    return Problem(
        type=f"urn:taskyard:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=detail,
        path=path,
    )


def of_taskyard(error: TaskyardError) -> Problem:
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    text, path = placed(without_logins(str(error)))
    if path is not None and error.code == "invalid_arguments":
        path = "$.params" + path[1:]
    return problem(status, text, code=error.code, path=path)


def placed(text: str) -> tuple[str, str | None]:
    """What msgspec says, and where in the document."""
    found = _PLACE.search(text)
    return (text, None) if found is None else (text[: found.start()], found[1])


def of_unexpected(error: BaseException, method: str, path: str) -> Problem:
    """Told by a name that is in the log; what it was is nobody's business outside."""
    name = secrets.token_hex(8)
    log.error("unexpected", id=name, method=method, path=path, exc_info=error)
    said = problem(500, "something unexpected happened; the log of the server has it", code="bug")
    return msgspec.structs.replace(said, instance=f"urn:taskyard:error:{name}")


def response(said: Problem) -> Response[Problem]:
    headers = {"Retry-After": RETRY_AFTER} if said.status in (429, 503) else {}
    return Response(said, status_code=said.status, media_type=MEDIA_TYPE, headers=headers)


# --- for Litestar ---

AnyRequest = Request[Any, Any, Any]


def on_taskyard_error(request: AnyRequest, error: TaskyardError) -> Response[Problem]:
    said = of_taskyard(error)
    if said.status >= 500:
        log.error("refused by the store", path=request.url.path, error=said.detail, code=said.code)
    return response(said)


def on_refusal(_: AnyRequest, error: Refusal) -> Response[Problem]:
    return response(error.problem)


def on_http_error(request: AnyRequest, error: HTTPException) -> Response[Problem]:
    """Of the framework: no such route, a query that cannot be read, a body too large."""
    if error.status_code >= 500:
        return on_unexpected(request, error)
    if isinstance(error, ValidationException):
        each = error.extra if isinstance(error.extra, list) else []
        first = next((one for one in each if isinstance(one, dict)), {})
        if first.get("key") == "data":
            return response(problem(400, "this needs a body, in JSON", code="no_body"))
        detail = "; ".join(str(one.get("message", "")) for one in each if isinstance(one, dict))
        path = _asked_as(request, first.get("key"))
        return response(problem(400, detail or error.detail, code="invalid", path=path))
    return response(problem(error.status_code, error.detail))


def _asked_as(request: AnyRequest, name: str | None) -> str | None:
    """What whoever asks calls a parameter of the handler."""
    if name is None:
        return None
    parameter = request.route_handler.parsed_fn_signature.parameters.get(name)
    definition = parameter.kwarg_definition if parameter is not None else None
    return getattr(definition, "name", None) or name


def on_unexpected(request: AnyRequest, error: Exception) -> Response[Problem]:
    return response(of_unexpected(error, request.method, request.url.path))
