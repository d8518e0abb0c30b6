"""`python -m hloom`: the command line."""

from hloom.tools.entry import main

if __name__ == "__main__":
    main()
