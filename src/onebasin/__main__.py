"""`python -m onebasin` is the command line."""

from onebasin.cli import main

main()
