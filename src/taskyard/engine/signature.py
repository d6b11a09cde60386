"""Turns a handler's signature into the check its payloads must pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from taskyard.domain.errors import InvalidArguments, InvalidHandler
from taskyard.engine.context import Context

_FORBIDDEN: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.VAR_KEYWORD: "**{}",
}


class Signature:
    """Encodes arguments at enqueue and decodes them in the worker, by the same types."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self._kind = kind
        hints = _hints(kind, function)
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_context = bool(parameters) and _is_context(parameters[0], hints)
        own = parameters[1:] if self.takes_context else parameters
        for parameter in own:
            self._refuse_open_ended(parameter)
        self.parameters = {each.name: hints.get(each.name, Any) for each in own}
        self._binding = inspect.Signature(own)
        self._decoder = msgspec.json.Decoder(
            msgspec.defstruct(
                f"{kind} parameters",
                [_field(parameter, hints) for parameter in own],
                kw_only=True,
                forbid_unknown_fields=True,
            )
        )
        self._result: msgspec.json.Decoder[Any] = msgspec.json.Decoder(hints.get("return", Any))

    def _refuse_open_ended(self, parameter: inspect.Parameter) -> None:
        form = _FORBIDDEN.get(parameter.kind)
        if form is not None:
            raise InvalidHandler(
                f"task {self._kind} takes {form.format(parameter.name)}, which cannot be checked "
                "at enqueue; name its parameters"
            )

    def encode(self, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        """The payload for these arguments, proven to be what the worker can decode."""
        try:
            bound = self._binding.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(f"task {self._kind}: {error}") from None
        try:
            payload = msgspec.json.encode(bound.arguments)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArguments(
                f"task {self._kind}: an argument cannot be written as JSON: {error}"
            ) from None
        self._check(payload)
        return payload.decode()

    def encode_json(self, payload: str) -> str:
        """A payload that came as JSON text, checked."""
        self._check(payload)
        return payload

    def _check(self, payload: bytes | str) -> None:
        try:
            self._decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise InvalidArguments(f"task {self._kind}: {error}") from None

    def decode(self, payload: str) -> dict[str, Any]:
        """The arguments to call the handler with."""
        return msgspec.structs.asdict(self._decoder.decode(payload))

    def decode_result(self, result: str | None) -> Any:
        return None if result is None else self._result.decode(result)


def _hints(kind: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidHandler(
            f"task {kind}: {error} in its annotations; a handler's types must be importable "
            "where it is declared, not only under TYPE_CHECKING"
        ) from None


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    return parameter.name == "ctx" or hints.get(parameter.name) is Context


def _field(parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    kind = hints.get(parameter.name, Any)
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, kind)
    default = parameter.default
    return (parameter.name, kind, msgspec.field(default_factory=lambda: default))
