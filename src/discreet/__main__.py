"""`python -m discreet`: the command line, as torchrun starts it."""

from discreet.cli import main

main()
