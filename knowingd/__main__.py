"""`python -m knowingd`: the same as `knowing`."""

from knowingd.cli import main

main()
