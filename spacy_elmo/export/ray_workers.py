"""Parallel work on tasks by the processes of a Ray cluster."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..files.optional import import_optional
from ..text.workers import Label, Result

# Retries of a task if its process is killed.
RETRIES = 3


def map_with_ray(
    function: Callable[..., Result],
    tasks: Sequence[tuple[Label, tuple]],
    *,
    gpus_per_worker: float = 0,
) -> Iterator[tuple[Label, Result]]:
    """Call a function for each task, in one process for each processor or GPU of the cluster.

    The cluster is the connected one, else the one in the variable RAY_ADDRESS, else a new one on
    this machine.

    function (Callable): A function that every machine of the cluster can import.
    tasks (Sequence[Tuple[Any, tuple]]): A label and the arguments of each task.
    gpus_per_worker (float): GPUs reserved for each process.
    YIELDS (Tuple[Any, Any]): The label and the result of a task, in order of completion.
    RAISES (ImportError): Ray is not installed.
    RAISES (OSError): The cluster cannot be reached, a task was killed several times, or the
        function raised an OSError.
    """
    ray = import_optional("ray", "`workers=ray`")
    is_ours = not ray.is_initialized()
    if is_ours:
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise OSError(
                f"no connection to a Ray cluster: {error}. Check the variable RAY_ADDRESS."
            ) from error
    try:
        yield from _map(ray, function, tasks, gpus_per_worker)
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ChildProcessError(f"Ray stopped: {reason}") from error
    finally:
        if is_ours:
            ray.shutdown()


def _map(
    ray: Any, function: Callable[..., Any], tasks: Sequence[tuple[Any, tuple]], n_gpus: float
) -> Iterator[tuple[Any, Any]]:
    # max_calls=0: a process keeps its model for the next task, also on a GPU.
    call = ray.remote(num_cpus=1, num_gpus=n_gpus, max_retries=RETRIES, max_calls=0)(_call)
    labels = {call.remote(function, arguments): label for label, arguments in tasks}
    try:
        while labels:
            (done,), _ = ray.wait(list(labels))
            label = labels.pop(done)
            result = ray.get(done)
            if isinstance(result, OSError):
                raise result
            yield label, result
    finally:
        for task in labels:
            ray.cancel(task)


def _call(function: Callable[..., Any], arguments: tuple) -> Any:
    try:
        return function(*arguments)
    except OSError as error:  # Ray would wrap this error, such as a full disk.
        return error
