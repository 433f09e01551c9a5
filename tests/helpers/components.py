"""Small components that listen, and their data, for the tests."""

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
    return {
        "@architectures": "spacy-elmo.ElmoListener.v1",
        "width": width,
        "upstream": upstream,
        "grad_factor": grad_factor,
        "mix": {"@architectures": "spacy-elmo.ScalarMix.v1", **mix},
    }


def tagger(tok2vec):
    return {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}


def ner(tok2vec):
    return {
        "model": {
            "@architectures": "spacy.TransitionBasedParser.v2",
            "state_type": "ner",
            "extra_state_tokens": False,
            "hidden_width": 16,
            "maxout_pieces": 2,
            "use_upper": True,
            "tok2vec": tok2vec,
        }
    }


def textcat(tok2vec):
    return {
        "model": {
            "@architectures": "spacy.TextCatReduce.v1",
            "exclusive_classes": True,
            "use_reduce_first": False,
            "use_reduce_last": False,
            "use_reduce_max": False,
            "use_reduce_mean": True,
            "tok2vec": tok2vec,
        }
    }


def embed(width=8):
    return {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": width,
        "attrs": ["NORM", "SHAPE"],
        "rows": [50, 50],
        "include_static_vectors": False,
    }


def concat_input(width=8):
    """`[x ; ELMo]` at the input."""
    return {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {
            "@architectures": "spacy-elmo.ConcatEmbed.v1",
            "width": width,
            "embed": embed(),
            "elmo": listener(),
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": width,
            "depth": 1,
            "window_size": 1,
            "maxout_pieces": 2,
        },
    }


def concat_both():
    """`[x ; ELMo]` at the input and `[h ; ELMo]` at the output: two listeners."""
    return {
        "@architectures": "spacy-elmo.OutputConcat.v1",
        "tok2vec": concat_input(),
        "elmo": listener(),
    }


def listen_to_both():
    """Listeners to the pipes `elmo` and `elmo_news`, which is 10 wide, side by side."""
    return {
        "@architectures": "spacy-elmo.OutputConcat.v1",
        "tok2vec": listener("elmo"),
        "elmo": listener("elmo_news", width=10),
    }


def examples(nlp):
    """Examples for a tagger, NER and textcat."""
    result = []
    for text, label, entities in TEXTS:
        words = text.split()
        doc = nlp.make_doc(text)
        assert [token.text for token in doc] == words
        spans = [(doc[i].idx, doc[i].idx + len(doc[i]), kind) for i, kind in entities.items()]
        annotations = {
            "tags": ["X" if word[0].isupper() else "Y" for word in words],
            "entities": spans,
            "cats": {"NATURE": float(label == "NATURE"), "MONEY": float(label == "MONEY")},
        }
        result.append(Example.from_dict(nlp.make_doc(text), annotations))
    return result
