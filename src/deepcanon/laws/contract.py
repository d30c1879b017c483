"""The laws of the contract, which every deepcanon model keeps, whatever it learns and however it is trained."""

from __future__ import annotations

from typing import Any

from deepcanon.core import Batch, Model, UsageError
from deepcanon.laws.arguments import optional_arguments_matter
from deepcanon.laws.documentation import (
    constructor_is_the_configuration,
    docstring_is_complete,
    equations_are_numbered_and_cited,
    first_line_says_what_it_is,
    module_docstring_is_the_proper_name,
    other_names_are_well_formed,
    spec_round_trip,
)
from deepcanon.laws.interface import (
    examples_do_not_mix,
    generator_is_honored,
    maps_are_deterministic,
    methods_have_their_shapes,
    works_on_the_meta_device,
)
from deepcanon.laws.learning import (
    duplicated_batch_keeps_the_loss,
    every_parameter_is_trained,
    parts_add_up_to_the_whole,
    state_round_trip,
    terms_are_finite_scalars,
    training_changes_the_state,
    turns_change_only_their_own,
)
from deepcanon.laws.outcome import Outcome, outcomes

LAWS = (
    docstring_is_complete,
    module_docstring_is_the_proper_name,
    first_line_says_what_it_is,
    other_names_are_well_formed,
    equations_are_numbered_and_cited,
    constructor_is_the_configuration,
    spec_round_trip,
    terms_are_finite_scalars,
    every_parameter_is_trained,
    turns_change_only_their_own,
    training_changes_the_state,
    state_round_trip,
    duplicated_batch_keeps_the_loss,
    parts_add_up_to_the_whole,
    methods_have_their_shapes,
    maps_are_deterministic,
    generator_is_honored,
    optional_arguments_matter,
    examples_do_not_mix,
    works_on_the_meta_device,
)


def check_contract(model: Any, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of the contract for a deepcanon model."""
    if not isinstance(model, Model):
        raise UsageError(f"the contract is that of a deepcanon Model, and {type(model).__name__} is not one")
    return outcomes(LAWS, model, batch)
