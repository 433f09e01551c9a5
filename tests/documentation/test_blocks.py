"""The runner of the pages' code blocks finds wrong blocks, and leaves out only the marked ones."""

import pytest

from helpers.page_blocks import run_page


@pytest.fixture
def run(here):
    def run(text, **options):
        page = here / "page.md"
        page.write_text(text, "utf8")
        return run_page(page, **options)

    return run


def block(language, code, comment=""):
    return f"{comment}\n```{language}\n{code}\n```\n\n"


ONE = block("python", "print('one,', 2)")
INFO = "python -m spacy elmo info"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ONE + block("text", "one, 3"), "printed:\none, 2"),
        (block("python", "1 / 0"), "division by zero"),
        (block("bash", f"{INFO} nowhere"), "exit code 1"),
        (block("bash", f"{INFO} en_small", "<!-- with: pretrain -o x -->"), "belong to no command"),
        (block("bash", "make supper"), "knows no supper"),
        (block("bash", 'pip install ".[supper]"'), "no extra"),
        (block("bash", "pip install spacy-elmo"), "neither in the checkout"),
        (block("ini", '[components.elmo]\npresicion = "int8"'), "presicion"),
        (block("ini", '[components.elmo.segmenter]\n@segmenters = "x.v9"'), r"x\.v9"),
    ],
)
def test_wrong_blocks_fail(run, text, message):
    with pytest.raises(Exception, match=message):
        run(text)


def test_blocks_are_left_out_only_with_a_reason(run):
    no = block("python", "1 / 0", '<!-- skip: next "needs a cluster" -->') + block("text", "no")
    assert "needs a cluster" in run(no)[0]
    comment = '<!-- skip: next if(not slow, reason="takes a minute") -->'
    assert "takes a minute" in run(block("python", "1 / 0", comment))[0]
    with pytest.raises(ZeroDivisionError):
        run(block("python", "1 / 0", comment), slow=True)
