"""Which reader reads the files of a component."""

READERS = {
    "elmo_crf": "spacy-elmo.BIOCorpus.v1",
    "elmo_srl": "spacy-elmo.SRLCorpus.v1",
    "elmo_coref": "spacy-elmo.CorefCorpus.v1",
    "elmo_textpair": "spacy-elmo.TextPairCorpus.v1",
    "elmo_qa": "spacy-elmo.QACorpus.v1",
}
