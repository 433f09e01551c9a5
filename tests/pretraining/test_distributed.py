"""Two processes over gloo, as `torchrun` starts them, compute the same as one."""

import os
import shutil
import threading
from datetime import timedelta

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed import TCPStore

from spacy_elmo.language_model import processes as module
from spacy_elmo.language_model.processes import Processes
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import load_text

from helpers import forked
from helpers.calls import note_calls
from helpers.commands import run_python
from helpers.forked import forks
from helpers.prepared import content
from helpers.runs import ENVIRONMENT, metrics, run_config, run_settings, write_texts
from helpers.trainers import assert_like_one

pytestmark = pytest.mark.processes

VARIANTS = [
    {"softmax": "sampled", "accumulate_gradient": 2, "directions": "different"},
    {"softmax": "full", "optimizer": "adagrad"},
    {"softmax": "adaptive"},
    {"softmax": "sampled", "optimizer": "muon"},
]
ADAPTIVE = [{"softmax": "adaptive"}]
# Precision of each rank: "auto" on two machines, where only one has instructions for bfloat16.
UNLIKE = [{"optimizer": "muon", "precision": ("bf16", "float32")}]


def observe(folder, processes, variants):
    """Return gradients, losses and windows of some steps, and figures and weights after them."""
    return [observe_one(folder, processes, variant) for variant in variants]


def observe_one(folder, processes, variant):
    mine = {k: v[processes.rank] if isinstance(v, tuple) else v for k, v in variant.items()}
    config = run_settings(folder, batch_size=8, **mine)
    texts = (load_text(folder / name) for name in ("train.txt", "dev.txt"))
    trainer = Trainer(config, *texts, processes=processes)
    patch = pytest.MonkeyPatch()  # of this trainer alone

    def gradients_of(rows):
        of_bilm = [weight.grad for weight in trainer.model.bilm.parameters()]
        return [g.clone() for g in (*of_bilm, *trainer.optimizers.softmax_gradients(rows))]

    gradients = note_calls(patch, trainer.optimizers, "clip", gradients_of)
    read = note_calls(patch, trainer, "_loss", lambda part, *_: torch.from_numpy(part.targets))
    losses = [trainer.step() for _ in range(3)]
    figures = [trainer.evaluate()[0].to_dict()]
    weights = [weight.detach() for weight in trainer.model.parameters()]
    found = {"gradients": gradients, "read": read, "losses": losses, "figures": figures}
    return {**found, "weights": weights, "state": trainer.state_dict()["hidden"]}


def observe_and_save(folder, jobs):
    """Run the steps in each process. The single process calls `observe`, too."""
    processes = Processes.join()
    try:
        found = [observe(texts, processes, variants) for texts, variants in jobs]
        torch.save(found, folder / f"{processes.rank}.pt")
    finally:
        processes.leave()


def run_two(work, *arguments, statuses=(0, 0)):
    """Call a function in two processes, and return what they print. They are killed if they wait
    for each other forever. They meet at a store of this process, as with `torchrun`. The store
    listens before any process gets its port. The processes are forks, which need not import PyTorch
    and spaCy again. Only `test_a_run_on_two_processes_equals_one` starts new processes."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    shared["TORCHELASTIC_USE_AGENT_STORE"] = "True"

    def begin(rank):
        os.environ.update(**shared, RANK=rank, LOCAL_RANK=rank)
        work(*arguments)

    started, found = [forked.start(begin, rank) for rank in "01"], []
    try:
        for (process, printed), status in zip(started, statuses):
            found.append(printed.read().decode())
            process.join()
            assert process.exitcode == status, found
    finally:
        for process, printed in started:
            process.kill()
            process.join()
            printed.close()
    return found


def write_uneven_texts(folder):
    """Write texts whose first half, which the first process reads, has no rare word."""
    common = [f"c{i}" for i in range(8)]
    lines = [" ".join(common)] * 30
    lines += [" ".join([f"r{i}", f"r{i + 1}", *common[:6]]) for i in range(30)]
    (folder / "train.txt").write_text("".join(line + "\n" for line in lines), "utf8")
    (folder / "dev.txt").write_text("c1 c2 r3\nc4 c5 r5\n", "utf8")


def assert_near(found, expected, tolerance):
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours - theirs).norm() <= tolerance * theirs.norm() + 1e-9


@pytest.mark.training
@forks
def test_two_processes_compute_the_same_as_one(tmp_path):
    """The variants include an adaptive softmax whose tail gets no gradient in one process.

    Another variant has processors of two kinds.
    """
    usual, uneven = tmp_path / "usual", tmp_path / "uneven"
    for folder, write in ((usual, write_texts), (uneven, write_uneven_texts)):
        folder.mkdir()
        write(folder)
    run_two(observe_and_save, tmp_path, [(usual, VARIANTS), (uneven, ADAPTIVE), (usual, UNLIKE)])
    both = zip(*(torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)))
    of_usual, of_uneven, of_unlike = (list(zip(*found)) for found in both)
    alone = observe(usual, Processes(), VARIANTS)
    for variant, found, one in zip(VARIANTS, of_usual, alone):
        for two in found:
            assert_near(two["gradients"][0], one["gradients"][0], 1e-5)
            for gradients, expected in zip(two["gradients"], one["gradients"]):
                assert_near(gradients, expected, 1e-3)
            assert_near(two["weights"], one["weights"], 1e-3)
            assert_near([two["state"]], [one["state"]], 1e-3)
            assert two["figures"] == [pytest.approx(one["figures"][0], rel=1e-4)]
        n_parts = variant.get("accumulate_gradient", 1)
        for step in range(3):
            parts = slice(step * n_parts, (step + 1) * n_parts)
            shares = [part.view(2, 8, -1) for two in found for part in two["read"][parts]]
            whole = [part.view(2, 8, -1) for part in one["read"][parts]]
            # Each stream is read by one process: side by side they are the batch.
            assert torch.equal(torch.cat(shares, dim=2), torch.cat(whole, dim=2))
            mean = np.mean([two["losses"][step] for two in found])
            assert mean == pytest.approx(one["losses"][step], rel=1e-4)
    (one,) = observe(uneven, Processes(), ADAPTIVE)
    for two in of_uneven[0]:
        assert_near(two["gradients"][0], one["gradients"][0], 1e-5)
    # Both have the same numbers, bit by bit, or they would drift apart.
    assert of_unlike[0][0]["losses"] == of_unlike[0][1]["losses"]
    for first, second in [*of_usual, *of_unlike]:
        for ours, theirs in zip(first["weights"], second["weights"], strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.training
def test_a_run_on_two_processes_equals_one(folder):
    """The whole command runs: one process writes and prints, and one process can resume."""
    settings = {"max_steps": 6, "eval_frequency": 2, "checkpoint_minutes": 1e-9, "keep": 10}
    run_config(folder, **settings, state_reset=0.3).to_disk(folder / "run.cfg")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, "-m", "spacy", "elmo", "pretrain", "run.cfg", "--output", "two"]
    shown = run_python(*command, cwd=folder, **ENVIRONMENT)
    assert shown.count("Best held-out perplexity") == 1
    assert shown.count("words in the softmax") == 1

    alone = run_settings(folder, **settings, state_reset=0.3)
    pretrain(alone, folder / "one")
    assert content(folder / "two").keys() == content(folder / "one").keys()

    # A checkpoint of two processes, resumed by one.
    shutil.copytree(folder / "two", folder / "changed")
    for path in (folder / "changed" / "checkpoints").glob("*.pt"):
        if int(path.stem.split("-")[1]) > 3:
            path.unlink()
    assert pretrain(alone, folder / "changed", resume=True)
    for name in ("changed", "two"):
        assert_like_one(folder / name, folder / "one", ("perplexity", "sampled_loss"))


def restarted(folder):
    if os.environ["RANK"] == "1":
        os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"
    pretrain(run_settings(folder, max_steps=4, eval_frequency=2), folder / "out", overwrite=True)


@pytest.mark.training
@forks
def test_a_restart_after_the_other_machine_failed_resumes(folder):
    """`torchrun` counts restarts on the machine of the process that failed. The first process, on
    another machine, must not begin again."""
    pretrain(run_settings(folder, max_steps=2, eval_frequency=2), folder / "out")
    run_two(restarted, folder)
    assert [row["step"] for row in metrics(folder / "out")] == [2, 4]


def silent():
    """Join and never answer. The timeout is short only after both processes have joined, however
    long that took."""
    processes = Processes.join()
    assert dist.group.WORLD._get_backend(module.CPU).options._timeout == module.STEP_PATIENCE
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), dist.group.WORLD)
    processes.wait()
    if processes.rank == 1:
        threading.Event().wait()
    try:
        with processes.together():
            processes.sum([1.0])
    except ConnectionError as error:
        print(error)
        os._exit(3)


@forks
def test_a_process_that_never_answers_ends_the_run(tmp_path):
    """The connection stays open, as if the other machine was switched off."""
    (errors,) = run_two(silent, statuses=(3,))
    assert "another process of the run ended" in errors
    assert "`resume=True`" in errors
