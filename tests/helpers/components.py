"""Small components that listen, and their data, for the tests."""

from spacy.tokens import Doc, Span
from spacy.training import Example

WIDTH = 12

TEXTS = [
    ("They sat on the bank of the river .", "NATURE", {}),
    ("The bank in Paris lends money to Maria .", "MONEY", {3: "GPE", 7: "PER"}),
    ("Maria swims .", "NATURE", {0: "PER"}),
    ("A loan costs money in Rome today .", "MONEY", {5: "GPE"}),
]


def listener(upstream="*", grad_factor=1.0, width=WIDTH, **mix):
    """The config of a listener."""
    settings = {"width": width, "upstream": upstream, "grad_factor": grad_factor}
    mix = {"@architectures": "spacy-elmo.ScalarMix.v1", **mix}
    return {"@architectures": "spacy-elmo.ElmoListener.v1", **settings, "mix": mix}


def tagger(tok2vec):
    return {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}


def ner(tok2vec):
    parser = {"@architectures": "spacy.TransitionBasedParser.v2", "tok2vec": tok2vec}
    sizes = {"hidden_width": 16, "maxout_pieces": 2, "use_upper": True}
    return {"model": {**parser, "state_type": "ner", "extra_state_tokens": False, **sizes}}


def textcat(tok2vec):
    reduce = {f"use_reduce_{name}": name == "mean" for name in ("first", "last", "max", "mean")}
    architecture = {"@architectures": "spacy.TextCatReduce.v1", "exclusive_classes": True}
    return {"model": {**architecture, **reduce, "tok2vec": tok2vec}}


def embed(width=8):
    features = {"attrs": ["NORM", "SHAPE"], "rows": [50, 50], "include_static_vectors": False}
    return {"@architectures": "spacy.MultiHashEmbed.v2", "width": width, **features}


def convolutions(width):
    sizes = {"width": width, "depth": 1, "window_size": 1, "maxout_pieces": 2}
    return {"@architectures": "spacy.MaxoutWindowEncoder.v2", **sizes}


def concat_input(width=8):
    """`[x ; ELMo]` at the input."""
    both = {"@architectures": "spacy-elmo.ConcatEmbed.v1", "embed": embed(), "elmo": listener()}
    model = {"@architectures": "spacy.Tok2Vec.v2", "embed": {**both, "width": width}}
    return {**model, "encode": convolutions(width)}


def concat_both():
    """`[x ; ELMo]` at the input and `[h ; ELMo]` at the output: two listeners."""
    both = {"tok2vec": concat_input(), "elmo": listener()}
    return {"@architectures": "spacy-elmo.OutputConcat.v1", **both}


def listen_to_both():
    """Listeners to the pipes `elmo` and `elmo_news`, which is 10 wide, side by side."""
    both = {"tok2vec": listener("elmo"), "elmo": listener("elmo_news", width=10)}
    return {"@architectures": "spacy-elmo.OutputConcat.v1", **both}


def examples(nlp):
    """Examples for a tagger, NER and textcat."""
    result = []
    for text, label, entities in TEXTS:
        words, doc = text.split(), nlp.make_doc(text)
        assert [token.text for token in doc] == words
        annotations = {
            "tags": ["X" if word[0].isupper() else "Y" for word in words],
            "entities": [(doc[i].idx, doc[i : i + 1].end_char, entities[i]) for i in entities],
            "cats": {name: float(label == name) for name in ("NATURE", "MONEY")},
        }
        result.append(Example.from_dict(doc, annotations))
    return result


def annotated(vocab):
    """A Doc with every kind of annotation."""
    doc = Doc(
        vocab,
        words=["Anna", "saw", "New", "York", "."],
        spaces=[True, True, True, False, False],
        tags=["NNP", "VBD", "NNP", "NNP", "."],
        pos=["PROPN", "VERB", "PROPN", "PROPN", "PUNCT"],
        lemmas=["Anna", "see", "New", "York", "."],
        heads=[1, 1, 3, 1, 1],
        deps=["nsubj", "ROOT", "compound", "obj", "punct"],
        morphs=["Number=Sing", "", "", "", ""],
    )
    doc.ents = [Span(doc, 0, 1, "PER"), Span(doc, 2, 4, "LOC", kb_id="Q60")]
    doc.spans["sc"] = [Span(doc, 1, 4, "SEEN", span_id="one")]
    doc.cats = {"TRAVEL": 1.0, "HOME": 0.0}
    return doc
