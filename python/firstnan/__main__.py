"""`python -m firstnan`: the command line."""

import sys

from firstnan.cli import main

if __name__ == "__main__":
    sys.exit(main())
