from spacy_elmo.analysis.probes import most_frequent, most_frequent_by_word


def test_most_frequent():
    assert most_frequent(["b", "a", "b"]) == "b"
    assert most_frequent(["b", "a"]) == "a"


def test_most_frequent_by_word():
    words = ["saw", "the", "saw", "saw", "log", "log", "the"]
    labels = ["NN", "DT", "VBD", "VBD", "VB", "NN", "DT"]
    # log: a draw; tree: unknown, the most frequent of all is DT before NN and VBD (2 each).
    asked = ["saw", "log", "the", "tree"]
    assert most_frequent_by_word(labels, words, asked) == ["VBD", "NN", "DT", "DT"]
