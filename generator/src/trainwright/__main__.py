"""`python -m trainwright`."""

from trainwright.cli import main

main(prog_name="trainwright")
