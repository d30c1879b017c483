"""The error of an id that the server has not listed."""


class UnknownId(LookupError):
    """Nothing that the server has listed has this id."""
