"""What the package promises to spaCy: entry points, light and safe imports."""

import ast
import re
from importlib import metadata
from pathlib import Path

import pytest
import srsly
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from spacy import registry

import spacy_elmo

from helpers.commands import run_python

FLAG = re.compile(r"(?<![\w-])--[a-z]")
COMMAND = re.compile(r"spacy elmo|torchrun|tensorboard|python -m")
GROUPS = {
    "spacy_factories": [
        "elmo",
        "elmo_coref",
        "elmo_crf",
        "elmo_qa",
        "elmo_srl",
        "elmo_textpair",
    ],
    "spacy_architectures": [
        "spacy-elmo.BCN.v1",
        "spacy-elmo.BiDAFSelfAttention.v1",
        "spacy-elmo.BiLM.v1",
        "spacy-elmo.BiRNN.v1",
        "spacy-elmo.CRFTagger.v1",
        "spacy-elmo.ConcatEmbed.v1",
        "spacy-elmo.Coref.v1",
        "spacy-elmo.ESIM.v1",
        "spacy-elmo.ElmoListener.v1",
        "spacy-elmo.HighwayLSTM.v1",
        "spacy-elmo.OutputConcat.v1",
        "spacy-elmo.PretrainBiLM.v1",
        "spacy-elmo.SRL.v1",
        "spacy-elmo.ScalarMix.v1",
        "spacy-elmo.TagLMEncoder.v1",
        "spacy-elmo.Tok2VecElmo.v1",
    ],
    "spacy_feature_caches": ["spacy-elmo.disk.v1", "spacy-elmo.memory.v1"],
    "spacy_loggers": ["spacy-elmo.TensorBoard.v1"],
    "spacy_readers": [
        "spacy-elmo.BIOCorpus.v1",
        "spacy-elmo.CorefCorpus.v1",
        "spacy-elmo.QACorpus.v1",
        "spacy-elmo.SRLCorpus.v1",
        "spacy-elmo.TextPairCorpus.v1",
    ],
    "spacy_scorers": [
        "spacy-elmo.coref_scorer.v1",
        "spacy-elmo.crf_scorer.v1",
        "spacy-elmo.qa_scorer.v1",
        "spacy-elmo.srl_scorer.v1",
        "spacy-elmo.textpair_scorer.v1",
    ],
    "spacy_segmenters": [
        "spacy-elmo.doc.v1",
        "spacy-elmo.sentences.v1",
        "spacy-elmo.sentences.v2",
        "spacy-elmo.spans.v1",
        "spacy-elmo.windows.v1",
    ],
    "spacy_weights_readers": [
        "spacy-elmo.allennlp.v1",
        "spacy-elmo.manylangs.v1",
        "spacy-elmo.safetensors.v1",
        "spacy-elmo.untrained.v1",
    ],
    "spacy_cli": ["elmo"],
}


def ours(group):
    points = metadata.entry_points(group=group)
    return {point.name: point for point in points if point.value.startswith("spacy_elmo.")}


@pytest.mark.parametrize("group", GROUPS)
def test_entry_points(group):
    points = ours(group)
    assert sorted(points) == GROUPS[group]
    for point in points.values():
        assert callable(point.load())


def test_entry_points_are_found_before_our_import():
    code = (
        "import spacy; from spacy import registry;"
        "assert 'spacy-elmo.BiLM.v1' in registry.architectures;"
        "spacy.blank('en').add_pipe('elmo'); print('ok')"
    )
    assert run_python("-c", code) == "ok\n"


def test_entry_points_import_no_torch_of_their_own():
    """Design, fact 10. Thinc itself imports torch: it is made unimportable here,
    which Thinc bears, and so must we."""
    modules = sorted({p.value.split(":")[0] for g in GROUPS for p in ours(g).values()})
    code = (
        "import sys;"
        "[sys.modules.__setitem__(name, None) for name in ('torch', 'h5py', 'safetensors')];"
        f"import importlib; [importlib.import_module(name) for name in {modules!r}];"
        "print('ok')"
    )
    assert run_python("-c", code) == "ok\n"


def test_importing_the_package_imports_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import spacy_elmo;"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(names - set(sys.stdlib_module_names)))"
    )
    assert run_python("-c", code) == "['spacy_elmo']\n"


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", spacy_elmo.__version__)
    assert metadata.version("spacy-elmo") == spacy_elmo.__version__
    root = Path(__file__).parents[1]
    assert f"\nversion: {spacy_elmo.__version__}\n" in (root / "CITATION.cff").read_text("utf8")
    bibtex = f"version = {{{spacy_elmo.__version__}}}"
    assert bibtex in (root / "README.md").read_text("utf8")


def test_conda_recipe():
    """It has the version and the dependencies of the package; PyTorch is called pytorch there."""
    root = Path(__file__).parents[1]
    recipe = srsly.read_yaml(root / "wheels" / "conda" / "recipe.yaml")
    assert recipe["context"]["version"] == spacy_elmo.__version__
    found = [line.replace("pytorch", "torch") for line in recipe["requirements"]["run"]]
    wanted = [Requirement(line) for line in metadata.requires("spacy-elmo")]
    wanted = {one.name: one.specifier for one in wanted if not one.marker}
    assert found.pop(0) == "python"
    assert {name: SpecifierSet(pin) for name, pin in map(str.split, found)} == wanted
    for file in recipe["about"]["license_file"]:
        assert (root / file).is_file()


def test_public_names():
    assert dir(spacy_elmo) == ["__version__", "pretrained"]


def test_registered_names_carry_our_prefix():
    for kind in ("segmenters", "weights_readers"):
        assert all(name.startswith("spacy-elmo.") for name in getattr(registry, kind).get_all())


def test_names_of_before():
    """Docs that were pickled before the hooks moved ask `spacy_elmo.vectors` for them."""
    code = (
        "from spacy_elmo.vectors import doc_vector, span_vector, token_vector, has_vector;"
        "from spacy_elmo.vectors import similarity, token_similarity;"
        "from spacy_elmo.vectors import keep_vectors, restore_vectors;"
        "from spacy_elmo.embedding import vectors; print(token_vector is vectors.token_vector)"
    )
    assert run_python("-c", code) == "True\n"


def test_only_the_command_line_names_its_options():
    """Others name settings, which the commands show as their options. A whole command is one."""
    package = Path(spacy_elmo.__file__).parent
    found = []
    for path in package.rglob("*.py"):
        if path.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf8"))):
            text = ast.unparse(node) if isinstance(node, ast.Raise) else ""
            if FLAG.search(text) and not COMMAND.search(text):
                found.append(f"{path.name}:{node.lineno}: {text}")
    assert not found
