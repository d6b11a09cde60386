"""Log records of a child go through the worker, so that the application's set-up applies."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from taskyard.engine.isolate.channel import Channel
from taskyard.engine.isolate.messages import Logged
from taskyard.engine.log import FIELDS

NAMES = ("", "taskyard")


def levels() -> dict[str, int]:
    """What is worth sending."""
    return {name: logging.getLogger(name).getEffectiveLevel() for name in NAMES}


def send_logs(channel: Channel, wanted: Mapping[str, int]) -> None:
    logging.getLogger().handlers[:] = [Sender(channel)]
    for name, level in wanted.items():
        logging.getLogger(name).setLevel(level)


class Sender(logging.Handler):
    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        if not self._channel.is_mine:  # a fork that the body has made
            if logging.lastResort is not None:
                logging.lastResort.handle(record)
            return
        try:
            text = self.format(record).encode("utf-8", "backslashreplace").decode()
            fields = getattr(record, FIELDS, None)
            self._channel.send(Logged(record.name, record.levelno, text, fields))
        except Exception:
            self.handleError(record)


def write(logged: Logged, pid: int) -> None:
    """In the worker: as if it had been logged there."""
    target = logging.getLogger(logged.logger)
    if not target.isEnabledFor(logged.level):
        return
    record = target.makeRecord(logged.logger, logged.level, "(isolated)", 0, logged.text, (), None)
    record.process = pid
    if logged.fields is not None:
        setattr(record, FIELDS, logged.fields)
    target.handle(record)
