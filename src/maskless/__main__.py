"""`python -m maskless` is the `maskless` command, for machines where it is not installed."""

import sys

if not sys.flags.safe_path:  # Python has put the current folder there, which may be a stranger's
    del sys.path[0]

from maskless.cli import main

main()
