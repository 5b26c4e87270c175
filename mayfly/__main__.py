"""``python -m mayfly``: the same as the command ``mayfly``."""

from mayfly.cli import main

if __name__ == "__main__":
    main()
