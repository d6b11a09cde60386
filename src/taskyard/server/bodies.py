"""Bodies of requests: strict JSON of a declared shape, decoded in one step."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from litestar.dto import AbstractDTO
from litestar.typing import FieldDefinition

from taskyard.server import limits
from taskyard.server.problems import Refusal, placed

if TYPE_CHECKING:
    from litestar._openapi.schema_generation import SchemaCreator
    from litestar.dto._backend import DTOBackend
    from litestar.dto.data_structures import DTOFieldDefinition
    from litestar.openapi.spec import Reference, Schema

T = TypeVar("T")

_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


class Strict(AbstractDTO[T]):
    """`dto=Strict[Body], return_dto=None`: a number is not taken for a text, nor a text for a
    number, and an unknown field is an error."""

    def decode_bytes(self, value: bytes) -> Any:
        return decode(value, self.model_type)

    def decode_builtins(self, value: dict[str, Any]) -> Any:
        raise Refusal(415, "not_json", "a body must be JSON")

    @classmethod
    def is_supported_model_type_field(cls, field_definition: FieldDefinition) -> bool:
        return field_definition.name == "data"

    @classmethod
    def create_for_field_definition(
        cls,
        field_definition: FieldDefinition,
        handler_id: str,
        backend_cls: type[DTOBackend] | None = None,
    ) -> None:
        """There is nothing to prepare."""

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: SchemaCreator
    ) -> Reference | Schema:
        return schema_creator.for_field_definition(FieldDefinition.from_annotation(cls.model_type))

    @classmethod
    def generate_field_definitions(
        cls, model_type: type[Any]
    ) -> Generator[DTOFieldDefinition, None, None]:
        yield from ()

    @classmethod
    def detect_nested_field(cls, field_definition: FieldDefinition) -> bool:
        return False


def decode(body: bytes, shape: Any) -> Any:
    decoder = _DECODERS.get(shape)
    if decoder is None:
        decoder = _DECODERS[shape] = msgspec.json.Decoder(shape)
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        text, path = placed(str(error))
        raise Refusal(422, "invalid", text, path=path or "$") from None
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refusal(400, "not_json", f"the body is not JSON: {error}") from None


def check_depth(value: object) -> None:
    """Level by level, so that what is deep cannot harm whoever looks."""
    level = [value]
    for _ in range(limits.MAX_DEPTH):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return
    raise _too_deep()


def _inside(value: object) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [one for one in inner if isinstance(one, dict | list)]


def _too_deep() -> Refusal:
    return Refusal(413, "too_deep", f"the JSON is nested more than {limits.MAX_DEPTH} deep")
