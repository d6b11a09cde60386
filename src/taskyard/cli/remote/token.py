"""The token a server is shown, and where it comes from."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from taskyard.domain.errors import ConfigurationError
from taskyard.settings import TOKEN_VARIABLE


class Token(msgspec.Struct, frozen=True):
    text: str
    source: str  # for messages: where it came from

    def __repr__(self) -> str:
        return f"Token(from {self.source})"


def token_from(file: str | None) -> Token:
    if file is None:
        text, source = os.environ.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE
        if not text:
            raise ConfigurationError(
                f"a server wants a token: set {TOKEN_VARIABLE}, or name a file with --token-file"
            )
    else:
        text, source = _read(Path(file)), file
    text = text.strip()
    if not (text.isascii() and text.isprintable()) or not text or " " in text:
        raise ConfigurationError(f"{source} holds no token")
    return Token(text, source)


def _read(file: Path) -> str:
    try:
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise ConfigurationError(f"{file} can be read by others; run: chmod 600 {file}")
        return file.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} holds no token") from None
