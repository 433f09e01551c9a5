"""What the components of a pipeline learned of the layers."""

from spacy.language import Language

from ..layers.scalar_mix import mix_weights, mixes_of


def learned_mixes(nlp: Language) -> list[dict]:
    """Collect the mixes of a pipeline.

    nlp (Language): The pipeline.
    RETURNS (List[dict]): A row a mix: component, its number there, its place ("input" or
        "output" of an encoder, or "alone"), weights, gamma.
    """
    rows = []
    for name, pipe in nlp.pipeline:
        for number, node in enumerate(mixes_of(getattr(pipe, "model", None))):
            rows.append(
                {
                    "component": name,
                    "mix": number,
                    "place": node.attrs["place"],
                    "weights": [float(weight) for weight in mix_weights(node)],
                    "gamma": node.get_param("gamma").item(),
                }
            )
    return rows
