"""What can go wrong. The classes are the exit codes of the command."""

from __future__ import annotations


class Error(Exception):
    """Something went wrong. The text is the line that the command prints: ``FILE: FIELD: what is
    wrong (what to do)``.

    ``file`` and ``field`` say where, as far as that is known.
    """

    def __init__(self, message: str, file: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.field = field
        #: The line without the file, whose name may be that of a patient.
        self._without_file = message


class UsageError(Error):
    """Arguments that are not as documented (exit code 2)."""


class InputError(Error):
    """An image, a data set or another input is unreadable or invalid (exit code 4)."""


class ModelError(Error):
    """A file is no model, or one that this version cannot use (exit code 5)."""


class DeviceError(Error):
    """The device is not available (exit code 6)."""


for _class in (Error, UsageError, InputError, ModelError, DeviceError):
    _class.__module__ = "pbt"
