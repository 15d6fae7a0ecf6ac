"""One worker a peer; each runs as a script in an environment of its own (see worker.py)."""
