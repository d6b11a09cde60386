"""Every error Taskyard raises on purpose.

TaskyardError
├── InvalidTask                 what was to be enqueued is wrong; nothing was stored
│   ├── UnknownKind
│   ├── InvalidArguments
│   ├── InvalidOption
│   └── PayloadTooLarge
├── TaskRefused                 there is no room for it: a full lane, a held key; nothing was stored
├── InvalidHandler              a function that cannot be a handler
├── ConfigurationError          a URL, a setting or an application that cannot be used
├── NotFound                    no such task, lane, node
├── IllegalTransition           the task's state does not allow that
├── CannotCopy                  a yard that cannot be copied, or not to there
├── StaleAttempt                the attempt that asked is no longer the accepted one
├── StoreError
│   ├── StoreUnavailable        cannot be reached or opened
│   ├── StoreBusy               another program holds it
│   ├── StoreFull               no room on the disk
│   ├── StoreReadOnly
│   ├── StoreCorrupt            not a database, or a damaged one
│   └── SchemaMismatch          made by a newer Taskyard
└── ResultError                 waiting for a result ended without one
    ├── TaskFailed
    ├── TaskCancelled
    ├── ResultMismatch          the result is not what the handler's annotation says
    └── ResultTimeout

Raised by handlers to say what becomes of their task: Fatal, Cancelled and retry.Retry.
"""

from __future__ import annotations

from typing import ClassVar


class TaskyardError(Exception):
    """`code` is stable: HTTP status, exit code and clients' decisions hang on it."""

    code: ClassVar[str] = "error"


class InvalidTask(TaskyardError):
    code = "invalid_task"


class UnknownKind(InvalidTask):
    code = "unknown_kind"


class InvalidArguments(InvalidTask):
    code = "invalid_arguments"


class InvalidOption(InvalidTask):
    code = "invalid_option"


class PayloadTooLarge(InvalidTask):
    code = "payload_too_large"


class TaskRefused(TaskyardError):
    """Not wrong, only not now: the lane is full, or a key is held and the caller does not wait."""

    code = "refused"


class InvalidHandler(TaskyardError):
    code = "invalid_handler"


class ConfigurationError(TaskyardError):
    code = "configuration"


class NotFound(TaskyardError):
    code = "not_found"


class IllegalTransition(TaskyardError):
    code = "illegal_transition"


class CannotCopy(TaskyardError):
    code = "cannot_copy"


class StaleAttempt(TaskyardError):
    code = "stale_attempt"


class StoreError(TaskyardError):
    code = "store"


class StoreUnavailable(StoreError):
    code = "store_unavailable"


class StoreBusy(StoreError):
    code = "store_busy"


class StoreFull(StoreError):
    code = "store_full"


class StoreReadOnly(StoreError):
    code = "store_read_only"


class StoreCorrupt(StoreError):
    code = "store_corrupt"


class SchemaMismatch(StoreError):
    code = "schema_mismatch"


class ResultError(TaskyardError):
    code = "result"


class TaskFailed(ResultError):
    """`error_type` and `stack` are those of the error that ended the task's last attempt."""

    code = "task_failed"

    def __init__(
        self, message: str, *, task_id: str = "", error_type: str = "", stack: str = ""
    ) -> None:
        super().__init__(message)
        self.task_id = task_id
        self.error_type = error_type
        self.stack = stack


class TaskCancelled(ResultError):
    code = "task_cancelled"


class ResultMismatch(ResultError):
    code = "result_mismatch"


class ResultTimeout(ResultError, TimeoutError):
    code = "result_timeout"


class Fatal(Exception):
    """Raised by a handler: this task has failed and must not be tried again."""


class Cancelled(Exception):
    """Raised by a handler: this task is not to be done after all."""
