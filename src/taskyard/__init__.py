"""Taskyard: a task runs when its time has come and its lane, its keys and a node all have room."""

from taskyard.domain.classify import Advice
from taskyard.domain.errors import (
    Cancelled,
    Fatal,
    IllegalTransition,
    InvalidTask,
    NotFound,
    ResultTimeout,
    StoreError,
    TaskCancelled,
    TaskFailed,
    TaskRefused,
    TaskyardError,
)
from taskyard.domain.logs import LogLine
from taskyard.domain.rate import Rate
from taskyard.domain.retention import FOREVER, Keep, Retention
from taskyard.domain.retry import Retry, RetryPolicy
from taskyard.domain.state import Reason, State
from taskyard.domain.task import (
    Duplicate,
    Enqueued,
    NewTask,
    Page,
    Refused,
    Task,
    TaskLine,
    TaskQuery,
)
from taskyard.engine.context import Context
from taskyard.engine.job import Snooze
from taskyard.engine.resources import Resource
from taskyard.engine.worker import Worker
from taskyard.handle import Handle, SyncHandle
from taskyard.kind import SyncKind, TaskKind
from taskyard.store.port import Ending
from taskyard.verbs.sync import SyncYard
from taskyard.workflow import Flow, chain, gather
from taskyard.yard import Yard

__version__ = "0.1.0"

__all__ = [
    "FOREVER",
    "Advice",
    "Cancelled",
    "Context",
    "Duplicate",
    "Ending",
    "Enqueued",
    "Fatal",
    "Flow",
    "Handle",
    "IllegalTransition",
    "InvalidTask",
    "Keep",
    "LogLine",
    "NewTask",
    "NotFound",
    "Page",
    "Rate",
    "Reason",
    "Refused",
    "Resource",
    "ResultTimeout",
    "Retention",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "State",
    "StoreError",
    "SyncHandle",
    "SyncKind",
    "SyncYard",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "TaskKind",
    "TaskLine",
    "TaskQuery",
    "TaskRefused",
    "TaskyardError",
    "Worker",
    "Yard",
    "chain",
    "gather",
]
