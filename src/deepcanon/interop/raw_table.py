"""A model with the preprocessing of its table: columns as they stand in the file go in, predictions come out.

Numbers and the codes of categories are treated in torch, so that the exported graph can be compared with it; strings,
which torch does not have, become codes in nodes of ONNX around it.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from deepcanon.core import DeepcanonError, Model, methods_of
from deepcanon.data.tables.csv_cells import MISSING_AS_WRITTEN
from deepcanon.data.tables.table import Table
from deepcanon.data.tables.table_columns import UNKNOWN, Category, Date, Number

NO_CLASS = -1
"""The code of the class that is predicted where none can be."""

NUMBERS, CODES = "numbers", "codes"
CLASSES = ("prediction", "probabilities")
"""The outputs of a classifier; those of other models are called as they are in torch's graph, or ``prediction``."""


class RawTable(nn.Module):
    """A model after the preprocessing of its table: ``forward`` takes the numbers and the codes of the categories.

    The numbers are (B, columns) in double precision, NaN where they are missing. Of a classifier the outputs are the
    class and all probabilities, of a regression the mean in the units of the target, else those of the model. A
    category that the training data did not have is unknown, as it is to ``predict``; of a row with an infinite number
    there is no class, and NaN in place of numbers.
    """

    def __init__(self, model: Model[Any], table: Table) -> None:
        super().__init__()
        if dates := [column.name for column in table.columns if isinstance(column, Date)]:
            raise DeepcanonError(f"the column {dates[0]!r} holds dates, which no operation of ONNX reads")
        self.model, self.table = model, table
        self.numbers = [column for column in table.columns if isinstance(column, Number)]
        self.categories = [column for column in table.columns if isinstance(column, Category)]
        for name in ("median", "mean", "std", "bend"):
            values = [getattr(column, name) for column in self.numbers]
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64))
        places = [(i, place) for i, column in enumerate(self.categories) for place in range(column.features)]
        self.register_buffer("owner", torch.tensor([i for i, _ in places], dtype=torch.int64))
        self.register_buffer("place", torch.tensor([place for _, place in places], dtype=torch.int64))
        self.register_buffer("order", torch.tensor(self._order(), dtype=torch.int64))

    def _get_name(self) -> str:
        return type(self.model).__name__

    def _order(self) -> list[int]:
        """Where each feature stands in: standardized numbers, then where they are missing, then the categories."""
        order: list[int] = []
        number, category = 0, 2 * len(self.numbers)
        for column in self.table.columns:
            if isinstance(column, Number):
                order += [number, len(self.numbers) + number] if column.indicator else [number]
                number += 1
            else:
                order += range(category, category + column.features)
                category += column.features
        return order

    def features(self, *inputs: Tensor) -> Tensor:
        """What :meth:`~deepcanon.data.tables.table.Table.x` gives for the same rows."""
        parts: list[Tensor] = []
        if self.numbers:
            numbers, missing = inputs[0], inputs[0].isnan()
            filled, bend = torch.where(missing, self._of("median"), numbers), self._of("bend")
            if any(column.bend for column in self.numbers):
                sizes = filled.abs() / torch.where(bend > 0, bend, 1.0)
                curved = filled.sign() * (sizes + (sizes.square() + 1).sqrt()).log()  # arsinh, in runtimes without it
                filled = torch.where(bend > 0, curved, filled)
            parts += [(filled - self._of("mean")) / self._of("std"), missing]
        if self.categories:
            codes = inputs[-1].index_select(1, self._of("owner"))
            parts.append(codes == self._of("place"))
        return torch.cat([part.double() for part in parts], 1).index_select(1, self._of("order")).float()

    def forward(self, first: Tensor, second: Tensor | None = None) -> Any:
        """The predictions from the numbers and the codes; from what there is, where a table has only one of them."""
        x, model = self.features(first, *([] if second is None else [second])), cast(Any, self.model)
        if "predict" not in methods_of(self.model):
            return model(x)
        known = x.isfinite().all(1)  # an exported graph cannot refuse a row, so that it predicts nothing from it
        mean, target = torch.where(known.unsqueeze(1), model.predict(x, how="mean"), torch.nan), self.table.target
        if isinstance(target, Category):
            return torch.where(known, model.predict(x, how="mode"), NO_CLASS), mean
        return mean.double() * target.std + target.mean if isinstance(target, Number) else mean

    def example(self) -> tuple[Tensor, ...]:
        """Some rows like those of the table, with a number that is missing."""
        rows, generator = 4, torch.Generator().manual_seed(0)
        inputs: list[Tensor] = []
        if self.numbers:
            spread = torch.randn(rows, len(self.numbers), generator=generator, dtype=torch.float64)
            numbers = self._of("mean") + self._of("std") * spread
            numbers[0, 0] = torch.nan
            inputs.append(numbers)
        if self.categories:
            drawn = torch.rand(rows, len(self.categories), generator=generator)
            inputs.append((drawn * torch.tensor([len(column.values) for column in self.categories])).long())
        return tuple(inputs)

    @property
    def input_names(self) -> list[str]:
        return [name for name, there in ((NUMBERS, self.numbers), (CODES, self.categories)) if there]

    @property
    def output_names(self) -> list[str]:
        if "predict" not in methods_of(self.model):
            return []
        return list(CLASSES) if isinstance(self.table.target, Category) else ["prediction"]

    def _of(self, name: str) -> Tensor:
        return cast(Tensor, getattr(self, name))

    def with_columns(self, content: bytes) -> bytes:
        """The exported graph with an input for each column, (batch, 1), by its name, and classes by their names.

        Numbers are doubles, categories strings; both become the two inputs of the graph in nodes that stand before it.
        """
        import onnx
        from onnx import TensorProto, compose, helper

        inner = "network/"
        while any(column.name.startswith(inner) for column in self.table.columns):
            inner = f"_{inner}"
        model = compose.add_prefix(onnx.load_from_string(content), inner)
        graph, before = model.graph, []
        del graph.input[:]
        for name, kind, columns in (
            (NUMBERS, TensorProto.DOUBLE, self.numbers),
            (CODES, TensorProto.STRING, self.categories),
        ):
            parts = [column.name for column in columns]
            graph.input.extend(helper.make_tensor_value_info(part, kind, ["batch", 1]) for part in parts)
            if name == CODES:
                parts = [f"{inner}code/{part}" for part in parts]
                before += [
                    helper.make_node(
                        "LabelEncoder", [column.name], [part], domain="ai.onnx.ml", keys_strings=list(codes),
                        values_int64s=list(codes.values()),
                        default_int64=len(column.values) if column.other else UNKNOWN,
                    )
                    for column, part in zip(self.categories, parts, strict=True) if (codes := _codes(column))
                ]  # fmt: skip
            if parts:
                before.append(helper.make_node("Concat", parts, [inner + name], axis=1))
        after = []
        for output in graph.output:
            kind, shown = output.name.removeprefix(inner), output.name.removeprefix(inner)
            while any(column.name == shown for column in self.table.columns):
                shown += "_"
            if isinstance(self.table.target, Category) and kind == CLASSES[0]:
                names = list(self.table.target.values)
                after.append(
                    helper.make_node(
                        "LabelEncoder", [output.name], [shown], domain="ai.onnx.ml", values_strings=names,
                        keys_int64s=list(range(len(names))), default_string="",
                    )
                )  # fmt: skip
                output.CopyFrom(helper.make_tensor_value_info(shown, TensorProto.STRING, ["batch"]))
            else:
                after.append(helper.make_node("Identity", [output.name], [shown]))
                output.name = shown
        nodes = [*before, *graph.node, *after]
        del graph.node[:]
        graph.node.extend(nodes)
        if self.categories or after:
            model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
        onnx.checker.check_model(model)
        return model.SerializeToString()  # type: ignore[no-any-return]


def _codes(column: Category) -> dict[str, int]:
    """The code of each text of a column; where some cells are missing, that of all ways to write it."""
    known = {text: code for code, text in enumerate(column.values)}
    return {**known, **(dict.fromkeys(MISSING_AS_WRITTEN, known[""]) if "" in known else {})}
