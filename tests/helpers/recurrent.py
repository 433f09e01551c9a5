"""Layers of the tasks' modules, of one sequence at a time, in numpy."""

import torch


def run(layer, x):
    with torch.no_grad():
        return layer.rnn(x[None])[0][0].numpy()


def linear(layer, x):
    weights = layer.state_dict()
    return x @ weights["weight"].numpy().T + weights["bias"].numpy()
