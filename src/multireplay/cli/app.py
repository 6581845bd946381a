"""The command line as a whole: its help, what it says on standard error, and how every command ends."""

from __future__ import annotations

import errno
import shlex
import signal
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from multireplay import __version__
from multireplay.errors import InputError
from multireplay.show.text import plain_text

if TYPE_CHECKING:
    from multireplay.result import Status

UNEXPECTED, BAD_INPUT, DIVERGED, NOT_CONVERGED, INTERRUPTED = 1, 3, 4, 5, 130

EXIT_CODES = """\b
[bold]Exit codes[/bold]
  0  all is well
  1  something unexpected; --debug shows where
  2  the command was not understood
  3  the data, or where to write, cannot be used; the message names it
  4  the run diverged, so that its answer should not be used
  5  the run has not converged; its status says how far its answer is off
130  interrupted by Ctrl-C; no file is left half-written
141  nobody reads on, as after '| head'; nothing is said
"""


def note(message: str, colour: str = "yellow") -> None:
    """One coloured line on standard error."""
    Console(stderr=True).print(plain_text(" ".join(message.split()), colour), soft_wrap=True, highlight=False)


def exit_code(status: Status) -> int:
    """How a command ends whose run ended so."""
    return {"diverged": DIVERGED, "not converged": NOT_CONVERGED}.get(status.code, 0)


class Commands(TyperGroup):
    """The commands, with errors as one line and an exit code that means something."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        for command in self.commands.values():
            command.help = _flowing(command.help or "")

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        given, end = ["multireplay", *args], args.index("--") if "--" in args else len(args)
        if "--debug" in args[1:end]:  # where people add it, as an error says, though it is of all commands
            args = ["--debug", *(one for one in args[:end] if one != "--debug"), *args[end:]]
        try:
            ctx = super().make_context(info_name, args, *rest, **extra)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        ctx.obj = shlex.join(map(_shown, given))  # for reports, which say how to repeat them
        return ctx

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *where, **more: note(str(message))
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                note("Interrupted.", "red")
                raise typer.Exit(INTERRUPTED) from None
            except Exception as error:
                if _is_typers_own(error):
                    raise
                if getattr(signal.getsignal(signal.SIGINT), "seen", False):  # an import that was stopped half-way
                    raise typer.Exit(INTERRUPTED) from None
                if ctx.params["debug"]:
                    traceback.print_exc(file=sys.stderr)
                note(_sentence(error), "red")
                raise typer.Exit(BAD_INPUT if isinstance(error, InputError) else UNEXPECTED) from None


def _shown(text: str) -> str:
    """An argument without credentials."""
    if "://" not in text:
        return text
    from multireplay.buffer.disk.remote import shown

    return shown(text)


def _flowing(text: str) -> str:
    """Paragraphs whose lines end where the terminal does, not where those of the docstring do."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _is_typers_own(error: Exception) -> bool:
    """Usage errors and exits, which end the command with a code of their own, and a closed pipe."""
    pipe = isinstance(error, OSError) and error.errno == errno.EPIPE
    return pipe or isinstance(error, typer.Abort) or hasattr(error, "exit_code")


def _sentence(error: Exception) -> str:
    if isinstance(error, InputError | ImportError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"Unexpected {type(error).__name__}: {error} (--debug shows where)"


app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="rich", add_completion=False, epilog=EXIT_CODES)


def print_version(wanted: bool) -> None:
    """Answer --version, before any command is looked for."""
    if wanted:
        typer.echo(f"multireplay {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, instead of one line.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Learn from one long, dependent record almost as well as from independent samples."""
