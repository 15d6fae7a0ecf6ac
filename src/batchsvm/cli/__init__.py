"""The command line: `batchsvm`.

One file per command.  Results go to stdout, everything else to stderr; with --json, stdout
is one JSON document.  Exit status: 0 done, 1 the certified gap is above tol, 2 an error
(one line on stderr), 130 interrupted.
"""

from batchsvm.cli.entry import commands, main

__all__ = ["commands", "main"]
