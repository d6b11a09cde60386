"""Upkeep: one duty a file, all with the same contract."""
