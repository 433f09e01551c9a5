"""Components of the tasks that an earlier version saved, and what their models computed then."""

import numpy as np
import pytest
import spacy
from thinc.api import Config

from spacy_elmo.tasks.srl.model import predicate_instances

from helpers.golden import SAVED
from helpers.tasks import TASKS

pytestmark = pytest.mark.pipelines

DOCS = {task.factory: task.docs for task in TASKS}
DOCS["textcat"] = lambda nlp: [nlp.make_doc(text) for text in ("a fine film .", "dull .")]


def outputs_of(pipe, docs):
    """Return the outputs of the model as arrays."""
    found = pipe.model.predict(docs)
    segments = [pipe.segmenter(doc) for doc in docs] if hasattr(pipe, "segmenter") else []
    if pipe.name == "elmo_crf":
        return [*found.scores, found.transitions, found.start, found.end]
    if pipe.name == "elmo_srl":
        return found(predicate_instances(segments, [[0] for _ in docs]))[0]
    if pipe.name == "elmo_coref":
        rankings = [found(i, segments[i])[0] for i in range(len(docs))]
        return [x for one in rankings for x in (one.mention_scores, one.pair_scores)]
    return found


@pytest.mark.parametrize("name", DOCS)
def test_saved_components_compute_the_same(name):
    saved = np.load(SAVED / "tasks.npz")
    config = Config().from_bytes(saved[f"{name} config"].tobytes())
    nlp = spacy.util.load_model_from_config(config)
    pipe = nlp.get_pipe(name).from_bytes(saved[f"{name} pipe"].tobytes())
    docs = DOCS[name](nlp)
    found = outputs_of(pipe, docs)
    assert len(found) == len([key for key in saved if key.startswith(f"{name} ")]) - 2
    for i, values in enumerate(found):
        np.testing.assert_allclose(values, saved[f"{name} {i}"], rtol=1e-5, atol=1e-5)
