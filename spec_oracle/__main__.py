"""``python -m spec_oracle``: the command line."""

import sys

from spec_oracle.cli import main

if __name__ == "__main__":
    sys.exit(main())
