"""Components of `spacy_elmo.tasks`: a small one of each, and a few examples to memorize."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

import spacy_elmo.tasks.coref.corpus as coref_corpus
import spacy_elmo.tasks.srl.corpus as srl_corpus
from spacy_elmo.tasks.coref.clusters import read_clusters
from spacy_elmo.tasks.srl.frames import read_frames
from spacy_elmo.tasks.texts import QUESTION, copy_pair, make_pair
from spacy_elmo.tasks.texts.corpus import make_question

from helpers.components import convolutions, embed

LSTM = {"@architectures": "spacy-elmo.HighwayLSTM.v1", "width": 16, "depth": 1, "dropout": 0.0}
RNN = {"@architectures": "spacy-elmo.BiRNN.v1", "width": 16}
CNN = convolutions(16)


def without_elmo(encode):
    return {"@architectures": "spacy.Tok2Vec.v2", "embed": embed(16), "encode": encode}


@dataclass(frozen=True, eq=False)
class Task:
    """A component.

    factory (str): Its factory.
    tok2vec (dict): The config of a tok2vec without ELMo.
    config (Callable): From a tok2vec and settings to the config of a small component.
    texts (list): The data of the examples.
    examples (Callable): Makes the examples, for a pipeline, from such data.
    found (Callable): What stands on a Doc.
    scores (tuple): The names of scores that are 1.0 where all is right, the main one first.
    learn_rate, steps: After at most these steps it knows the examples.
    is_right (Callable): Compares what was found with what stands on the reference.
    is_close (Callable): Compares what was found twice, up to rounding.
    """

    factory: str
    tok2vec: dict
    config: Callable[..., dict]
    texts: list
    examples: Callable[..., list[Example]]
    found: Callable[[Doc], Any]
    scores: tuple[str, ...] = ()
    learn_rate: float = 0.01
    steps: int = 60
    is_right: Callable[[Any, Any], bool] = operator.eq
    is_close: Callable[[Any, Any], bool] = operator.eq

    def add(self, nlp: Language, tok2vec=None, **settings) -> Language:
        """Add the component to a pipeline."""
        nlp.add_pipe(self.factory, config=self.config(tok2vec or self.tok2vec, **settings))
        return nlp

    def docs(self, nlp: Language) -> list[Doc]:
        """Return the Docs that the component reads in the examples."""
        return [example.predicted for example in self.examples(nlp)]

    def found_by(self, nlp: Language, **how) -> list:
        return [self.found(doc) for doc in nlp.pipe(self.docs(nlp), **how)]

    def train(self, nlp: Language, steps=None, data=None) -> list[Example]:
        """Train until all is right, or for exactly `steps` steps."""
        data = data or self.examples(nlp)
        optimizer = nlp.initialize(lambda: data)
        optimizer.learn_rate = self.learn_rate
        for step in range(steps or self.steps):
            nlp.update(data, sgd=optimizer)
            if not steps and step % 10 == 9 and set(self.main_scores(nlp)) == {1.0}:
                break
        return data

    def main_scores(self, nlp: Language) -> list:
        scores = nlp.evaluate(self.examples(nlp))
        return [scores[name] for name in self.scores]

    def all_right(self, nlp: Language, found) -> bool:
        gold = [self.found(example.reference) for example in self.examples(nlp)]
        return len(found) == len(gold) and all(map(self.is_right, found, gold))

    def all_close(self, found, expected) -> bool:
        return len(found) == len(expected) and all(map(self.is_close, found, expected))


def make_examples(nlp: Language, texts: list, annotate: Callable[..., Doc]) -> list[Example]:
    """Return examples of texts whose tokens are separated by blanks.

    annotate (Callable): Makes the reference from the vocab, the words and the rest of a text's
        tuple.
    """
    pairs = [
        (nlp.make_doc(text), annotate(nlp.vocab, text.split(), *more)) for text, *more in texts
    ]
    return [Example(*pair) for pair in pairs]


# Entities


def crf(tok2vec, **settings):
    return {"model": {"@architectures": "spacy-elmo.CRFTagger.v1", "tok2vec": tok2vec}, **settings}


def make_spans(vocab, words, spans, spans_key=None, **settings):
    doc = Doc(vocab, words=words)
    found = [Span(doc, start, end, label=label) for start, end, label in spans]
    if spans_key is None:
        doc.set_ents(found, **settings)
    else:
        doc.spans[spans_key] = found
    return doc


ENTITIES = [
    ("Maria Lopez lives in New York .", [(0, 2, "PER"), (4, 6, "LOC")]),
    ("In Rome Tom saw Maria .", [(1, 2, "LOC"), (2, 3, "PER"), (4, 5, "PER")]),
    ("Nobody lives here .", []),
    ("Tom Maria Rome", [(0, 1, "PER"), (1, 2, "PER"), (2, 3, "LOC")]),
]


def entity_examples(nlp, texts=ENTITIES, spans_key=None):
    return make_examples(nlp, texts, partial(make_spans, spans_key=spans_key))


def spans_of(doc, spans_key=None):
    group = doc.ents if spans_key is None else doc.spans[spans_key]
    return [(span.start, span.end, span.label_) for span in group]


CRF = Task("elmo_crf", without_elmo(RNN), crf, ENTITIES, entity_examples, spans_of)
CRF = replace(CRF, scores=("ents_f",), learn_rate=0.02, steps=100)

# Roles


def srl(tok2vec, **settings):
    encode = {"@architectures": "spacy-elmo.HighwayLSTM.v1", "width": 24, "dropout": 0.0}
    model = {"@architectures": "spacy-elmo.SRL.v1", "tok2vec": tok2vec, "encode": encode}
    return {"model": {**model, "flag_width": 8}, **settings}


ROLES = [
    ("Maria gave Tom a book .", {1: "B-ARG0 B-V B-ARG2 B-ARG1 I-ARG1 O"}),
    ("A book was given to Tom .", {3: "B-ARG1 I-ARG1 O B-V B-ARG2 I-ARG2 O"}),
    (
        "Tom ran home , and Maria saw him .",
        {1: "B-ARG0 B-V B-ARG4 O O O O O O", 6: "O O O O O B-ARG0 B-V B-ARG1 O"},
    ),
    ("Today Maria ran .", {2: "B-ARGM-TMP B-ARG0 B-V O"}),
    ("Home .", {}),
]


def make_roles(vocab, words, frames):
    entries = [{"pred": pred, "tags": tags.split()} for pred, tags in frames.items()]
    return srl_corpus.make_doc(vocab, words, entries)


def role_examples(nlp, texts=ROLES):
    return make_examples(nlp, texts, make_roles)


SRL = Task("elmo_srl", without_elmo(LSTM), srl, ROLES, role_examples, read_frames)
SRL = replace(SRL, scores=("srl_f", "srl_predicates_f"), learn_rate=0.02, steps=150)

# Coreference


def coref(tok2vec, singletons=True, **settings):
    sizes = {"encoder_width": 16, "hidden_width": 16, "max_span_width": 3, "spans_per_word": 0.6}
    model = {"@architectures": "spacy-elmo.Coref.v1", "tok2vec": tok2vec, **sizes}
    model |= {"dropout": 0.0, "input_dropout": 0.0}
    return {"model": model, "singletons": singletons, **settings}


CLUSTERS = [
    ("Maria saw Tom . She greeted him .", [0, 4], ["Maria She", "Tom him"]),
    ("Tom ran home . He was late .", [0, 4], ["Tom He", "home"]),
    ("A car stopped . It was old .", [0, 4], ["A_car It"]),
    ("Tom sold his car to Maria .", [0], ["Tom his", "his_car", "Maria"]),
    ("It rained .", [0], []),
]


def make_clusters(vocab, words, starts, found):
    """ "Maria She": a cluster of two mentions, which stand in the text once each."""

    def mention(name):
        parts = name.split("_")
        start = next(i for i in range(len(words)) if words[i : i + len(parts)] == parts)
        return start, start + len(parts)

    clusters = [[mention(name) for name in cluster.split()] for cluster in found]
    return coref_corpus.make_doc(vocab, words, clusters, starts)


def cluster_examples(nlp, texts=CLUSTERS):
    return make_examples(nlp, texts, make_clusters)


COREF = Task(
    *("elmo_coref", without_elmo(LSTM), coref, CLUSTERS, cluster_examples),
    found=lambda doc: sorted(read_clusters(doc) or []),
    scores=("coref_f", "coref_lea_f", "coref_mentions_f"),
)

# Questions


def qa(tok2vec, output_tok2vec=None, *, max_answer_tokens=17, min_score=0.0, **settings):
    sizes = {"width": 16, "dropout": 0.0, "output_tok2vec": output_tok2vec, **settings}
    model = {"@architectures": "spacy-elmo.BiDAFSelfAttention.v1", "tok2vec": tok2vec, **sizes}
    return {"model": model, "max_answer_tokens": max_answer_tokens, "min_score": min_score}


QUESTIONS = [
    ("Who gave Tom a book ?", "Maria gave Tom a book . It rained .", ["Maria"]),
    ("What was sold in Rome ?", "The firm sold a car in Rome .", ["a car", "car"]),
    ("Where did she live ?", "She lived in Paris for years .", ["Paris"]),
    ("Who sleeps ?", "The old dog sleeps , and Anna runs .", ["The old dog"]),
]


def gold_answers(nlp, question, context, texts):
    answers = [{"text": text, "answer_start": context.index(text)} for text in texts]
    return make_question(nlp, question, context, answers)


def question_examples(nlp, texts=QUESTIONS):
    docs = [gold_answers(nlp, *text) for text in texts]
    return [Example(copy_pair(doc, QUESTION), doc) for doc in docs]


QA = Task(
    *("elmo_qa", without_elmo(CNN), qa, QUESTIONS, question_examples),
    found=lambda doc: [str(span) for span in doc.spans.get("answer", ())],
    scores=("qa_f1", "qa_exact"),
    steps=160,
    is_right=lambda found, gold: len(found) == 1 and found[0] in gold,
)

# Pairs of texts


def textpair(tok2vec, output_tok2vec=None, **settings):
    esim = {"width": 16, "dropout": 0.0, "output_tok2vec": output_tok2vec, **settings}
    return {"model": {"@architectures": "spacy-elmo.ESIM.v1", "tok2vec": tok2vec, **esim}}


PAIRS = [
    ("A man eats .", "A man sleeps .", "contradiction"),
    ("A man eats .", "A person eats .", "entailment"),
    ("The dog runs to Maria .", "The dog sleeps .", "contradiction"),
    ("The dog runs to Maria .", "An animal runs .", "entailment"),
    ("Tom has a car", "Tom drives .", "neutral"),
    ("The dog sleeps .", "It dreams of Maria .", "neutral"),
]
PAIR_LABELS = ("contradiction", "entailment", "neutral")


def pair_examples(nlp, texts=PAIRS):
    made = []
    for first, second, label in texts:
        cats = {name: float(name == label) for name in PAIR_LABELS}
        made.append(Example.from_dict(make_pair(nlp, first, second), {"cats": cats}))
    return made


def best(cats):
    return max(cats, key=cats.__getitem__, default=None)


TEXTPAIR = Task(
    *("elmo_textpair", without_elmo(CNN), textpair, PAIRS, pair_examples),
    found=lambda doc: doc.cats,
    scores=("cats_acc", "cats_macro_f"),
    is_right=lambda found, gold: best(found) == best(gold),
    is_close=lambda found, expected: found == pytest.approx(expected, abs=1e-5),
)

TASKS = [CRF, SRL, COREF, QA, TEXTPAIR]


def make_trained(task: Task) -> Language:
    """A pipeline without ELMo that knows its examples."""
    spacy.util.fix_random_seed(0)
    nlp = task.add(spacy.blank("en"))
    task.train(nlp)
    return nlp
