"""The converter of OCR'd newspapers: blocks, sentences and repaired tags, on lines by hand."""

from helpers.project_scripts import call, docs

REPAIRED = """# file:\t\tF_SBB_1
# sbb url:\thttp://example.org/1
# tel url:\t???
Sir B-PEr
Robert I-PEr
Deutsche Bank B-ORG
höre  O
worden
Bür v
Gruber B-BER
Wien B-LOCer
Ulm B.LOC
Tageblatts I_ORG
alta. I-MISC
Anna I-PER
Berg I-LOC
# O
Verband B-ORG\x20
"""


def test_repairs(tmp_path):
    (tmp_path / "one.bio").write_text(REPAIRED, "utf8")
    shown = call("data.convert_europeana", tmp_path / "one.bio", tmp_path / "out" / "one")
    found = [doc for part in ("train", "dev", "test") for doc in docs(part_of(tmp_path, part))]
    words = [token.text for doc in found for token in doc]
    assert words[:6] == ["Sir", "Robert", "DeutscheBank", "höre", "worden", "Bür"]
    assert words[-2:] == ["#", "Verband"]
    assert [(ent.text.strip(), ent.label_) for doc in found for ent in doc.ents] == [
        ("Sir Robert", "PER"),
        ("DeutscheBank", "ORG"),
        ("Gruber", "PER"),
        ("Wien", "LOC"),
        ("Ulm", "LOC"),
        ("Tageblatts", "ORG"),
        ("Anna", "PER"),
        ("Berg", "LOC"),
        ("Verband", "ORG"),
    ]
    counts = ("comment left out 3", "other tag 6", "spaces in a token 1", "tag missing 1")
    for count in (*counts, "tag unknown 1", "I-MISC 1", "I to B 3"):
        assert count in shown, count


def part_of(folder, part):
    return folder / "out" / f"one-{part}.spacy"


def test_sentences_and_blocks(tmp_path):
    """Cut after marks and 60 tokens, never in an entity; in order; nothing is lost."""
    short = [f"Wort{i} O\n. O\n" for i in range(300)]
    long = [f"w{i} O\n" for i in range(59)] + ["St B-LOC\n", ". I-LOC\n", "Pölten I-LOC\n", "x O\n"]
    (tmp_path / "one.bio").write_text("".join(short + long), "utf8")
    call("data.convert_europeana", tmp_path / "one.bio", tmp_path / "out" / "one")
    train, dev, test = (docs(part_of(tmp_path, part)) for part in ("train", "dev", "test"))
    assert {len(doc) for doc in train} == {2}
    lines = [line.split()[0] for line in "".join(short + long).splitlines()]
    assert [token.text for doc in train + dev + test for token in doc] == lines
    assert sum(map(len, train)) in (530, 532)  # 80 % of 663
    assert sum(map(len, dev)) in (66, 68)
    assert [ent.text.strip() for doc in dev + test for ent in doc.ents] == ["St . Pölten"]
    assert max(map(len, train + dev + test)) == 62
