"""What tells models apart."""

import hashlib
import json

import torch
from torch import nn

from ..frozen.config import BiLMConfig
from ..frozen.vocabulary import Vocabularies


def digest(config: BiLMConfig, module: nn.Module, vocabularies: Vocabularies) -> str:
    """Compute the checksum of a model.

    config (BiLMConfig): Its sizes.
    module (nn.Module): Its weights.
    vocabularies (Vocabularies): What its token encoder looks up.
    RETURNS (str): SHA-256 of all three, in hexadecimal.
    """
    found = hashlib.sha256(json.dumps(config.to_dict(), sort_keys=True).encode())
    for name, weight in module.state_dict().items():
        values = weight.detach().cpu().contiguous()
        found.update(f"{name} {values.dtype} {tuple(values.shape)} ".encode())
        found.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    for name, vocabulary in vocabularies._asdict().items():
        if vocabulary is not None:
            found.update(f"{name} ".encode() + vocabulary.to_bytes())
    return found.hexdigest()
