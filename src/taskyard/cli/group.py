"""A command that only has commands below it."""

from __future__ import annotations

import sys

import typer


def group(about: str) -> typer.Typer:
    """Alone it shows its help."""
    return typer.Typer(
        help=about,
        callback=help_if_alone,
        invoke_without_command=True,
        rich_markup_mode=None,
    )


def help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        sys.stdout.write(f"{context.get_help()}\n")
