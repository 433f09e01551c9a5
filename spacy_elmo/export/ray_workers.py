"""Parallel work on tasks by the actors of a Ray cluster."""

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from ..text.workers import Label, Result

# Retries of a task if the process of its actor is killed.
RETRIES = 3


def map_with_ray(
    function: Callable[..., Result],
    tasks: Sequence[tuple[Label, tuple]],
    *,
    address: Optional[str] = None,
    gpus_per_worker: float = 0,
) -> Iterator[tuple[Label, Result]]:
    """Call a function on each task, with an actor for each processor or GPU of the cluster.

    function (Callable): A function that every machine of the cluster can import.
    tasks (Sequence[Tuple[Any, tuple]]): A label and the arguments of each task.
    address (Optional[str]): Address of the cluster for `ray.init`. Default: the connected cluster,
        else RAY_ADDRESS, else a new cluster on this machine.
    gpus_per_worker (float): GPUs reserved for each actor.
    YIELDS (Tuple[Any, Any]): The label and the result of a task, in order of completion.
    RAISES (ImportError): Ray is not installed.
    RAISES (OSError): The cluster cannot be reached, a task was killed several times, or the
        function raised an OSError.
    """
    try:
        import ray.data
    except ImportError as error:
        raise ImportError(
            f"`workers=ray` needs Ray, which cannot be imported ({error}). Run "
            f'pip install "spacy-elmo[ray]".'
        ) from error
    is_ours = not ray.is_initialized()
    if is_ours:
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise OSError(
                f"no Ray cluster at '{address or 'auto'}': {error}. Check `address`."
            ) from error
    try:
        yield from _map(ray, function, tasks, gpus_per_worker)
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ChildProcessError(f"Ray stopped after {RETRIES + 1} attempts: {reason}") from error
    finally:
        if is_ours:
            ray.shutdown()


def _map(
    ray: Any, function: Callable[..., Any], tasks: Sequence[tuple[Any, tuple]], n_gpus: float
) -> Iterator[tuple[Any, Any]]:
    if not tasks:
        return
    found = ray.cluster_resources()
    n_workers = int(found.get("GPU", 0) / n_gpus if n_gpus else found.get("CPU", 1))
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    items = [{"number": i, "task": pickle.dumps(task)} for i, (_, task) in enumerate(tasks)]
    results = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        _Caller,
        fn_constructor_args=(function,),
        batch_size=1,
        batch_format="pyarrow",
        # Allow many actors, because the cluster may grow during the run.
        compute=ray.data.ActorPoolStrategy(
            min_size=1,
            max_size=len(tasks),
            initial_size=min(max(n_workers, 1), len(tasks)),
            max_tasks_in_flight_per_actor=1,
        ),
        num_cpus=1,
        num_gpus=n_gpus,
        max_restarts=-1,
        max_task_retries=RETRIES,
    )
    for row in results.iter_rows():
        result = pickle.loads(row["result"])
        if isinstance(result, Exception):
            raise result
        yield tasks[row["number"]][0], result


class _Caller:
    """Actor that calls the function on tasks.

    function (Callable): The function.
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def __call__(self, batch: Any) -> Any:
        import pyarrow as pa

        tasks = map(pickle.loads, batch["task"].to_pylist())
        results = pa.array([pickle.dumps(self._call(*task)) for task in tasks], pa.binary())
        return pa.table({"number": batch["number"], "result": results})

    def _call(self, *arguments: Any) -> Any:
        try:
            return self.function(*arguments)
        except OSError as error:  # Ray would wrap this error, such as a full disk.
            return error
