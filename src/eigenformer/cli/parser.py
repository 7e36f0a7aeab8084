"""An argument parser that suggests the nearest name for an unknown option."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from eigenformer.nearest import unknown


class Parser(argparse.ArgumentParser):
    """An argument parser that explains arguments it does not know."""

    def error(self, message: str) -> NoReturn:
        """Exits with a one-line message, like all our errors, instead of the whole usage."""
        self.exit(2, f"{self.prog}: {message}; see  {self.prog} --help\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Names the nearest choice, where argparse would list all of them."""
        if action.choices is not None and value not in action.choices:
            what = action.metavar if isinstance(action.metavar, str) else None
            named = f"{what.lower()} '{value}'" if what else f"'{value}'"
            subcommand = isinstance(action, argparse._SubParsersAction)
            reason = unknown(named, str(value), map(str, action.choices))
            raise argparse.ArgumentError(None if subcommand else action, reason)

    def explain(self, rest: Sequence[str]) -> str:
        """Returns a message about arguments that are left over. Misspelt options come first."""
        options = [text for text in rest if text.startswith("-")]
        if not options:
            return f"'{rest[0]}': unexpected argument"
        given = options[0].partition("=")[0]
        name, known = given.lstrip("-"), self.options()
        if name in known:
            return f"{given}: an option of another subcommand of {self.prog}"
        for option in sorted(known):
            if option.endswith(f".{name.replace('-', '_')}"):
                return f"{given}: unknown; use --{option}"
        section, dot, _ = name.rpartition(".")
        parts = {option.rpartition(".")[0] for option in known}
        if dot and section not in parts:
            return unknown(given, section, parts - {""})
        return unknown(given, name, [o for o in known if o.rpartition(".")[0] == section])

    def options(self) -> list[str]:
        """Returns the names of all long options, including those of its subcommands."""
        names = [text[2:] for text in self._option_string_actions if text.startswith("--")]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    names += parser.options()
        return sorted(set(names) - {"help"})
