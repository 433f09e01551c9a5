"""Start of several processes on this machine that train one model."""

import logging
import os


def launch(arguments: list[str], n_processes: int) -> int:
    """Run `python -m spacy elmo pretrain` in several processes that train one model.

    It works like `torchrun`. The processes run on this machine. Ctrl-C stops all of them.

    arguments (List[str]): Command-line arguments of `pretrain`.
    n_processes (int): Number of processes.
    RETURNS (int): The exit status of the command.
    RAISES (ChildProcessError): A process was killed.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    # Seconds for the last step and checkpoint. PyTorch's 30 may be too few.
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600")
    # The processes print their own, better messages.
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    options = ["--standalone", "--nproc-per-node", str(n_processes)]
    try:
        run(parse_args([*options, "-m", "spacy", "elmo", "pretrain", *arguments]))
    except SignalException:
        return 130  # Exit status after Ctrl-C or another signal.
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode < 0:
            raise ChildProcessError(
                f"process {rank} was ended by signal {-failure.exitcode}. Run the same command "
                f"with `resume=True` to resume from the last checkpoint."
            ) from None
        return int(failure.exitcode)
    return 0
