"""``python -m multireplay`` is the command line."""

from multireplay.cli import app

app(prog_name="multireplay")
