"""Documents with coreference, and a small component that learns them, for the tests."""

from spacy.training import Example

from spacy_elmo.tasks.coref_clusters import read_clusters
from spacy_elmo.tasks.coref_corpus import make_doc

from components import embed

TEXTS = [
    ("Maria saw Tom . She greeted him .", [0, 4], ["Maria She", "Tom him"]),
    ("Tom ran home . He was late .", [0, 4], ["Tom He", "home"]),
    ("A car stopped . It was old .", [0, 4], ["A_car It"]),
    ("Tom sold his car to Maria .", [0], ["Tom his", "his_car", "Maria"]),
    ("It rained .", [0], []),
]
WITHOUT_ELMO = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": embed(16),
    "encode": {
        "@architectures": "spacy-elmo.HighwayLSTM.v1",
        "width": 16,
        "depth": 1,
        "dropout": 0.0,
    },
}


def coref(tok2vec, singletons=True, **settings):
    """The config of a small component."""
    model = {
        "@architectures": "spacy-elmo.Coref.v1",
        "tok2vec": tok2vec,
        "encoder_width": 16,
        "hidden_width": 16,
        "dropout": 0.0,
        "input_dropout": 0.0,
        "max_span_width": 3,
        "spans_per_word": 0.6,
    }
    return {"model": model, "singletons": singletons, **settings}


def clusters_of(text, found):
    """ "Maria She": a cluster of two mentions, which stand in the text once each."""
    words = text.split()

    def mention(name):
        parts = name.split("_")
        start = next(i for i in range(len(words)) if words[i : i + len(parts)] == parts)
        return start, start + len(parts)

    return [[mention(name) for name in cluster.split()] for cluster in found]


def examples(nlp, texts=TEXTS):
    made = []
    for text, starts, found in texts:
        reference = make_doc(nlp.vocab, text.split(), clusters_of(text, found), starts)
        made.append(Example(nlp.make_doc(text), reference))
    return made


def train(nlp, steps=50, **settings):
    data = examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    optimizer.learn_rate = 0.01
    for _ in range(steps):
        nlp.update(data, sgd=optimizer, **settings)
    return data


def found_by(nlp):
    return [read_clusters(doc) or [] for doc in nlp.pipe(text for text, *_ in TEXTS)]


def gold():
    return [sorted(clusters_of(text, found)) for text, _, found in TEXTS]
