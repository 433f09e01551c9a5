"""Choice of GPUs."""

import os

import torch


def choose_gpus(text: str) -> list[str]:
    """Convert ids of GPUs to values for CUDA_VISIBLE_DEVICES.

    text (str): Ids such as "0,1,2,3". If CUDA_VISIBLE_DEVICES is set, 0 is the first GPU in it.
    RETURNS (List[str]): One value for each GPU.
    RAISES (ValueError): The text does not consist of different ids, or PyTorch does not see a GPU.
    """
    numbers = [number.strip() for number in text.split(",")]
    if not all(map(str.isdecimal, numbers)) or len({*map(int, numbers)}) < len(numbers):
        raise ValueError(f"`gpus` must be a list of different ids, such as 0,1,2,3; got '{text}'")
    n_gpus = torch.cuda.device_count()
    if not n_gpus:
        raise ValueError("`gpus`: PyTorch sees no GPU here. Omit it to train on processors.")
    missing = [number for number in numbers if int(number) >= n_gpus]
    if missing:
        raise ValueError(
            f"`gpus`: there is no GPU {', '.join(missing)}; PyTorch sees {n_gpus}, counted from 0"
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return [visible[int(number)] if visible[0] else str(int(number)) for number in numbers]
