"""Communities, clusters and influence as networkx finds them, on the karate club and on planted blocks."""

import networkx
import pytest
import torch

from deepcanon.core import Graph, Graphs
from deepcanon.data import load_data
from deepcanon.insights.communities import communities


def test_the_karate_club() -> None:
    finding = communities(load_data("karate").train)
    found = finding.numbers
    source = networkx.Graph(networkx.karate_club_graph().edges)
    clubs = [{n for n in range(34) if found["classes"]["labels"][n] == c} for c in (0, 1)]
    assert found["classes"]["modularity"] == pytest.approx(networkx.community.modularity(source, clubs), abs=1e-9)
    assert found["communities"]["modularity"] > found["classes"]["modularity"]
    labels = found["spectral clusters"]["labels"]
    agree = sum(a == b for a, b in zip(labels, found["classes"]["labels"], strict=True))
    assert max(agree, 34 - agree) == 32  # as by the signs of the Fiedler vector
    rank = networkx.pagerank(source, tol=1e-12)
    assert [each["node"] for each in found["influential"]] == sorted(rank, key=lambda n: -rank[n])[:5]
    assert len(finding.says) == 4


def test_planted_blocks_are_recovered() -> None:
    found = communities(load_data("block-model").train).numbers
    assert found["communities"]["number"] == 4
    assert found["communities"]["rand_to_classes"] > 0.85
    assert found["spectral clusters"]["rand_to_classes"] > 0.9


def test_without_classes_as_many_clusters_as_communities() -> None:
    graph = Graph.from_networkx(networkx.ring_of_cliques(5, 4))
    found = communities(Graphs(torch.ones(20, 1), graph)).numbers
    assert "classes" not in found
    assert found["communities"]["number"] == found["spectral clusters"]["number"] == 5
    assert communities(Graphs(torch.ones(20, 1), graph), clusters=2).numbers["spectral clusters"]["number"] == 2
