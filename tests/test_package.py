"""Promises of the package to spaCy: entry points, light and safe imports."""

import ast
import re
from importlib import metadata
from pathlib import Path

import pytest
import srsly
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import spacy_elmo.vectors

from helpers.commands import run_python

ROOT = Path(__file__).parents[1]
FLAG = re.compile(r"(?<![\w-])--[a-z]")
COMMAND = re.compile(r"spacy elmo|torchrun|python -m")
# The names of each group. Most of them are spacy-elmo.NAME.
GROUPS = {
    "factories": "elmo elmo_coref elmo_crf elmo_qa elmo_srl elmo_textpair",
    "architectures": "BCN.v1 BiDAFSelfAttention.v1 BiLM.v1 BiRNN.v1 CRFTagger.v1 ConcatEmbed.v1"
    " Coref.v1 ESIM.v1 ElmoListener.v1 HighwayLSTM.v1 OutputConcat.v1 PretrainBiLM.v1 SRL.v1"
    " ScalarMix.v1 TagLMEncoder.v1 Tok2VecElmo.v1",
    "feature_caches": "disk.v1 memory.v1",
    "readers": "BIOCorpus.v1 CorefCorpus.v1 HIPECorpus.v1 QACorpus.v1 SRLCorpus.v1"
    " TextPairCorpus.v1",
    "scorers": "coref_scorer.v1 crf_scorer.v1 qa_scorer.v1 srl_scorer.v1 textpair_scorer.v1",
    "segmenters": "doc.v1 sentences.v1 sentences.v2 spans.v1 windows.v1",
    "weights_readers": "allennlp.v1 manylangs.v1 safetensors.v1 untrained.v1",
    "cli": "elmo",
}


def ours(group):
    points = metadata.entry_points(group=f"spacy_{group}")
    return {point.name: point for point in points if point.value.startswith("spacy_elmo.")}


@pytest.mark.parametrize("group", GROUPS)
def test_entry_points_are_found(group):
    points = ours(group)
    prefix = "" if group in ("factories", "cli") else "spacy-elmo."
    assert sorted(points) == [f"{prefix}{name}" for name in GROUPS[group].split()]
    for point in points.values():
        assert callable(point.load())


@pytest.mark.processes
def test_imports_are_light():
    """The package imports nothing else, and modules with entry points import no torch.

    Thinc itself imports torch, so torch is made unimportable here, which Thinc accepts.
    """
    modules = {point.value.split(":")[0] for group in GROUPS for point in ours(group).values()}
    code = (
        "import importlib, sys; before = set(sys.modules); import spacy_elmo\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert names - set(sys.stdlib_module_names) == {'spacy_elmo'}, names\n"
        "for name in ('torch', 'h5py', 'safetensors'): sys.modules[name] = None\n"
        f"for name in {sorted(modules)}: importlib.import_module(name)\n"
    )
    run_python("-c", code)


def test_every_file_has_the_same_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", spacy_elmo.__version__)
    assert metadata.version("spacy-elmo") == spacy_elmo.__version__
    assert f"\nversion: {spacy_elmo.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf8")
    assert f"version = {{{spacy_elmo.__version__}}}" in (ROOT / "README.md").read_text("utf8")


def test_the_conda_recipe_has_the_dependencies_of_the_package():
    """PyTorch is called pytorch there."""
    recipe = srsly.read_yaml(ROOT / "wheels" / "conda" / "recipe.yaml")
    assert recipe["context"]["version"] == spacy_elmo.__version__
    found = [line.replace("pytorch", "torch") for line in recipe["requirements"]["run"]]
    wanted = [Requirement(line) for line in metadata.requires("spacy-elmo")]
    wanted = {one.name: one.specifier for one in wanted if not one.marker}
    assert found.pop(0) == "python"
    assert {name: SpecifierSet(pin) for name, pin in map(str.split, found)} == wanted
    for file in recipe["about"]["license_file"]:
        assert (ROOT / file).is_file()


def test_public_names():
    assert dir(spacy_elmo) == ["__version__", "pretrained"]


def test_only_the_command_line_names_its_options():
    """Other modules name settings, which the commands show as their options.

    A whole command is allowed.
    """
    found = []
    for path in (ROOT / "spacy_elmo").rglob("*.py"):
        source = path.read_text("utf8")
        if path.parent.name == "cli" or not FLAG.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            text = ast.unparse(node) if isinstance(node, ast.Raise) else ""
            if FLAG.search(text) and not COMMAND.search(text):
                found.append(f"{path.name}:{node.lineno}: {text}")
    assert not found
