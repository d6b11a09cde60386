"""A line to a real server on which words of its answers are replaced by others of equal length.

So a server of today can tell an old version number, and everything else it says stays true.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK = 65536


class Rewriting:
    """Listens until the block ends; a word that is split between two packets is not found."""

    def __init__(self, port: int, old: bytes, new: bytes) -> None:
        assert len(old) == len(new)
        self._target = port
        self._words = (old, new)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.replaced = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        stack: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for source, sink, old in ((near, far, b""), (far, near, self._words[0])):
                    threading.Thread(
                        target=self._pass, args=(source, sink, old), daemon=True
                    ).start()

    def _pass(self, source: socket.socket, sink: socket.socket, old: bytes) -> None:
        with contextlib.suppress(OSError), source, sink:
            while data := source.recv(_CHUNK):
                if old and old in data:
                    data = data.replace(*self._words)
                    self.replaced += 1
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
