"""The parts of a docstring are found whatever stands around them."""

from deepcanon.core.docstrings import read_docstring


class Documented:
    r"""A first sentence
    over two lines.

    .. math:: a = b \\
              + c

    Words between, with :math:`x` and ``y``.

    .. math::

        d = e

    References:
        | A paper (One, 1999), https://example.org/1
        | A long paper
          (Two, 2001)

    Arguments:
        width: The width
            of :math:`W`; ``none`` for all.
        depth: Layers.

    >>> 1 + 1
    2
    """


class Bare:
    pass


def test_every_part_is_read() -> None:
    parts = read_docstring(Documented)
    assert parts.summary == "A first sentence over two lines."
    assert parts.equations == ("a = b \\\\\n+ c", "d = e")
    assert parts.references == ("A paper (One, 1999), https://example.org/1", "A long paper (Two, 2001)")
    assert parts.arguments == {"width": "The width of W; none for all.", "depth": "Layers."}


def test_a_class_that_says_nothing() -> None:
    parts = read_docstring(Bare)
    assert (parts.summary, parts.equations, parts.references, parts.arguments) == ("", (), (), {})
