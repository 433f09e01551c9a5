"""Start of one process for each GPU, as `torchrun` does."""

import logging
import os

import torch
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

STOPPED = 130  # exit status
SECONDS_TO_STOP = "600"  # for the last step and its checkpoint; PyTorch's 30 may be too few


def choose_gpus(text: str) -> list[str]:
    """Find the GPUs with these numbers.

    text (str): Numbers such as "0,1,2,3", among the GPUs visible by CUDA_VISIBLE_DEVICES.
    RETURNS (List[str]): Their names for CUDA_VISIBLE_DEVICES.
    RAISES (ValueError): The text has no numbers, or PyTorch does not see such a GPU.
    """
    numbers = [number.strip() for number in text.split(",")]
    if not all(map(str.isdecimal, numbers)) or len({*map(int, numbers)}) < len(numbers):
        raise ValueError(f"`gpus` takes different numbers, such as 0,1,2,3; got '{text}'")
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


def launch(arguments: list[str], n_processes: int) -> int:
    """Run `python -m spacy elmo pretrain` in several processes that train together.

    They run on this machine, and Ctrl-C reaches all of them.

    arguments (List[str]): Arguments of the command.
    n_processes (int): Number of processes.
    RETURNS (int): The exit status of the command.
    RAISES (ChildProcessError): A process was killed.
    """
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SECONDS_TO_STOP)
    # The processes print better messages.
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    options = ["--standalone", "--nproc-per-node", str(n_processes)]
    try:
        run(parse_args([*options, "-m", "spacy", "elmo", "pretrain", *arguments]))
    except SignalException:
        return STOPPED
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:
            raise ChildProcessError(
                f"process {rank} was ended by signal {-failure.exitcode}. Run the same command "
                f"with `resume=True` to resume from the last checkpoint."
            ) from None
        return int(failure.exitcode)
    return 0
