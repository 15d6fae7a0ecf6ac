"""Options that commands share, and names with parameters such as huber:delta=0.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from batchsvm import losses, methods
from batchsvm.cli.standard_input import DataPath

LOSSES = tuple(losses.LOSSES)
METHODS = ("auto", *methods.METHODS)
ENGINES = ("auto", "cpu", "gpu", "reference", "streamed", "ray")
PRECISIONS = ("auto", "tf32", "float32", "float64")


class Named(click.ParamType):
    """A name, with parameters if need be: NAME or NAME:PARAMETER=VALUE,..."""

    name = "name"

    def __init__(self, what: str, names: tuple[str, ...]) -> None:
        self.what, self.names = what, names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "NAME[:PARAMETER=VALUE,...]"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, dict[str, Any]]:
        if isinstance(value, tuple):
            return value
        name, _, rest = str(value).partition(":")
        from batchsvm.core.checks import choice

        choice(self.what, name, self.names)
        return name, dict(self._pair(item, param, ctx) for item in rest.split(",") if item)

    def _pair(self, item: str, param: Any, ctx: Any) -> tuple[str, Any]:
        key, equals, word = item.partition("=")
        if not equals:
            self.fail(f"{item!r} must look like PARAMETER=VALUE", param, ctx)
        for kind in (int, float):
            try:
                return key, kind(word)
            except ValueError:
                continue
        return key, {"true": True, "false": False}.get(word.lower(), word)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.names if name.startswith(incomplete)]


def build(what: str, given: tuple[str, dict[str, Any]], known: dict[str, Any]) -> Any:
    """The loss or the method that was named; its name alone if it has no parameters."""
    name, parameters = given
    if not parameters:
        return name
    if name not in known:
        raise ValueError(f"{what} {name!r} takes no parameters")
    try:
        return known[name](**parameters)
    except TypeError:
        allowed = list(getattr(known[name], "_fields", None) or known[name].__dataclass_fields__)
        unknown = next((key for key in parameters if key not in allowed), "?")
        raise ValueError(
            f"{what} {name!r} has no parameter {unknown!r}; it has {', '.join(allowed)}"
        ) from None


def build_loss(given: tuple[str, dict[str, Any]]) -> Any:
    from batchsvm.core.checks import read_loss

    return read_loss(build("loss", given, losses.LOSSES))


def build_method(given: tuple[str, dict[str, Any]]) -> Any:
    return build("method", given, methods.METHODS)


class InterceptScale(click.ParamType):
    """The scale of a penalised intercept, 0 for none, or "free"."""

    name = "scale"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "SCALE|free"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        if value == "free" or isinstance(value, float):
            return value
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor 'free'", param, ctx)


class ClassWeight(click.ParamType):
    """ "balanced", or weights of labels."""

    name = "weights"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "balanced|LABEL=WEIGHT,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> str | dict[str, float]:
        if value == "balanced" or isinstance(value, dict):
            return value
        found = {}
        for item in str(value).split(","):
            label, equals, weight = item.rpartition("=")
            try:
                found[label] = float(weight)
            except ValueError:
                equals = ""
            if not equals or not label:
                self.fail(
                    f"{value!r} must be 'balanced', or look like LABEL=WEIGHT,LABEL=WEIGHT",
                    param, ctx,
                )  # fmt: skip
        return found


class BatchSize(click.ParamType):
    name = "integer"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "B|auto"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | str:
        if value == "auto" or isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is neither 'auto' nor an integer", param, ctx)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
DATA = click.Path(path_type=str)
READ = DataPath(path_type=str)  # `-` is standard input
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
loss = click.option(
    "--loss", type=Named("loss", LOSSES), default="hinge", show_default=True,
    help=f"{', '.join(LOSSES)}; with a parameter: huber:delta=0.5",
)  # fmt: skip
lam = click.option(
    "--lam", type=float, default=1e-4, show_default=True,
    help="Regularisation: mean loss + lam/2 |w|^2. scikit-learn's C is 1/(lam n).",
)  # fmt: skip
tol = click.option(
    "--tol", type=float, default=1e-3, show_default=True,
    help="Stop when the objective is proven to be at most this part of itself above its optimum.",
)  # fmt: skip
precision = click.option(
    "--precision", type=click.Choice(PRECISIONS), default="auto", show_default=True,
    help="Of the products in the steps on a CUDA device; certificates are in float64.",
)  # fmt: skip

jobs = click.option(
    "--jobs", type=int, default=1, show_default=True, help="Threads; -1 is all cores."
)
intercept = click.option(
    "--intercept", type=InterceptScale(), default=0.0, show_default=True,
    help="Learn an intercept: the penalised coefficient of a column of SCALE, or a free one, which"
    " is not penalised.",
)  # fmt: skip

max_epochs = click.option(
    "--max-epochs", type=float, default=1000, show_default=True,
    help="Stop after this many passes over the data.",
)  # fmt: skip
averaging = click.option(
    "--averaging", type=click.Choice(["none", "tail", "decay"]), default="none", show_default=True,
    help="Return an average of the iterates.",
)  # fmt: skip


def intercept_options(intercept: float | str) -> dict[str, Any]:
    """--intercept as `batchsvm.plan` takes it."""
    if intercept == "free":
        return {"intercept": "free"}
    return {"intercept": "penalised", "scaling": float(intercept)} if intercept else {}


def steps(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which steps training takes."""
    decorators: list[Decorator] = [
        click.option(
            "--method", type=Named("method", METHODS), default="auto", show_default=True,
            help=f"{', '.join(METHODS)}; with a parameter: aggressive:gamma=0.9",
        ),
        click.option(
            "--batch-size", "-b", type=BatchSize(), default="auto", show_default=True,
            help="Rows in a batch; auto is 1 with method auto on one thread, else up to 1/sigma^2.",
        ),
    ]  # fmt: skip
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def where(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which engine works on DATA, and on which device."""
    decorators: list[Decorator] = [
        click.option(
            "--engine", type=click.Choice(ENGINES), default="auto", show_default=True,
            help="cpu, gpu (a CUDA device), streamed (rows on the disk), ray (a cluster), or"
            " reference (plain NumPy, slow); auto is gpu if --device is given, streamed for a"
            " folder or a pattern, and cpu otherwise.",
        ),
        click.option("--device", type=int, metavar="N", help="The number of the CUDA device."),
    ]  # fmt: skip
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


class Names(click.ParamType):
    """Names of columns, with commas between them."""

    name = "names"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "NAME,NAME,..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in str(value).split(","))
        if "" in names:
            self.fail(f"{value!r} must be names of columns with commas between them", param, ctx)
        if twice := [name for name in names if names.count(name) > 1]:
            self.fail(f"{value!r} must not hold {twice[0]!r} twice", param, ctx)
        return names


columns = click.option(
    "--columns", type=Names(),
    help="Columns of a CSV or Parquet file that are features; the others are left out."
    "  [default: all]",
)  # fmt: skip
weights = click.option(
    "--weights", metavar="NAME",
    help="Column of the weights of the rows in a CSV or Parquet file; for other formats a file of"
    " weights, one per line.",
)  # fmt: skip
max_memory = click.option(
    "--max-memory", metavar="BYTES",
    help="Stream DATA: what grows with it stays within this, such as 600MB or 2GB."
    "  [default: a quarter of the memory of this machine, for a folder or a pattern]",
)  # fmt: skip
cache = click.option(
    "--cache", type=click.Path(path_type=str, file_okay=False), metavar="FOLDER",
    help="Stream DATA, and keep what the first pass has packed in this folder for the next time.",
)  # fmt: skip


def source(command: Callable[..., Any]) -> Callable[..., Any]:
    """What DATA is taken of, and how it is streamed; these options are among those of `reading`."""
    decorators: list[Decorator] = [columns, weights, max_memory, cache]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """How DATA is read."""
    decorators: list[Decorator] = [
        click.option("--label", help="Label column of a CSV or Parquet file."),
        click.option("--labels", type=DATA, help="File of labels for .npz and .npy data."),
        click.option("--features", type=click.IntRange(min=1), help="Columns to expect."),
        click.option(
            "--zero-based/--one-based", default=None,
            help="Where indices of LIBSVM text count from.  [default: as the model's training data"
            " did, else 0 if an index 0 occurs]",
        ),
        click.option("--float32", is_flag=True, help="Keep text data in single precision."),
    ]  # fmt: skip
    for decorator in reversed(decorators):
        command = decorator(command)
    return command
