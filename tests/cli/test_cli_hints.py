"""Names that there are not: the command says which one may have been meant."""

from __future__ import annotations

import pytest

from batchsvm.cli import hints
from batchsvm.cli.entry import COMMANDS
from helpers import refused


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        ("trian x m", "there is no command 'trian'; did you mean 'train'?"),
        ("fit x m", "there is no command 'fit'; did you mean 'train'?"),
        ("xyzzy", "there is no command 'xyzzy' (see batchsvm --help)"),
        ("train x m --C 1", "there is no option --C; did you mean --lam, which is 1/(C n)"),
        ("train x m --threads 2", "there is no option --threads; did you mean --jobs?"),
        ("train x m --lamb 2", "there is no option --lamb; did you mean --lam?"),
        ("info m --threads 2", "there is no option --threads (see batchsvm info --help)"),
        ("train x m --loss log", "did you mean 'logistic'?"),
        ("train x m --loss Hinge", "did you mean 'hinge'?"),
        ("train x m --loss mse", "did you mean 'squared_error'?"),
        ("train x m --method sdca", "did you mean 'auto'?"),
        ("data get brest-cancer", "not 'brest-cancer'; did you mean 'breast-cancer'?"),
    ],
)
def test_what_may_have_been_meant(run, arguments, end):
    assert end in refused(run(*arguments.split()))


def test_hints_name_what_there_is():
    from batchsvm.cli import commands

    train = commands.get_command(None, "train")
    known = {option for parameter in train.params for option in parameter.opts}
    for hint in hints.OPTIONS.values():
        assert hint.startswith("OUT") or any(option in hint for option in known), hint
    for command in hints.COMMANDS.values():
        assert command.split()[0] in COMMANDS
