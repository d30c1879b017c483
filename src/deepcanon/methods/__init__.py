"""The methods of the canon, models that wrap a model, one file each.

>>> import deepcanon.methods
>>> deepcanon.methods.LoRA.name()
'lora'
"""

from deepcanon.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
