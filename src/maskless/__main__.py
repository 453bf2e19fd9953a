"""`python -m maskless` is the `maskless` command, for machines where it is not installed."""

from maskless.cli import main

main()
