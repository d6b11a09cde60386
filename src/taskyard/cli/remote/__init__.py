"""A yard behind a server: what commands ask of a yard, asked over HTTP."""

from taskyard.cli.remote.yard import RemoteYard, remote_yard

__all__ = ["RemoteYard", "remote_yard"]
