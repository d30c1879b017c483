"""The models of the canon, one file each; ``deepcanon.models.RealNVP`` imports only its own.

>>> import deepcanon.models
>>> deepcanon.models.RealNVP.name()
'realnvp'
"""

from deepcanon.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
