"""What somebody may have meant who typed a name that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import click

# What others call our options.
OPTIONS = {
    "--C": "--lam, which is 1/(C n) for n rows",
    "--c": "--lam, which is 1/(C n) for n rows",
    "--alpha": "--lam",
    "--lambda": "--lam",
    "--threads": "--jobs",
    "--n-jobs": "--jobs",
    "--epochs": "--max-epochs",
    "--max-iter": "--max-epochs",
    "--iterations": "--max-epochs",
    "--random-state": "--seed",
    "--bias": "--intercept",
    "--fit-intercept": "--intercept 1",
    "--batch": "--batch-size",
    "--memory": "--max-memory",
    "--target": "--label",
    "--weight": "--weights or --class-weight",
    "--gpu": "--engine gpu",
    "--output": "OUT or MODEL, which has no option name",
}
COMMANDS = {"fit": "train", "test": "predict", "score": "predict", "check": "certify",
            "verify": "certify", "show": "info", "download": "data get"}  # fmt: skip


def command_hint(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown command.

    >>> command_hint("trian", ["train", "plan"])
    "; did you mean 'train'?"
    """
    near = COMMANDS.get(name) or _nearest(name, known)
    return f"; did you mean {near!r}?" if near else ""


def option_hint(error: click.NoSuchOption) -> str:
    """The end of a sentence about an unknown option."""
    name = error.option_name
    known = [] if error.ctx is None else [
        option for parameter in error.ctx.command.params for option in parameter.opts
        if option.startswith("--")
    ]  # fmt: skip
    near = OPTIONS.get(name)
    if near is None or not any(option in near for option in known):
        near = _nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def _nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), None)
