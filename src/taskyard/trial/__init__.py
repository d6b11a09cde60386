"""Tests: a yard in memory, whose time stands still and whose tasks run when they are told to."""

from taskyard.trial.trial import Ran, SyncTrial, Testing, Trial

__all__ = ["Ran", "SyncTrial", "Testing", "Trial"]
