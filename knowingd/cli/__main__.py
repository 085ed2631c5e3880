"""`python -m knowingd.cli`."""

from knowingd.cli import main

main()
