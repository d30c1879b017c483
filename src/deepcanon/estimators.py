"""Estimators of scikit-learn around any model: for its pipelines, its grid searches and its cross-validation.

Each estimator holds a model by name or by class, trains it by the one trainer, and speaks scikit-learn's language:
arrays in, arrays out, everything decided by parameters that can be read, set and cloned. Numbers are in double
precision unless another ``dtype`` is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    DensityMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Generator, Tensor
from torch.distributions import Distribution

from deepcanon.blueprints import blueprint
from deepcanon.core import Batch, Model, UsageError, eval_mode, log_likelihood, methods_of
from deepcanon.core.checks import at_least, one_of
from deepcanon.core.settings import Settings, listed_settings
from deepcanon.data import Batches, from_tensors
from deepcanon.lazy import listing
from deepcanon.train import fit, randomness

__all__ = ["Classifier", "Density", "Encoder", "Estimator", "Regressor"]
__dir__ = listing(__name__)

ROWS = 1024
"""How many examples a model is asked about at once."""

NESTED = "arguments__"
"""What stands before an argument of the model where it is a parameter of a search: ``arguments__hidden``."""


SETTINGS = [name for name in listed_settings() if name not in ("seed", "keep", "checkpoint_every", "pictures")]
"""The training settings that are parameters: all but those of a run's folder, and the seed, for which scikit-learn has
``random_state``."""


def _with_settings(init: Callable[..., None]) -> Callable[..., None]:
    """The constructor with a keyword for every training setting, as scikit-learn reads parameters off signatures."""
    *first, _ = inspect.signature(init).parameters.values()
    settings = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in SETTINGS]
    init.__signature__ = inspect.Signature([*first, *settings])  # type: ignore[attr-defined]
    return init


class Estimator(BaseEstimator):  # type: ignore[misc]
    """The base of the four estimators: which model, how it is trained, and arrays in and out.

    Arguments:
        model: The model's name in the catalogue, or its class; left out, the ``standard`` one.
        arguments: Its constructor arguments; sizes that follow from the data are filled in. An argument that is itself
            a model is its name, or ``{"model": name, "arguments": {...}}``.
        shape: The shape (channels, height, width) of an example, for models of images.
        dtype: ``float64`` or ``float32``.
        random_state: The seed of everything that is random, as everywhere in scikit-learn. What follows are the
            training settings; what is left out is the model's recipe.
    """

    standard: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    """The methods that a model must have."""
    model_: Any
    """The trained model, which has these methods."""

    @_with_settings
    def __init__(
        self,
        model: str | type[Model[Any]] | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        shape: tuple[int, int, int] | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        random_state: Any = None,
        **settings: Unpack[Settings],
    ) -> None:
        self.model = model
        self.arguments = arguments
        self.shape = shape
        self.dtype = dtype
        self.random_state = random_state
        strange = [name for name in settings if name not in SETTINGS]
        if strange:
            raise TypeError(f"{type(self).__name__} takes no parameter {strange[0]!r}; it takes {', '.join(SETTINGS)}")
        for name in SETTINGS:
            setattr(self, name, settings.get(name))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters; ``deep``, also the arguments of the model that were given, each on its own."""
        parameters: dict[str, Any] = super().get_params(deep)
        if deep and isinstance(self.arguments, Mapping):
            parameters |= {f"{NESTED}{name}": value for name, value in self.arguments.items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name; ``arguments__hidden=(64,)`` sets one argument of the model."""
        nested = {name: value for name, value in parameters.items() if name.startswith(NESTED)}
        super().set_params(**{name: value for name, value in parameters.items() if name not in nested})
        if nested:
            own = {name.removeprefix(NESTED): value for name, value in nested.items()}
            self.arguments = {**(self.arguments or {}), **own}
        return self

    def _train(self, x: NDArray[Any], y: NDArray[Any] | None = None) -> None:
        """Build the model for these data and train it."""
        one_of(("float64", "float32"), dtype=self.dtype)
        asked = blueprint(self.standard if self.model is None else self.model, self.arguments or {})
        if not hasattr(asked.cls, "unwrapped"):
            self._check_methods(asked.cls)
        data = from_tensors(self._tensor(x), y, name="X")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with randomness.kept():
            randomness.seed_torch(seed)
            model = asked.build(data.model_sizes, "X").to(getattr(torch, self.dtype))
        self._check_methods(model)  # a method has those of the model that it wraps, which only now is known
        fit(model, data, quiet=True, seed=seed, **self._settings())
        self.model_ = model.cpu().eval()

    def _settings(self) -> Any:
        """The training settings that were given."""
        return {name: value for name in SETTINGS if (value := getattr(self, name)) is not None}

    def _outputs(self, method: Callable[[Tensor], Tensor], X: ArrayLike) -> NDArray[Any]:
        """What the trained model says of each row."""
        check_is_fitted(self)
        x = Batch(self._tensor(validate_data(self, X, reset=False, dtype=self.dtype)))
        with eval_mode(self.model_):
            rows: NDArray[Any] = torch.cat([method(part.x) for part in Batches(x, ROWS)]).numpy()
        return rows

    def _tensor(self, x: NDArray[Any]) -> Tensor:
        rows = torch.tensor(x)
        if self.shape is None:
            return rows
        if rows.shape[1] != int(np.prod(self.shape)):
            raise UsageError(f"examples of shape {self.shape} have {np.prod(self.shape)} values, got {rows.shape[1]}")
        return rows.reshape(-1, *self.shape)

    def _class(self) -> type[Model[Any]]:
        return blueprint(self.standard if self.model is None else self.model).cls

    def _check_methods(self, model: Model[Any] | type[Model[Any]]) -> None:
        missing = [method for method in self.needs if method not in methods_of(model)]
        if missing:
            raise UsageError(
                f"{type(self).__name__} needs a model that can {' and '.join(missing)}; {model.name()} has "
                f"{', '.join(methods_of(model)) or 'no method'}"
            )


Estimator.__doc__ = inspect.cleandoc(str(Estimator.__doc__)) + "".join(
    f"\n    {name}: {listed_settings()[name][1].help}" for name in SETTINGS
)


class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """A classifier around any model that predicts classes, by default ``mlp``; see :class:`Estimator`.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> Classifier("softmax_regression", epochs=100, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    standard = "mlp"
    needs = ("predict",)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the classes ``y``, of any type, of the rows of ``X``."""
        X, y = validate_data(self, X, y, dtype=self.dtype)
        check_classification_targets(y)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) < 2:
            raise UsageError(
                f"a classifier needs examples of 2 classes or more, got only one class: {self.classes_[0]}"
            )
        self._train(np.asarray(X), codes)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row."""
        codes: NDArray[Any] = self.predict_proba(X).argmax(1)
        classes: NDArray[Any] = self.classes_[codes]
        return classes

    def _settings(self) -> Any:
        """The training settings that were given; class weights may be a mapping from classes, as in scikit-learn."""
        settings = super()._settings()
        weights = settings.get("class_weight")
        if isinstance(weights, Mapping):
            settings["class_weight"] = "/".join(f"{float(weights.get(each, 1)):g}" for each in self.classes_.tolist())
        return settings

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """The probability of each class, in the order of ``classes_``, (rows, classes)."""
        return self._outputs(lambda x: self.model_.predict(x, how="mean"), X)


class Regressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A regressor around any model that predicts real numbers, by default ``mlp``; see :class:`Estimator`.

    Targets are learned in the units they come in; :class:`sklearn.compose.TransformedTargetRegressor` standardizes
    them.

    >>> import numpy as np
    >>> X = np.arange(10.0)[:, None]
    >>> Regressor("linear_regression").fit(X, 3 * X[:, 0] + 1).predict([[20.0]]).round(6)
    array([61.])
    """

    standard = "mlp"
    needs = ("predict",)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the targets ``y``, (rows,) or (rows, targets), of the rows of ``X``."""
        X, y = validate_data(self, X, y, dtype=self.dtype, multi_output=True, y_numeric=True)
        targets = np.asarray(y, dtype=self.dtype)
        self._one_target = targets.ndim == 1
        self._train(np.asarray(X), targets)
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The expected targets, in the shape they were learned in."""
        predicted = self._outputs(lambda x: self.model_.predict(x, how="mean"), X)
        return predicted[:, 0] if self._one_target else predicted


class Density(DensityMixin, Estimator):  # type: ignore[misc]
    """A density around any model that has ``log_prob``, by default ``gaussian_mixture``; see :class:`Estimator`.

    What the logarithms are, exact or a bound, the trained model says: ``density.model_.likelihood_kind``.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> density = Density("gaussian").fit(X)
    >>> density.score_samples([[0.0, 0.0]]) > density.score_samples([[3.0, 0.0]])
    array([ True])
    >>> density.sample(4, random_state=0).shape
    (4, 2)
    """

    standard = "gaussian_mixture"
    needs = ("log_prob",)

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the density of the rows of ``X``; there is no ``y`` to it."""
        self._train(np.asarray(validate_data(self, X, dtype=self.dtype, ensure_min_samples=2)))
        return self

    def score_samples(self, X: ArrayLike) -> NDArray[Any]:
        """The log-density of each row in nats, (rows,)."""
        generator = Generator().manual_seed(0)  # a random estimate is the same each time
        return self._outputs(lambda x: log_likelihood(self.model_, x, generator=generator), X)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """The mean log-density of the rows in nats."""
        return float(self.score_samples(X).mean())

    @available_if(lambda self: "sample" in methods_of(getattr(self, "model_", None) or self._class()))  # type: ignore[untyped-decorator]
    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """New rows, (n_samples, features)."""
        check_is_fitted(self)
        at_least(1, n_samples=n_samples)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        with eval_mode(self.model_):
            drawn = self.model_.sample(n_samples, generator=Generator().manual_seed(seed))
        rows: NDArray[Any] = drawn.flatten(1).to(getattr(torch, self.dtype)).numpy()
        return rows


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):  # type: ignore[misc]
    """A transformer around any model that has ``encode``, by default ``autoencoder``; see :class:`Estimator`.

    A code that is a distribution is given by its mean.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 6))
    >>> Encoder("ppca", {"latent": 2}).fit_transform(X).shape
    (100, 2)
    """

    standard = "autoencoder"
    needs = ("encode",)

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn to encode the rows of ``X``; there is no ``y`` to it."""
        rows = np.asarray(validate_data(self, X, dtype=self.dtype, ensure_min_samples=2))
        self._train(rows)
        with eval_mode(self.model_):
            self._n_features_out = _mean(self.model_.encode(self._tensor(rows[:1]))).flatten(1).shape[1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """The codes of the rows, (rows, latent)."""
        return self._outputs(lambda x: _mean(self.model_.encode(x)).flatten(1), X)


def _mean(code: Distribution | Tensor) -> Tensor:
    return code.mean if isinstance(code, Distribution) else code
