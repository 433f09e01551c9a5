"""How much of the package one short Doc passes through."""

import sys
from pathlib import Path

import spacy_elmo

PACKAGE = str(Path(spacy_elmo.__file__).parent)


def test_a_short_doc_passes_through_few_files(make_nlp):
    nlp = make_nlp()
    text = "The bank lends money ."
    nlp(text)
    files = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        nlp(text)
    finally:
        sys.setprofile(None)
    assert any(file.endswith("recurrence.py") for file in files)
    assert len(files) <= 12, sorted(files)
