"""Errors of the library; each message says what was expected, what was given and what to do."""


class DeepcanonError(Exception):
    """An error that a user can understand and mend; the command line prints it as one sentence."""


class UsageError(DeepcanonError, ValueError):
    """A wrong argument, name, value or data set; the command line exits with 2."""


class DataError(UsageError):
    """Data that are missing, damaged or of the wrong form."""


class DownloadError(DeepcanonError):
    """A download that could not be completed or did not match its checksum."""


class CheckpointError(DeepcanonError):
    """A run or checkpoint that is missing, damaged or could not be written."""


class DivergenceError(DeepcanonError):
    """Training that produced NaN, infinity or an exploding loss."""
