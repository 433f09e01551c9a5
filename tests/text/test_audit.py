import json

import pytest

from spacy_elmo.frozen.characters import character_ids
from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.text.size import audit_tokens
from spacy_elmo.weights import safetensors_file

from helpers.commands import run_elmo
from helpers.models import tiny_bilm

# 48 bytes are read: of é and 日, two and three bytes each, 24 and 16.
TOKENS = ["a" * 48, "a" * 49, "é" * 24, "é" * 25, "日" * 16, "日" * 17, "日" * 17, "word"]

SPELLING = {"max_characters": 50, "widest_filter": 5}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(" ".join(TOKENS[:4]) + "\n" + " ".join(TOKENS[4:]) + "\n", "utf8")
    return path


def test_bytes(text):
    found = audit_tokens(BiLMConfig(), [str(text)])
    # By the model's own spelling: it reads a cut token and a longer one alike.
    spelled = character_ids([*TOKENS, *(token + "x" for token in TOKENS)], **SPELLING)
    alike = [(one == other).all() for one, other in zip(spelled, spelled[len(TOKENS) :])]
    full = {TOKENS[0], TOKENS[2], TOKENS[4]}  # read to the end, but with no room for more
    cut = [token for token, is_cut in zip(TOKENS, alike) if is_cut and token not in full]
    assert found == {
        "tokens": 8,
        "cut": len(cut),
        "share": len(cut) / 8,
        "limit": "48 UTF-8 bytes",
        "most frequent": ["日" * 17, "a" * 49, "é" * 25],
    }


def test_code_points(text):
    sizes = BiLMConfig(token_encoder="manylangs", n_characters=300)
    found = audit_tokens(sizes, [str(text)])
    assert (found["cut"], found["limit"]) == (1, "48 code points")


def test_no_characters(text):
    words = BiLMConfig(
        char_embed_dim=0, filters=(), n_highway=0, n_characters=0, n_words=9, word_embed_dim=128
    )
    with pytest.raises(ValueError, match="a model without characters does not truncate"):
        audit_tokens(words, [str(text)])
    text.write_text("\n")
    with pytest.raises(ValueError, match="no token in"):
        audit_tokens(BiLMConfig(), [str(text)])


def test_command(text, tmp_path):
    safetensors_file.write(tiny_bilm(max_characters_per_token=50), tmp_path / "a.safetensors")
    given = ("info", tmp_path / "a.safetensors", "--audit", text)
    assert json.loads(run_elmo(*given, "--json").stdout)["audit"]["cut"] == 4
    lines = [" ".join(line.split()) for line in run_elmo(*given).stdout.splitlines()]
    assert "cut 4" in lines
    assert "audit" not in run_elmo("info", tmp_path / "a.safetensors").stdout
