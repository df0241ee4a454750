"""``python -m pbt``: the command ``pbt``."""

import sys

from ._cli import main

sys.exit(main())
