"""Biattentive classification network, a model for spaCy's `textcat`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Optional, TypeAlias

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ...layers.finite import check_loss
from ...registry import registry
from ..shared import Tok2Vec, check_rate, check_sizes
from ..shared.text_layer import TextLayer, classify, init_classifier
from ..shared.torch_module import make_module

MODULE = "spacy_elmo.tasks.textcat.module:BiattentiveClassifier"
Classifier: TypeAlias = Model[list[Doc], Floats2d]


@registry.architectures("spacy-elmo.BCN.v1")
def build_bcn(
    tok2vec: Tok2Vec,
    elmo: Optional[Tok2Vec] = None,
    exclusive_classes: bool = True,
    hidden_width: int = 64,
    maxout_widths: Sequence[int] = [128, 64],
    maxout_pieces: int = 4,
    dropout: float = 0.2,
    max_batch_tokens: int = 4096,
    nO: Optional[int] = None,
) -> Classifier:
    """Build the biattentive classification network (McCann et al. 2017, section 5).

    Use it as `model` of `textcat` or `textcat_multilabel`. Peters et al. 2018 evaluated ELMo with
    it. The papers use `hidden_width = 300` and `maxout_widths = [1200, 600]`.

    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors of the tokens.
    elmo (Optional[Model[List[Doc], List[Floats2d]]]): A second listener, or a Tok2VecElmo. Its
        vectors are concatenated with the integrator's output (Peters et al. 2018, section 3.3).
    exclusive_classes (bool): Whether a Doc has exactly one class. True: a softmax over the
        classes; False: a sigmoid for each class.
    hidden_width (int): Width of the layer before the encoder, and of each direction of the LSTMs.
    maxout_widths (Sequence[int]): Widths of the maxout layers, except the last.
    maxout_pieces (int): Number of pieces of the maxout layers.
    dropout (float): Dropout rate of the vectors and between layers.
    max_batch_tokens (int): Maximum number of tokens in a batch, including padding. A batch of one
        Doc may have more. The memory for attention grows with the square of a Doc's length.
    nO (Optional[int]): Number of classes.
    RETURNS (Model[List[Doc], Floats2d]): Probabilities. *Shape:* `(n_docs, nO)`
    RAISES (ValueError): A value is out of range.
    """
    sizes = {"hidden_width": hidden_width, "maxout_pieces": maxout_pieces}
    widths, attrs = list(maxout_widths), {"max_batch_tokens": max_batch_tokens}
    check_sizes("BCN", **sizes, **attrs, maxout_widths=min(widths, default=1))
    check_rate("BCN", dropout)
    build = partial(make_module, MODULE, **sizes, maxout_widths=widths, dropout=dropout)
    attrs["multi_label"] = not exclusive_classes
    return TextLayer("elmo_bcn", forward, init_classifier, build, tok2vec, elmo, nO=nO, **attrs)


def forward(model: Classifier, docs: list[Doc], is_train: bool) -> tuple[Floats2d, Callable]:
    """Compute the probabilities of the classes.

    The backward pass takes the gradient of the logits, which spaCy's `textcat` computes:
    probabilities minus truth.
    """
    squash = model.ops.sigmoid if model.attrs["multi_label"] else model.ops.softmax
    items = [(i, (slice(0, len(doc)),)) for i, doc in enumerate(docs)]
    found, backprop_texts = classify(model, docs, items, is_train, squash)

    def backprop(d_logits: Floats2d) -> list[Doc]:
        check_loss(float((d_logits**2).sum()), model.name)  # spaCy's `textcat` does not check it.
        return backprop_texts(d_logits)

    return found, backprop
