"""The label model of weak supervision: how good each source of votes is, and who copies whom, learned by EM."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

ITERATIONS = 60
SMOOTHING = 0.1
"""What is added to every count, so that nothing is impossible."""
TRUST = 0.9
"""How often a source is right before anything is known of it."""
DEPENDENT = 0.1
"""Two sources depend on each other from so many nats of mutual information given the class on."""


class LabelModel(nn.Module):
    r"""Votes as those of sources that depend on the class alone, but for pairs that depend on each other, too.

    .. math:: p(y, v) = \pi_y \prod_{j \text{ alone}} p_j(v_j \mid y)
              \prod_{(i, j) \text{ a pair}} p_{ij}(v_i, v_j \mid y)

    A vote is a class or none, so that abstentions may say something, too. All is kept as buffers: the logarithms of the
    prior, of the tables of single sources and of those of pairs, and the partner of each source, or -1.

    References:
        | Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm (Dawid and Skene, 1979),
          https://doi.org/10.2307/2346806
        | Data Programming: Creating Large Training Sets, Quickly (Ratner et al., 2016),
          https://arxiv.org/abs/1605.07723
    """

    prior: Tensor
    tables: Tensor
    joint: Tensor
    partner: Tensor

    def __init__(self, classes: int, sources: int) -> None:
        super().__init__()
        self.classes, self.sources = classes, sources
        votes = classes + 1  # none is a vote, too: it is the first
        # Before anything is known of them, all sources are trusted alike.
        trusted = torch.cat([torch.full((classes, 1), 1 / votes), TRUST * torch.eye(classes) + (1 - TRUST) / votes], 1)
        self.register_buffer("prior", torch.full((classes,), 1 / classes).log())
        self.register_buffer("tables", (trusted / trusted.sum(1, keepdim=True)).log().repeat(sources, 1, 1))
        self.register_buffer("joint", torch.zeros(sources, classes, votes, votes))
        self.register_buffer("partner", torch.full((sources,), -1, dtype=torch.long))

    def forward(self, votes: Tensor) -> Tensor:
        """The probabilities of the classes given the votes, (B, classes)."""
        return self.log_joint(votes).softmax(-1)

    def log_joint(self, votes: Tensor) -> Tensor:
        """The log-probability of each class together with the votes, (B, classes)."""
        said, sources = votes + 1, torch.arange(self.sources, device=votes.device)
        partners = self.partner.clamp_min(0)
        alone = self.tables[sources, :, said]  # (B, sources, classes)
        paired = self.joint[sources, :, said, said[:, partners]]
        counts = torch.where(self.partner < 0, 0, torch.where(sources < self.partner, 1, 2)).view(1, -1, 1)
        terms = torch.where(counts == 0, alone, torch.where(counts == 1, paired, 0.0))  # a pair counts once
        return self.prior + terms.sum(1)

    def fit(self, votes: Tensor, *, pairs: bool = True) -> list[float]:
        """Learn from votes by EM, with a further pair as long as two sources depend on each other.

        What is returned are the mean log-likelihoods on the way.
        """
        self.partner.fill_(-1)
        counts = one_hot(votes + 1, self.classes + 1)[..., 1:].sum(1).to(self.prior)
        shares = (counts + SMOOTHING) / (counts + SMOOTHING).sum(1, keepdim=True)  # the votes themselves, to begin with
        found = self._iterate(votes, shares)
        while pairs and (chosen := self._most_dependent(votes, self(votes))) is not None:
            one, other = chosen
            self.partner[one], self.partner[other] = other, one
            found += self._iterate(votes, self(votes))
        return found

    def _iterate(self, votes: Tensor, shares: Tensor) -> list[float]:
        said = one_hot(votes + 1, self.classes + 1).to(shares)  # (B, sources, votes)
        found = []
        for _ in range(ITERATIONS):
            self.prior.copy_(_logs(shares.sum(0)))
            self.tables.copy_(_logs(torch.einsum("bc,bsv->scv", shares, said)))
            for source, partner in enumerate(self.partner.tolist()):
                if source < partner:
                    both = torch.einsum("bc,bv,bw->cvw", shares, said[:, source], said[:, partner])
                    self.joint[source] = _logs(both.flatten(1)).view_as(both)
            log_joint = self.log_joint(votes)
            found.append(float(log_joint.logsumexp(-1).mean()))
            shares = log_joint.softmax(-1)
        return found

    def _most_dependent(self, votes: Tensor, shares: Tensor) -> tuple[int, int] | None:
        """The two sources without a partner that depend most on each other given the class, if they depend enough."""
        said = one_hot(votes + 1, self.classes + 1).to(shares)
        free = [source for source, partner in enumerate(self.partner.tolist()) if partner < 0]
        found = [
            (float(_information(torch.einsum("bc,bv,bw->cvw", shares, said[:, i], said[:, j]))), i, j)
            for i in free
            for j in free
            if i < j
        ]
        most, one, other = max(found, default=(0.0, -1, -1))
        return (one, other) if most > DEPENDENT else None


def _logs(counts: Tensor) -> Tensor:
    smooth = counts + SMOOTHING
    return (smooth / smooth.sum(-1, keepdim=True)).log()


def _information(counts: Tensor) -> Tensor:
    """The mutual information of two votes given the class, in nats, from counts (classes, votes, votes)."""
    shares = counts / counts.sum()
    of_class = shares.sum((1, 2), keepdim=True)
    independent = shares.sum(2, keepdim=True) * shares.sum(1, keepdim=True) / of_class.clamp_min(1e-30)
    return (shares.xlogy(shares) - shares.xlogy(independent)).sum()
