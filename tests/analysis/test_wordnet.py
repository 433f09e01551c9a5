import pytest

from spacy_elmo.analysis.sense_corpus import FirstSenses, word_of

from helpers.wordnet_files import write_wordnet


@pytest.fixture
def database(tmp_path):
    return write_wordnet(tmp_path)


# The keys are those of index.sense of WordNet 3.0.
@pytest.mark.parametrize(
    ("word", "sense"),
    [
        ("bank%n", "bank%1:14:02::"),
        ("earth%n", "earth%1:17:00::"),
        ("hold%v", "hold%2:40:31::"),
        ("peculiar%a", "peculiar%5:00:00:specific:00"),
        ("specific%a", "specific%3:00:00::"),
        ("well%r", "well%4:02:00::"),
        ("well%n", None),
        ("unheard%n", None),
    ],
)
def test_first_sense(database, word, sense):
    assert FirstSenses(database).find(word) == sense
    if sense:
        assert word_of(sense) == word


def test_a_file_is_missing(database):
    (database / "data.adv").unlink()
    with pytest.raises(ValueError, match=r"there is no .*data\.adv. Give the folder of WordNet"):
        FirstSenses(database)


@pytest.mark.parametrize("key", ["bank", "bank%", "bank%6:00:00::", "%n"])
def test_no_sense_key(key):
    with pytest.raises(ValueError, match=f"'{key}' is not a sense key"):
        word_of(key)
