"""The group of commands, and what becomes of errors: one line on stderr, exit status 2."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import click

from batchsvm.cli.hints import command_hint, option_hint
from batchsvm.cli.standard_input import as_typed
from batchsvm.cli.wording import in_options, in_phrases

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


class _Interrupted(Exception):
    """Ctrl-C, which click would answer with an empty line."""


class _ReaderGone(Exception):
    """A pipe that nobody reads any more, for which click would exit with status 1."""


@contextlib.contextmanager
def _before_click() -> Iterator[None]:
    """Answer two errors before click does."""
    try:
        yield
    except KeyboardInterrupt:
        raise _Interrupted from None
    except BrokenPipeError:
        raise _ReaderGone from None


class Commands(click.Group):
    """The commands in the order in which they are used."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _before_click():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _before_click():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(
                f"there is no command {name!r}{command_hint(name, COMMANDS)}", ctx
            )
        return super().resolve_command(ctx, args)

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
        status = _run(arguments)
    except BrokenPipeError:  # stderr is closed too: there is nobody left to tell
        _silence(sys.stderr)
        status = ERROR
    sys.exit(status if isinstance(status, int) else 0)


def _run(arguments: list[str] | None) -> Any:
    """The exit status; what went wrong is said."""
    try:
        status = commands.main(arguments, prog_name="batchsvm", standalone_mode=False)
        if sys.stdout is not None:  # None: `>&-` has closed it
            sys.stdout.flush()
    except (_Interrupted, KeyboardInterrupt, click.Abort):
        _say("interrupted")
        status = INTERRUPTED
    except (_ReaderGone, BrokenPipeError):  # `batchsvm ... | head` has read enough
        _silence(sys.stdout)
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
        if not _takes_text(sys.stdout):
            _silence(sys.stdout)
    except (ValueError, TypeError, ModuleNotFoundError, ArithmeticError) as error:
        status = _fail((in_phrases if hasattr(error, "path") else in_options)(str(error)))
    except RuntimeError as error:
        if not _is_about_a_device(error):
            raise
        status = _fail(in_options(str(error)))
    return status


def _is_about_a_device(error: RuntimeError) -> bool:
    """Whether it says that there is no CUDA device; the module that defines it is large, and is
    imported only where a device is asked for."""
    device = sys.modules.get("batchsvm.engines.gpu.device")
    return device is not None and isinstance(error, device.DeviceError)


def _takes_text(stream: Any) -> bool:
    """Whether what was printed can still be brought out: a full disk does not take it."""
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        return False
    return True


def _silence(stream: Any) -> None:
    """Send what a stream still holds to nowhere, or Python would complain of it at its end."""
    with contextlib.suppress(OSError, ValueError):  # closed, or not one of the system's files
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption):
        message = f"there is no option {error.option_name}{option_hint(error)}"
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
    if sys.stderr is None:  # `2>&-` has closed it
        return
    print(f"batchsvm: {_one_line(as_typed(text))}", file=sys.stderr, flush=True)


def _fail(text: str) -> int:
    _say(text)
    return ERROR


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    _say(f"warning: {in_options(str(message))}")
