"""Registered architectures, which build models from the layers of the package `layers`."""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Optional, TypeAlias, Union

from spacy.tokens import Doc
from thinc.api import Model

from .embedding.features import FeatureCache
from .embedding.segmenters import Segmenter, Sentences
from .embedding.settings import ElmoSettings
from .files import PathSetting
from .layers.bilm import BiLMLayer, get_shim, join_tok2vec
from .layers.concat import ConcatTok2Vec, MixedConcat, Tok2Vec
from .layers.listener import ElmoListener
from .layers.scalar_mix import Layers, ScalarMix, Vectors, set_place
from .model.config import BiLMConfig
from .registry import registry

MixModel: TypeAlias = Model[Layers, Vectors]


@registry.architectures("spacy-elmo.BiLM.v1")
def build_bilm(**sizes: Any) -> Model[list[Doc], Layers]:
    """Make the language model without weights (Peters et al. 2018, section 3.4).

    The arguments are the sizes in `spacy_elmo.model.config.BiLMConfig`.

    RETURNS (Model[List[Doc], List[Floats3d]]): `(L + 1, n_tokens, 2P)` per Doc: layer 0 and L LSTM
        layers, with P units per direction.
    RAISES (ValueError): A size is invalid.
    """
    return BiLMLayer(BiLMConfig.from_dict(sizes))


# spaCy checks the config against the signature, and takes the defaults from it.
build_bilm.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=Any)
        for name, value in BiLMConfig().all_sizes().items()
    ]
)


build_scalar_mix = registry.architectures("spacy-elmo.ScalarMix.v1")(ScalarMix)


@registry.architectures("spacy-elmo.ElmoListener.v1")
def build_listener(
    width: Optional[int] = None,
    mix: Optional[MixModel] = None,
    upstream: str = "*",
    grad_factor: float = 1.0,
) -> Tok2Vec:
    """Make a layer that reads the vectors of an `elmo` pipe earlier in the pipeline.

    width (Optional[int]): Width of the language model, 2P. Default: the pipe's width.
    mix (Optional[Model[List[Floats3d], List[Floats2d]]]): The component's mix of layers. Default: a
        ScalarMix.
    upstream (str): Name of the pipe. "*": the nearest pipe before the component.
    grad_factor (float): Factor for the gradient that goes to the language model.
    RETURNS (Model[List[Doc], List[Floats2d]]): `(n_tokens, width)` per Doc.
    """
    mix = ScalarMix() if mix is None else mix
    return ElmoListener(mix, width=width, upstream_name=upstream, grad_factor=grad_factor)


@registry.architectures("spacy-elmo.Tok2VecElmo.v1")
def build_tok2vec_elmo(
    bilm: Model[list[Doc], Layers],
    mix: Optional[MixModel] = None,
    weights: Union[PathSetting, Callable[[], Any], None] = None,
    segmenter: Optional[Segmenter] = None,
    initial_state: str = "warm",
    frozen: bool = True,
    learn_rate_factor: float = 1.0,
    max_batch_tokens: int = 4096,
    cache: int = 20_000,
    precision: str = "float32",
    features: Optional[FeatureCache] = None,
) -> Tok2Vec:
    """Make a tok2vec that contains its own language model and mix, for use without an `elmo` pipe.

    `nlp.replace_listeners` puts this layer in the place of a listener. The arguments not listed
    here are described in `ElmoSettings`.

    bilm (Model[List[Doc], List[Floats3d]]): The language model.
    mix (Optional[Model[List[Floats3d], List[Floats2d]]]): The mix of layers. Default: a ScalarMix.
    RETURNS (Model[List[Doc], List[Floats2d]]): `(n_tokens, 2P)` per Doc.
    RAISES (ValueError): A value is invalid.
    """
    arguments = {**locals(), "segmenter": segmenter or Sentences()}
    del arguments["mix"]  # The setting `mix` is for `doc.tensor`.
    shim = get_shim(bilm)
    shim.settings = ElmoSettings.from_arguments(arguments)
    shim.sizes_may_follow = False  # The component's other layers are built for these sizes.
    return join_tok2vec(bilm, ScalarMix() if mix is None else mix)


@registry.architectures("spacy-elmo.ConcatEmbed.v1")
def build_concat_embed(
    embed: Tok2Vec, elmo: Tok2Vec, width: Optional[int] = None, maxout_pieces: int = 3
) -> Tok2Vec:
    """Make a layer that concatenates ELMo with the input of a task's encoder, `[x ; ELMo]`.

    See Peters et al. 2018, section 3.3.

    embed (Model[List[Doc], List[Floats2d]]): The task's own embeddings, x.
    elmo (Model[List[Doc], List[Floats2d]]): A listener, or a Tok2VecElmo.
    width (Optional[int]): Width that the encoder needs. A maxout layer with layer norm
        maps the vectors to this width. None: no maxout layer, for encoders that accept any width.
    maxout_pieces (int): Number of pieces of the maxout layer.
    RETURNS (Model[List[Doc], List[Floats2d]]): `(n_tokens, width)` per Doc. Without a maxout layer,
        the width is the sum of both widths.
    """
    set_place(elmo, "input")
    if width is None:
        return ConcatTok2Vec(embed, elmo)
    return MixedConcat(embed, elmo, width=width, maxout_pieces=maxout_pieces)


@registry.architectures("spacy-elmo.OutputConcat.v1")
def build_output_concat(tok2vec: Tok2Vec, elmo: Tok2Vec) -> Tok2Vec:
    """Make a layer that concatenates ELMo with the output of a task's encoder, `[h ; ELMo]`.

    See Peters et al. 2018, section 3.3.

    tok2vec (Model[List[Doc], List[Floats2d]]): The task's embeddings and encoder. Their
        output is h.
    elmo (Model[List[Doc], List[Floats2d]]): A listener with its own mix, or a Tok2VecElmo.
    RETURNS (Model[List[Doc], List[Floats2d]]): `(n_tokens, sum of both widths)` per Doc.
    """
    set_place(elmo, "output")
    return ConcatTok2Vec(tok2vec, elmo)
