"""Factories of the task components.

Every process imports this module, because spaCy imports the factories of all plug-ins (fact 10 of
docs/architecture.md). So the module imports a package of `tasks` only when a pipeline needs it.
"""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, Optional

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Token
from thinc.api import Model

LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
SENTENCES = {"@segmenters": "spacy-elmo.sentences.v2"}


def _make(place: str, nlp: Language, **settings: Any) -> Pipe:
    """Import the class of a component, and return a component with these settings.

    place (str): Module and class in `tasks`, such as "crf:CRFTagger".
    nlp (Language): The pipeline.
    settings (Any): The other arguments of the factory.
    """
    pipe: Pipe = resolve_name(f"{__package__}.tasks.{place}")(nlp.vocab, **settings)
    return pipe


@Language.factory(
    "elmo_crf",
    assigns=["doc.ents", "doc.spans", "token.ent_iob", "token.ent_type"],
    default_config={
        "model": {
            "@architectures": "spacy-elmo.CRFTagger.v1",
            "tok2vec": {
                "@architectures": "spacy.Tok2Vec.v2",
                "embed": LISTENER,
                "encode": {"@architectures": "spacy-elmo.BiRNN.v1", "width": 128},
            },
        },
        "spans_key": None,
        "scheme": "biluo",
        "max_batch_tokens": 4096,
        "scorer": {"@scorers": "spacy-elmo.crf_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_crf(
    nlp: Language,
    name: str,
    model: Model,
    spans_key: Optional[str],
    scheme: str,
    max_batch_tokens: int,
    scorer: Optional[Callable],
) -> Pipe:
    """Make an `elmo_crf` pipe. The settings are described in `CRFTagger`."""
    return _make("crf:CRFTagger", **locals())


@Language.factory(
    "elmo_srl",
    assigns=["doc.spans", "doc._.srl", "token._.srl"],
    default_config={
        "model": {
            "@architectures": "spacy-elmo.SRL.v1",
            "flag_width": 100,
            "tok2vec": LISTENER,
            "encode": {"@architectures": "spacy-elmo.HighwayLSTM.v1", "width": 128, "depth": 2},
        },
        "predicates": "model",
        "segmenter": SENTENCES,
        "max_batch_tokens": 4096,
        "scorer": {"@scorers": "spacy-elmo.srl_scorer.v1"},
    },
    default_score_weights={
        "srl_f": 1.0,
        "srl_p": 0.0,
        "srl_r": 0.0,
        "srl_per_type": None,
        **{f"srl_predicates_{key}": None for key in "prf"},
    },
)
def make_srl(
    nlp: Language,
    name: str,
    model: Model,
    predicates: str,
    segmenter: Callable[[Doc], list],
    max_batch_tokens: int,
    scorer: Optional[Callable],
) -> Pipe:
    """Make an `elmo_srl` pipe. The settings are described in `SemanticRoleLabeler`."""
    return _make("srl:SemanticRoleLabeler", **locals())


@Language.factory(
    "elmo_coref",
    assigns=["doc.spans"],
    default_config={
        "model": {"@architectures": "spacy-elmo.Coref.v1", "tok2vec": LISTENER},
        "span_cluster_prefix": "coref_clusters",
        "singletons": False,
        "mention_loss": 1.0,
        "max_training_sentences": 50,
        "segmenter": SENTENCES,
        "scorer": {"@scorers": "spacy-elmo.coref_scorer.v1"},
    },
    default_score_weights={
        "coref_f": 1.0,
        **{f"coref_{name}_{key}": 0.0 for name in ("muc", "b3", "ceafe") for key in "prf"},
        **{f"coref_{name}_{key}": None for name in ("lea", "mentions") for key in "prf"},
    },
)
def make_coref(
    nlp: Language,
    name: str,
    model: Model,
    span_cluster_prefix: str,
    singletons: bool,
    mention_loss: float,
    max_training_sentences: int,
    segmenter: Callable[[Doc], list],
    scorer: Optional[Callable],
) -> Pipe:
    """Make an `elmo_coref` pipe. The settings are described in `CoreferenceResolver`."""
    return _make("coref:CoreferenceResolver", **locals())


@Language.factory(
    "elmo_qa",
    assigns=["doc.spans"],
    default_config={
        "model": {
            "@architectures": "spacy-elmo.BiDAFSelfAttention.v1",
            "tok2vec": LISTENER,
            "output_tok2vec": None,
        },
        "max_answer_tokens": 17,
        "min_score": 0.0,
        "scorer": {"@scorers": "spacy-elmo.qa_scorer.v1"},
    },
    default_score_weights={
        "qa_f1": 1.0,
        "qa_exact": 0.0,
        "qa_has_ans_f1": None,
        "qa_no_ans_f1": None,
    },
)
def make_qa(
    nlp: Language,
    name: str,
    model: Model,
    max_answer_tokens: int,
    min_score: float,
    scorer: Optional[Callable],
) -> Pipe:
    """Make an `elmo_qa` pipe. The settings are described in `QuestionAnswerer`."""
    return _make("texts.qa:QuestionAnswerer", **locals())


@Language.factory(
    "elmo_textpair",
    assigns=["doc.cats"],
    default_config={
        "model": {
            "@architectures": "spacy-elmo.ESIM.v1",
            "tok2vec": LISTENER,
            "output_tok2vec": None,
        },
        "scorer": {"@scorers": "spacy-elmo.textpair_scorer.v1"},
    },
    default_score_weights={
        "cats_acc": 1.0,
        "cats_score": 0.0,
        "cats_score_desc": None,
        **{f"cats_micro_{key}": None for key in "prf"},
        **{f"cats_macro_{key}": None for key in "pr"},
        "cats_macro_f": 0.0,
        "cats_macro_auc": None,
        "cats_f_per_type": None,
    },
)
def make_textpair(nlp: Language, name: str, model: Model, scorer: Optional[Callable]) -> Pipe:
    """Make an `elmo_textpair` pipe.

    model (Model[List[Doc], Floats2d]): Model that computes the probabilities of the labels for Docs
        that contain two texts. *Shape:* `(n_docs, n_labels)`
    scorer (Optional[Callable]): The function that `nlp.evaluate` calls for this pipe.
    """
    return _make("texts.textpair:TextPairCategorizer", **locals(), threshold=0.0)


def roles_of_doc(doc: Doc) -> dict:
    """Return `doc._.srl`: a dict from each predicate's token index to its spans by label."""
    from .tasks.srl.frames import roles_by_predicate

    return roles_by_predicate(doc)


def roles_of_token(token: Token) -> dict:
    """Return `token._.srl`: the token's roles, from each label to a list of spans.

    The dict is empty if the token is not a predicate. In a loop over tokens, use `doc._.srl`: each
    call of this function reads all spans of the Doc.
    """
    return roles_of_doc(token.doc).get(token.i, {})


for kind, getter in ((Doc, roles_of_doc), (Token, roles_of_token)):
    if not kind.has_extension("srl"):
        kind.set_extension("srl", getter=getter)
