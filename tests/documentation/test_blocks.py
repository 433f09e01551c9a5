"""Blocks that are wrong do not pass."""

import pytest
from sybil.example import SybilFailure

from helpers.page_blocks import run_page


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(text, **options):
        page = tmp_path / "page.md"
        page.write_text(text, "utf8")
        return run_page(page, **options)

    return run


PYTHON = "```python\nprint('one,', 2)\n```\n\n"


def test_output(run):
    assert run(f"{PYTHON}```text\none, 2\n```\n") == []
    run(f"{PYTHON}```text\none, ...\n```\n")
    with pytest.raises(SybilFailure, match="printed:\none, 2"):
        run(f"{PYTHON}```text\none, 3\n```\n")


def test_python(run):
    run("```python\none = 1\n```\n\n```python\nassert one == 1\n```\n")
    with pytest.raises(ZeroDivisionError):
        run("```python\n1 / 0\n```\n")


def test_left_out(run):
    left_out = run(
        '<!-- skip: next "needs a cluster" -->\n```python\n1 / 0\n```\n\n```text\nno\n```\n'
    )
    assert left_out == ["page.md:1: needs a cluster"] or "needs a cluster" in left_out[0]
    slow = '<!-- skip: next if(not slow, reason="takes a minute") -->\n```python\n1 / 0\n```\n'
    assert "takes a minute" in run(slow)[0]
    with pytest.raises(ZeroDivisionError):
        run(slow, slow=True)


@pytest.mark.processes
def test_commands(run):
    info = "```bash\npython -m spacy elmo info nowhere\n```\n"
    with pytest.raises(SybilFailure, match="exit code 1"):
        run(info)
    run(f"<!-- status: 1 -->\n{info}")
    with pytest.raises(SybilFailure, match="exit code 2"):
        run("```bash\npython -m spacy elmo info en_small --nothing\n```\n")
    with pytest.raises(SybilFailure, match="belong to no command"):
        run(
            "<!-- with: pretrain --output x -->\n```bash\npython -m spacy elmo info en_small\n```\n"
        )
    run("<!-- with: info --json -->\n```bash\npython -m spacy elmo info \\\n    en_small\n```\n")
    run("```bash\necho one    # a comment\n```\n\n```text\none\n```\n")


def test_what_is_only_looked_up(run):
    run('```bash\nmake demo\npip install ".[parquet]"\n```\n')
    with pytest.raises(SybilFailure, match="knows no supper"):
        run("```bash\nmake supper\n```\n")
    with pytest.raises(SybilFailure, match="no extra"):
        run('```bash\npip install ".[supper]"\n```\n')
    with pytest.raises(SybilFailure, match="neither in the checkout"):
        run("```bash\npip install spacy-elmo\n```\n")


def test_config(run):
    run('```ini\n[components.elmo]\nprecision = "int8"\n```\n')
    with pytest.raises(ValueError, match="presicion"):
        run('```ini\n[components.elmo]\npresicion = "int8"\n```\n')
    with pytest.raises(Exception, match=r"windows\.v9"):
        run('```ini\n[components.elmo.segmenter]\n@segmenters = "spacy-elmo.windows.v9"\n```\n')
