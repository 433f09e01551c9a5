import numpy as np
import pytest
import torch

from spacy_elmo.bilm.gather import gather


@pytest.mark.parametrize("n_rows", [0, 4])
def test_gather(n_rows):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, 3)) for n in (5, 2)]
    rows = [rng.integers(len(array), size=n_rows) for array in arrays]
    expected = np.stack([array[chosen] for array, chosen in zip(arrays, rows)])
    leaves = [torch.from_numpy(array).requires_grad_() for array in arrays]
    places = [torch.from_numpy(chosen) for chosen in rows]
    with_graph = gather(list(zip(leaves, places)))
    without = gather([(leaf.detach(), chosen) for leaf, chosen in zip(leaves, places)])
    np.testing.assert_array_equal(with_graph.detach().numpy(), expected)
    np.testing.assert_array_equal(without.numpy(), expected)
    with_graph.sum().backward()
    for leaf, chosen in zip(leaves, rows):
        counts = np.bincount(chosen, minlength=len(leaf))
        np.testing.assert_array_equal(leaf.grad.numpy(), np.repeat(counts[:, None], 3, axis=1))
