"""How much of the package one short Doc passes through."""

import sys
from pathlib import Path

import spacy_elmo

PACKAGE = str(Path(spacy_elmo.__file__).parent)


def test_a_short_doc_touches_few_files(make_nlp):
    nlp = make_nlp()
    nlp("Warm up .")
    files = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        nlp("The bank lends money .")
    finally:
        sys.setprofile(None)
    assert 0 < len(files) <= 12, sorted(files)
