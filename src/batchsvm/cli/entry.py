"""The group of commands, and what becomes of errors: one line on stderr, exit status 2."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import Any

import click

from batchsvm.cli.wording import in_options

# Command, module and function; a module is imported when its command is called.
COMMANDS = {
    "plan": "plan:plan",
    "train": "train:train",
    "predict": "predict:predict",
    "certify": "certify:certify",
    "convert": "convert:convert",
    "info": "info:info",
    "data": "data:data",
    "demo": "demo:demo",
    "completion": "completion:completion",
}
ERROR, INTERRUPTED = 2, 130
# Before click 8.2 a group without arguments printed its help and raised nothing.
NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class Commands(click.Group):
    """The commands in the order in which they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, function = COMMANDS[name].split(":")
        return getattr(importlib.import_module(f"batchsvm.cli.{module}"), function)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
    epilog="""\b
Example:
  batchsvm data get breast-cancer --folder .
  batchsvm plan breast-cancer.train.svm --lam 0.01
  batchsvm train breast-cancer.train.svm cancer.model --lam 0.01
  batchsvm certify cancer.model breast-cancer.train.svm
  batchsvm predict cancer.model breast-cancer.test.svm cancer.predicted

\b
Shell completion: batchsvm completion --help""",
)
@click.version_option(package_name="batchsvm", prog_name="batchsvm")
def commands() -> None:
    """Train linear SVMs in mini-batches, every model with a certified duality gap."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    warnings.showwarning = _show_warning
    try:
        status = commands.main(arguments, prog_name="batchsvm", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        status = INTERRUPTED
    except BrokenPipeError:  # `batchsvm ... | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except NO_ARGUMENTS as error:  # its message is the help, whose lines are its own
        error.show()
        status = error.exit_code
    except click.ClickException as error:
        status = _fail(_usage(error))
    except MemoryError as error:
        status = _fail(f"not enough memory: {error}" if str(error) else "not enough memory")
    except OSError as error:
        status = _fail(_about_file(error))
    except (ValueError, TypeError, ModuleNotFoundError, ArithmeticError) as error:
        status = _fail(str(error) if hasattr(error, "path") else in_options(str(error)))
    sys.exit(status if isinstance(status, int) else 0)


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context is not None else message


def _about_file(error: OSError) -> str:
    """The file first, then what is wrong with it, without Python's [Errno]."""
    if error.strerror and error.filename:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _one_line(text: Any) -> str:
    return " ".join(str(text).split())


def _say(text: str) -> None:
    print(f"batchsvm: {_one_line(text)}", file=sys.stderr, flush=True)


def _fail(text: str) -> int:
    _say(text)
    return ERROR


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    _say(f"warning: {in_options(str(message))}")
