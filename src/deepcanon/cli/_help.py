"""Help of the commands: flags without a type, and the options that a named model, insight or study adds."""

from __future__ import annotations

import copy
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption

from deepcanon.cli._print import Output
from deepcanon.core.settings import LARGEST

PLAIN = {"<int>": "N", "<int range>": "N", "<float>": "X", "<float range>": "X", "<str>": "TEXT", "<list[str]>": "TEXT"}
"""What an option takes, in the words that manuals use."""


class Command(TyperCommand):
    """A command whose help says what each option takes, and of a flag nothing, since it takes nothing."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if isinstance(param, TyperOption) and param.metavar is None:
                param.metavar = "" if param.is_flag else PLAIN.get(param.display_type(ctx))
        return params

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        shown = copy.copy(self)
        shown.params = [_without_largest(param) for param in self.params]
        super(Command, shown).format_help(ctx, formatter)


def _without_largest(param: Any) -> Any:
    """The option without the bound that is only what fits into 64 bits."""
    if getattr(param, "max", None) != LARGEST:
        return param
    shown = copy.copy(param)
    shown.max = None
    return shown


class NamingCommand(Command):
    """A command whose first word names a model, an insight or a study, the arguments of which are options too."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.meta["named"] = next((word for word in args[:1] if not word.startswith("-")), None)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        super().format_help(ctx, formatter)
        if ctx.meta["named"] is not None:
            from deepcanon.cli.show import show_options

            show_options(Output(as_json=False), str(ctx.info_name), ctx.meta["named"])
