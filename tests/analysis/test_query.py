import pytest

from spacy_elmo.analysis.neighbors import find_token

TOKENS = ["In", "2", "plays", ",", "3", "plays"]


@pytest.mark.parametrize(("wanted", "position"), [("0", 0), ("5", 5), ("2", 2), (",", 3)])
def test_position_or_word(wanted, position):
    assert find_token(TOKENS, wanted) == position


@pytest.mark.parametrize(
    ("tokens", "wanted", "message"),
    [
        (TOKENS, "6", "no token 6. The sentence has the tokens 0 to 5$"),
        (["In", "2010"], "2010", "0 to 1. The word '2010' is token 1$"),
        (TOKENS, "plays", "occurs 2 times in the sentence. Give the position: 2 or 5"),
        (TOKENS, "in", "no token of the sentence is 'in'. The tokens are 0 In, 1 2, 2 plays"),
        (TOKENS, "-1", "no token of the sentence is '-1'"),
        (TOKENS, "²", "no token of the sentence is '²'"),
        ([], "0", "has no token"),
    ],
)
def test_no_such_token(tokens, wanted, message):
    with pytest.raises(ValueError, match=message):
        find_token(tokens, wanted)
