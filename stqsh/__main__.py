"""`python -m stqsh` is the command `stqsh`."""

from stqsh.cli.main import main

if __name__ == "__main__":
    main()
