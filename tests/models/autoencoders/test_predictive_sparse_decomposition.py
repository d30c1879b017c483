"""The optimal codes are those of the lasso, and the encoder learns to predict them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso
from torch.nn.functional import normalize

import deepcanon as dc
from deepcanon.core import Batch
from deepcanon.models.autoencoders.predictive_sparse_decomposition import PredictiveSparseDecomposition


def test_the_minimizer_is_that_of_the_lasso() -> None:
    """The energy is a lasso whose last equations are those of the predicted code."""
    torch.manual_seed(0)
    model = PredictiveSparseDecomposition(5, 8, sparsity=0.6, prediction=0.4, shrinkage_steps=2000).double()
    x = torch.randn(4, 5, dtype=torch.float64)
    predicted = model.encode(x).detach()
    root = 0.4**0.5
    design = torch.cat([model.dictionary.detach(), root * torch.eye(8, dtype=torch.float64)]).numpy()
    for row, code in zip(torch.cat([x, root * predicted], 1).numpy(), model.minimize(x).numpy(), strict=True):
        # scikit-learn minimizes |y - X w|^2 / (2 n) + alpha |w|_1
        lasso = Lasso(alpha=0.6 / (2 * len(row)), fit_intercept=False, tol=1e-14, max_iter=100_000).fit(design, row)
        np.testing.assert_allclose(code, lasso.coef_, rtol=0, atol=1e-9)
    assert (model.minimize(x) == 0).any()


def test_the_terms_are_the_energy_of_the_optimal_code() -> None:
    model = PredictiveSparseDecomposition(5, 8, sparsity=0.6, prediction=0.4).double()
    x = torch.randn(4, 5, dtype=torch.float64)
    z, predicted = model.minimize(x), model.encode(x)
    energy = (x - z @ model.dictionary.T).square().sum(-1) + 0.6 * z.abs().sum(-1)
    wanted = (energy + 0.4 * (z - predicted).square().sum(-1)).mean()
    torch.testing.assert_close(torch.stack(list(model.loss(Batch(x)).values())).sum(), wanted)


@pytest.mark.slow
def test_a_planted_dictionary_is_found_and_its_codes_predicted() -> None:
    torch.manual_seed(0)
    dictionary = normalize(torch.randn(10, 10), dim=0)
    codes = torch.randn(3000, 10) * 2 * (torch.rand(3000, 10) < 0.15)
    data = dc.from_tensors(codes @ dictionary.T + 0.01 * torch.randn(3000, 10))
    model = PredictiveSparseDecomposition(features=10, latent=10, sparsity=0.3, prediction=0.1)
    dc.fit(model, data, epochs=25, lr=3e-2, quiet=True, evaluate=False)
    alike = (model.dictionary.detach().T @ dictionary).abs().amax(0)
    assert alike.median() > 0.95, alike
    terms = model.loss(data.train)
    assert terms["reconstruction"] < 0.1 * data.train.x.square().sum(-1).mean()
    torch.testing.assert_close(model.dictionary.norm(dim=0), torch.ones(10))
