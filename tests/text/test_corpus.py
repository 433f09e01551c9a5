import gzip
import json
import re

import numpy as np
import pytest

from spacy_elmo.text import corpus as corpus_module
from spacy_elmo.text import reading
from spacy_elmo.text.corpus import load_text, read_corpus
from spacy_elmo.text.reading import find_files, read_sentences

SENTENCES = [["The", "cat", "."], ["naïve", "日本", "cat"], ["😀"]]
LINES = "".join(" ".join(sentence) + "\n" for sentence in SENTENCES)


def sentences_of(path, **settings):
    return [sentence for sentence in read_sentences(find_files(path), **settings) if sentence]


def fails(path, *parts):
    with pytest.raises(ValueError, match=re.escape(str(path))) as error:
        sentences_of(path)
    for part in parts:
        assert part in str(error.value)


def test_numbers():
    corpus = read_corpus([["a", "b"], [], ["b", "<S>"], ["c"]])
    assert corpus.types == ["<S>", "</S>", "a", "b", "c"]
    assert corpus.tokens.tolist() == [0, 2, 3, 0, 3, 0, 0, 4]
    assert corpus.starts.tolist() == [0, 3, 6]
    assert corpus.documents.tolist() == [0, 1]
    assert corpus.n_words == 5
    assert corpus.counts().tolist() == [4, 0, 1, 2, 1]
    assert corpus.tokens.dtype == np.int32


def test_documents():
    corpus = read_corpus([[], ["a"], ["b"], [], [], ["c"], [], ["d"], []])
    assert corpus.documents.tolist() == [0, 2, 3]
    assert corpus.documents.dtype == np.int64


def test_counts_of_long_text(monkeypatch):
    corpus = read_corpus([["a", "b"], ["b"]] * 10)
    expected = corpus.counts().tolist()
    monkeypatch.setattr(corpus_module, "BLOCK", 7)
    assert corpus.counts().tolist() == expected == [20, 0, 10, 20]


def test_load_text(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n\n\nc\n", "utf8")
    (tmp_path / "b.txt").write_text("Good. I know.\n\nYes.\n", "utf8")
    records = [{"tokens": ["d"]}, {"tokens": []}, {"tokens": ["e"]}, {"text": "It is. So."}]
    records += [{"tokens": ["h"]}, {"text": "i"}]
    text = "\n\n".join(map(json.dumps, records))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    corpus = load_text(str(tmp_path), lang="en")
    assert list(corpus.types)[2:10] == ["a", "b", "c", "Good.", "I", "know.", "Yes.", "d"]
    # a b | c | Good. I know. | Yes. | d, e | It is. So. | h | i
    assert corpus.documents.tolist() == [0, 1, 2, 3, 4, 6, 8, 9]
    corpus = load_text([tmp_path / "a.txt", tmp_path / "b.txt"], format="text", lang="en")
    assert list(corpus.types)[2:] == ["a", "b", "c", "Good", ".", "I", "know", "Yes"]
    assert corpus.documents.tolist() == [0, 2]
    with pytest.raises(ValueError, match="'words'"):
        load_text(tmp_path, format="words")


def test_half_a_surrogate_pair(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"tokens": ["\\ud800"]}\n{"text": "\\ud800"}\n', "utf8")
    assert next(read_sentences([tmp_path / "a.jsonl"])) == ["\ud800"]
    fails(tmp_path / "a.jsonl", "line 2", "surrogate")


@pytest.mark.parametrize("sentences", [[], [[], []]])
def test_no_sentence(sentences):
    with pytest.raises(ValueError, match=r"some.txt has no sentence"):
        read_corpus(sentences, "some.txt")


@pytest.mark.parametrize(
    "content", [LINES, LINES[:-1], LINES.replace("\n", "\r\n\r\n"), " " + LINES]
)
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines(tmp_path, name, content):
    path = tmp_path / name
    data = content.encode("utf8")
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert sentences_of(path) == SENTENCES


def test_jsonl(tmp_path):
    records = [
        {"tokens": ["a b", "", "c"], "text": "not this"},
        {"text": "I saw it. It was big!", "id": 3},
        {"tokens": []},
        {"text": ""},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n\n".join(json.dumps(record) for record in records), "utf8")
    assert sentences_of(path, lang="en") == [
        ["a b", "", "c"],
        ["I", "saw", "it", "."],
        ["It", "was", "big", "!"],
    ]


def test_running_text(tmp_path):
    (tmp_path / "a.txt").write_text("  I don't know.  Do you?\n\nGood\n", "utf8")
    expected = [["I", "do", "n't", "know", "."], ["Do", "you", "?"], ["Good"]]
    assert sentences_of(tmp_path, format="text", lang="en") == expected
    (tmp_path / "a.txt").write_text("Das ist z.B. gut.\n", "utf8")
    german = sentences_of(tmp_path, format="text", lang="de")
    assert german == [["Das", "ist", "z.B.", "gut", "."]]


def test_wrapped_running_text(tmp_path, monkeypatch):
    """Lines up to an empty one belong together, but not without end."""
    (tmp_path / "a.txt").write_text("\n\nIt was\nbig .\n \nOne\ntwo\n", "utf8")
    assert sentences_of(tmp_path, format="text", lang="en") == [
        ["It", "was", "big", "."],
        ["One", "two"],
    ]
    monkeypatch.setattr(reading, "MAX_PARAGRAPH", 3)
    cut = [["It", "was"], ["big", "."], ["One"], ["two"]]
    assert sentences_of(tmp_path, format="text", lang="en") == cut


def test_find_files(tmp_path, monkeypatch):
    names = ["b.txt", "a.jsonl", "sub/c.txt.gz", "sub/deep/d.txt", "notes.md", "sub/e.gz"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(*inputs):
        files = find_files([str(given) for given in inputs])
        return [str(file.relative_to(tmp_path)) for file in files]

    assert found(tmp_path) == ["a.jsonl", "b.txt", "sub/c.txt.gz", "sub/deep/d.txt"]
    assert found(tmp_path / "**" / "*.txt") == ["b.txt", "sub/deep/d.txt"]
    assert found(tmp_path / "sub", tmp_path / "a.jsonl") == [
        "sub/c.txt.gz",
        "sub/deep/d.txt",
        "a.jsonl",
    ]
    assert find_files(tmp_path / "b.txt") == find_files(str(tmp_path / "b.txt"))
    monkeypatch.chdir(tmp_path)
    assert [str(file) for file in find_files("?.txt")] == ["b.txt"]


def test_hidden_files_are_no_text(tmp_path):
    """As spaCy's own reader of folders has it; a hidden folder that is given is read."""
    hidden = tmp_path / ".corpora"
    for name in ("a.txt", "._a.txt", ".ipynb_checkpoints/a.txt", "b/.c/a.txt", "b/a.txt"):
        (hidden / name).parent.mkdir(parents=True, exist_ok=True)
        (hidden / name).touch()
    expected = [hidden / "a.txt", hidden / "b" / "a.txt"]
    assert find_files(hidden) == find_files(f"{hidden}/**/*.txt") == expected
    assert find_files(hidden / "._a.txt") == [hidden / "._a.txt"]


def test_a_path_that_looks_like_a_glob(tmp_path):
    (tmp_path / "a[1].txt").write_text(LINES, "utf8")
    assert sentences_of(tmp_path / "a[1].txt") == SENTENCES


@pytest.mark.parametrize("name", ["missing.txt", "*.txt", "empty", "notes.md", "*.md"])
def test_nothing_readable(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.md").touch()
    fails(tmp_path / "empty" if name == "empty" else tmp_path / name.replace("*.md", "notes.md"))
    with pytest.raises(ValueError, match=r"\.txt\.gz"):
        find_files(tmp_path / name)


# Broken files


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz"])
def test_not_utf8(tmp_path, name):
    line = b'{"tokens": ["good"]}\n' if name == "a.jsonl" else b"good\n"
    data = line * 2 + b"caf\xe9\n" + line
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    fails(tmp_path / name, "line 3", "UTF-8")


@pytest.mark.parametrize("damage", ["cut", "no gzip", "checksum", "inside", "no end"])
def test_broken_gzip(tmp_path, damage):
    rng = np.random.default_rng(0)
    lines = [" ".join(map(str, rng.integers(10**6, size=9))) for _ in range(3000)]
    data = gzip.compress("\n".join(lines).encode())
    damaged = {
        "cut": data[: len(data) // 2],
        "no gzip": b"plain text\n",
        "checksum": data[:-8] + b"\0\0\0\0" + data[-4:],
        "inside": data[: len(data) // 2] + b"\xff" * 60 + data[len(data) // 2 + 60 :],
        "no end": data[:-8],
    }[damage]
    (tmp_path / "a.txt.gz").write_bytes(damaged)
    fails(tmp_path / "a.txt.gz", "line", "gzip")


@pytest.mark.parametrize(
    "line", ['{"tokens": ["a"]', "[1]", "3", '"a"', "{}", '{"tokens": "a b"}', '{"tokens": [1]}']
)
def test_bad_json(tmp_path, line):
    good = '{"tokens": ["a"]}\n'
    (tmp_path / "a.jsonl").write_text(good + "\n" + line + "\n" + good, "utf8")
    fails(tmp_path / "a.jsonl", "line 3")


@pytest.mark.parametrize("line", ["[1]", "3", '"a"', "null"])
def test_json_that_is_no_object(tmp_path, line):
    (tmp_path / "a.jsonl").write_text(line + "\n", "utf8")
    message = "a line must be a JSON object with 'tokens' or 'text', got"
    fails(tmp_path / "a.jsonl", f"line 1: {message} {line!r}")


def test_language_that_spacy_does_not_have(tmp_path):
    (tmp_path / "a.txt").write_text("It rains.", "utf8")
    with pytest.raises(ValueError, match="no tokenizer for 'qqq'. Set `lang`"):
        sentences_of(tmp_path, format="text", lang="qqq")
