"""The command line: `batchsvm`.

One file per command.  Results go to stdout, everything else to stderr; with --json, stdout
is one JSON document.  Exit status: 0 done, 1 the proven bound is above tol, 2 an error
(one line on stderr), 130 interrupted.
"""

import sys

try:
    from batchsvm.cli.entry import commands, main
except KeyboardInterrupt:  # before the lines that answer it are there
    print("batchsvm: interrupted", file=sys.stderr)
    raise SystemExit(130) from None

__all__ = ["commands", "main"]
