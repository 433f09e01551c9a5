"""Layer mixes that the components of a pipeline have learned."""

from spacy.language import Language
from thinc.api import Model

from ..layers.listener import ElmoListener
from ..layers.scalar_mix import mix_weights, mixes_of


def learned_mixes(nlp: Language) -> list[dict]:
    """Collect the layer mixes of a pipeline's components.

    nlp (Language): The pipeline.
    RETURNS (List[dict]): One dict per mix: "component", the component's name; "mix", the index of
        the mix in the component; "place", where the component reads ELMo ("input" or "output" of an
        encoder, or "alone" without an encoder); "upstream", the name of the `elmo` pipe (None if
        the component has its own language model); "weights", one per layer; "gamma", the factor of
        the sum.
    """
    rows = []
    for name, pipe in nlp.pipeline:
        model = getattr(pipe, "model", None)
        nodes = list(model.walk()) if isinstance(model, Model) else []
        listeners = [node for node in nodes if isinstance(node, ElmoListener)]
        upstreams = {node.mix.id: node.upstream.name for node in listeners if node.upstream}
        for number, node in enumerate(mixes_of(model)):
            rows.append(
                {
                    "component": name,
                    "mix": number,
                    "place": node.attrs["place"],
                    "upstream": upstreams.get(node.id),
                    "weights": [float(weight) for weight in mix_weights(node)],
                    "gamma": node.get_param("gamma").item(),
                }
            )
    return rows
