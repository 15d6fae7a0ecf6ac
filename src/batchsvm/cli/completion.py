"""batchsvm completion: the lines that make a shell complete our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(
    short_help="Print the shell completion script.",
    epilog="""\b
Example:
  batchsvm completion bash
To use it, put into ~/.bashrc:  eval "$(batchsvm completion bash)"
into ~/.zshrc:                  eval "$(batchsvm completion zsh)"
for fish, run once:  batchsvm completion fish > ~/.config/fish/completions/batchsvm.fish""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets SHELL complete commands, options, losses and files."""
    from batchsvm.cli.entry import commands

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(commands, {}, "batchsvm", "_BATCHSVM_COMPLETE")
    click.echo(script.source_template % script.source_vars())
