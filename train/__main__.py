"""``python -m creditflow.train`` is the ``creditflow`` command."""

import sys

from creditflow.train.cli import main

sys.exit(main())
