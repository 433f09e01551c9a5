"""Functions that start one training process per GPU, like `torchrun`."""

import logging
import os

import torch
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.run import parse_args, run

STOPPED = 130  # Exit status after Ctrl-C or another signal.
SECONDS_TO_STOP = "600"  # Seconds for the last step and checkpoint. PyTorch's 30 may be too few.


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


def launch(arguments: list[str], n_processes: int) -> int:
    """Run `python -m spacy elmo pretrain` in several processes that train one model.

    The processes run on this machine. Ctrl-C stops all of them.

    arguments (List[str]): Command-line arguments of `pretrain`.
    n_processes (int): Number of processes.
    RETURNS (int): The exit status of the command.
    RAISES (ChildProcessError): A process was killed.
    """
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SECONDS_TO_STOP)
    # The processes print their own, better messages.
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
