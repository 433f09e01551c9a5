"""How large a step's gradients and updates are, weight by weight."""

import torch
from torch import Tensor, nn

Norms = dict[str, dict[str, float]]


class StepNorms:
    """Norms of one step of a model: made when there are gradients, before they are clipped,
    and asked when the weights are updated. It holds a copy of the weights meanwhile.

    model (nn.Module): The model.
    """

    @torch.no_grad()
    def __init__(self, model: nn.Module):
        self._weights = dict(model.named_parameters())
        gradients = {
            name: weight.grad for name, weight in self._weights.items() if weight.grad is not None
        }
        self._of_gradients = _norms(gradients)
        self._before = {name: self._weights[name].clone() for name in gradients}

    @torch.no_grad()
    def read(self) -> Norms:
        """RETURNS (Dict[str, Dict[str, float]]): Euclidean norms of the gradients and of the
        updates, by the weight's name."""
        updates = {name: self._weights[name] - before for name, before in self._before.items()}
        return {"gradient_norms": self._of_gradients, "update_norms": _norms(updates)}


def _norms(tensors: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(torch.linalg.vector_norm(tensor)) for name, tensor in tensors.items()}
