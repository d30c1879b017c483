"""The deep-learning canon as one library: every model under one contract, one trainer, one command line.

What stands here is imported when it is first used, so that the command line starts at once.

>>> import deepcanon as dc
>>> data = dc.load_data("digits")
>>> model = dc.models.MLP(features=64, classes=10)
>>> result = dc.fit(model, data, epochs=2, quiet=True)
>>> result.test["accuracy"] > 0.5
True
"""

from deepcanon.lazy import attach

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = attach(__name__)
