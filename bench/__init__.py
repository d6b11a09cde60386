"""Benchmarks. A module names the statements of docs/spec it measures in `SPEC`."""
