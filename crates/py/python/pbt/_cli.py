"""The command ``pbt``."""

from __future__ import annotations

import signal
import sys

from . import _pbt


def main() -> int:
    """Runs ``pbt`` with the arguments of the process."""
    # Ctrl-C is for the program, not for the interpreter.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _pbt.main(sys.argv)
