"""A folder with small inputs of every kind that the pages' commands read."""

import shutil
from itertools import product
from pathlib import Path

import spacy
from spacy.tokens import DocBin, Span

from helpers.commands import run_elmo
from helpers.page_blocks import ROOT

WHO = ("Maria", "The bank", "My friend", "A dog", "The old river")
DOES = ("lends", "likes", "sees", "has")
WHAT = ("money", "the bank in Rome", "the river bank", "an account")
SENTENCES = [f"{who} {does} {what}." for who, does, what in product(WHO, DOES, WHAT)]


def make_workplace(folder: Path) -> None:
    """Fill a folder.

    folder (Path): An empty folder.
    """
    for name in ("benchmarks", "configs", "constraints.txt", "Makefile"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    (folder / "my_text").mkdir()
    (folder / "my_text" / "one.txt").write_text(" ".join(SENTENCES), "utf8")
    for name, part in (("dev", 7), ("test", 9)):
        (folder / f"{name}.txt").write_text(" ".join(SENTENCES[::part]), "utf8")
    lines = [sentence.replace(".", " .") for sentence in SENTENCES[::4]]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", "utf8")
    for name, part in (("train", 2), ("dev", 7), ("test", 9)):
        _write_docs(SENTENCES[::part], folder / f"{name}.spacy")


def pretrain(folder: Path) -> None:
    """Make `pretraining/model-best` from the text of the folder, with a softmax of its words."""
    paths = ["--corpus", folder / "my_text", "--dev", folder / "dev.txt"]
    config = folder / "pretrain.cfg"
    options = ["--format", "text", "--lang", "en", "--budget", "2 cores, 60 minutes"]
    run_elmo("init-pretraining", config, *paths, *options)
    limits = ["--training.max_steps", "4", "--training.eval_frequency", "4"]
    run_elmo("pretrain", config, "--output", folder / "pretraining", *limits)
    config.unlink()


def _write_docs(texts: list[str], path: Path) -> None:
    """Docs with entities, tags, categories and senses, after simple rules."""
    docs = DocBin(store_user_data=True)
    for doc in spacy.blank("en").pipe(texts):
        labels = {"Maria": "PERSON", "Rome": "GPE"}
        doc.ents = [Span(doc, t.i, t.i + 1, labels[t.text]) for t in doc if t.text in labels]
        for token in doc:
            token.tag_ = "NN" if token.i in (0, len(doc) - 2) else "VB"
            token.is_sent_start = token.i == 0
        doc.cats = {"RIVER": float("river" in doc.text), "OTHER": float("river" not in doc.text)}
        sense = "shore" if "river" in doc.text else "house"
        doc.spans["senses"] = [Span(doc, t.i, t.i + 1, sense) for t in doc if t.text == "bank"]
        docs.add(doc)
    docs.to_disk(path)
