"""``python -m creditflow.train.gpu``: the whole script."""

import sys

from creditflow.train.gpu.script import main

if __name__ == "__main__":
    sys.exit(main())
