"""Rows of several tables as one tensor."""

from collections.abc import Sequence

import torch
from torch import Tensor


def gather(tables: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Choose rows of several tables; without a gradient by one copy.

    tables (Sequence[Tuple[Tensor, Tensor]]): The tables, and as many rows of each.
        *Shapes:* `(any number, P)`, `(n,)`
    RETURNS (Tensor): *Shape:* `(n_tables, n, P)`
    """
    if any(values.requires_grad for values, _ in tables):
        return torch.stack([values.index_select(0, rows) for values, rows in tables])
    values, rows = tables[0]
    gathered = values.new_empty(len(tables), len(rows), values.shape[1])
    for found, (values, rows) in zip(gathered, tables):
        torch.index_select(values, 0, rows, out=found)
    return gathered
