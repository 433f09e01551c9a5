"""LSTM with projection by its formula, step by step, by autograd; the package is compared with
it."""

import torch
import torch.nn.functional as F


def plain_loop(lstm, inputs, batch_sizes, hidden, cell, product_dtype=None):
    """Arguments and results as `ProjectedLSTM.forward`; the type of products is not looked at."""
    products = F.linear(inputs, lstm.input_weight, lstm.full_bias()).split(batch_sizes)
    outputs, ended_hidden, ended_cell = [], [], []
    for size, product in zip(batch_sizes, products):
        if size < len(hidden):
            ended_hidden.append(hidden[size:])
            ended_cell.append(cell[size:])
            hidden, cell = hidden[:size], cell[:size]
        hidden, cell = plain_step(lstm, product, hidden, cell)
        outputs.append(hidden)
    ended_hidden.append(hidden)
    ended_cell.append(cell)
    return torch.cat(outputs), torch.cat(ended_hidden[::-1]), torch.cat(ended_cell[::-1])


def plain_step(lstm, product, hidden, cell):
    """One step from `W x + b` of its input."""
    i, j, f, o = torch.addmm(product, hidden, lstm.state_weight.t()).chunk(4, dim=1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(j)
    if lstm.cell_clip is not None:
        cell = cell.clamp(-lstm.cell_clip, lstm.cell_clip)
    hidden = torch.sigmoid(o) * torch.tanh(cell)
    if lstm.projection is not None:
        hidden = F.linear(hidden, lstm.projection)
        if lstm.proj_clip is not None:
            hidden = hidden.clamp(-lstm.proj_clip, lstm.proj_clip)
    return hidden, cell
