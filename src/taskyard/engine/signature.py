"""Turns a handler's signature into the check its payloads must pass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from taskyard.domain.errors import InvalidArguments, InvalidHandler
from taskyard.engine.context import Context

_FORBIDDEN: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "takes *{}, which cannot be checked at enqueue",
    inspect.Parameter.VAR_KEYWORD: "takes **{}, which cannot be checked at enqueue",
    inspect.Parameter.POSITIONAL_ONLY: "takes {} by position only, but arguments travel by name",
}


_encode = msgspec.json.Encoder().encode


class Signature:
    """Encodes arguments at enqueue and decodes them in the worker, by the same types."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        self._kind = kind
        hints = _hints(kind, function)
        parameters = list(inspect.signature(function).parameters.values())
        self.takes_context = bool(parameters) and _leads(parameters[0], hints)
        own = parameters[1:] if self.takes_context else parameters
        for parameter in own:
            self._refuse_unusable(parameter, hints)
        self.parameters = {each.name: hints.get(each.name, Any) for each in own}
        self._binding = inspect.Signature(own)
        by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._by_place = [each.name for each in own if each.kind is by_place]
        self._all_by_place = len(own) if len(self._by_place) == len(own) else -1
        self._required = {each.name for each in own if each.default is each.empty}
        self._decode = self._decoder_of([_field(parameter, hints) for parameter in own]).decode
        self._arguments = msgspec.defstruct("arguments", self._by_place, gc=False)
        self._result = _result_decoder(hints.get("return", Any))

    def _refuse_unusable(self, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
        why = _FORBIDDEN.get(parameter.kind)
        if why is not None:
            raise InvalidHandler(
                f"task {self._kind} {why.format(parameter.name)}; name its parameters"
            )
        if parameter.name.startswith("__"):
            raise InvalidHandler(
                f"task {self._kind}: {parameter.name} cannot be kept; "
                "the name of a parameter may not begin with __"
            )
        if _is_context(parameter, hints):
            raise InvalidHandler(
                f"task {self._kind}: {parameter.name}, its context, must be the first parameter"
            )

    def _decoder_of(self, fields: list[Any]) -> msgspec.json.Decoder[Any]:
        name = f"{self._kind} parameters"
        try:
            checked = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
            return msgspec.json.Decoder(checked)
        except TypeError as error:
            raise InvalidHandler(f"task {self._kind}: {error}") from None

    def encode(self, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        """The payload for these arguments, proven to be what the worker can decode."""
        arguments: object
        if len(args) == self._all_by_place and not kwargs:
            arguments = self._arguments(*args)  # a dict would take longer
        else:
            arguments = self._bound(args, kwargs)
        try:
            payload = _encode(arguments)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArguments(
                f"task {self._kind}: an argument cannot be written as JSON: {error}"
            ) from None
        try:
            self._decode(payload)
        except msgspec.MsgspecError as error:
            raise self._refused(error) from None
        return payload.decode()

    def _refused(self, error: msgspec.MsgspecError) -> InvalidArguments:
        return InvalidArguments(f"task {self._kind}: {error}")

    def _bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """By name, in the order of the parameters."""
        given = {**kwargs}
        given.update(zip(self._by_place, args, strict=False))
        bound = {name: given[name] for name in self.parameters if name in given}
        # The same as `bind` below in a fifth of its time; whatever is wrong is left to that.
        is_complete = len(bound) == len(self.parameters) or bound.keys() >= self._required
        if is_complete and len(bound) == len(args) + len(kwargs):
            return bound
        try:
            return self._binding.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidArguments(f"task {self._kind}: {error}") from None

    def encode_json(self, payload: str) -> str:
        """A payload that came as JSON text, checked."""
        try:
            self._decode(payload)
        except msgspec.MsgspecError as error:
            raise self._refused(error) from None
        return payload

    def decode(self, payload: str) -> dict[str, Any]:
        """The arguments to call the handler with."""
        return msgspec.structs.asdict(self._decode(payload))

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


def _leads(first: inspect.Parameter, hints: dict[str, Any]) -> bool:
    """Whether the context is to be handed over, as the first argument."""
    return _is_context(first, hints) and first.kind is not inspect.Parameter.KEYWORD_ONLY


def _result_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A result of a type that JSON cannot tell apart comes as plain data."""
    try:
        return msgspec.json.Decoder(kind)
    except TypeError:
        return msgspec.json.Decoder()


def _field(parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    kind = hints.get(parameter.name, Any)
    if parameter.default is inspect.Parameter.empty:
        return (parameter.name, kind)
    default = parameter.default
    return (parameter.name, kind, msgspec.field(default_factory=lambda: default))
