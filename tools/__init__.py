"""Checks and reports on the project itself."""
