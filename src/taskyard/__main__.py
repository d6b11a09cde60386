"""`python -m taskyard` is the `taskyard` command."""

from taskyard.cli.main import main

if __name__ == "__main__":
    main()
