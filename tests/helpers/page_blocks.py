"""The code blocks of a Markdown page, run in order in a folder of their own.

What runs how:

* `python` blocks share the page's names;
* `bash` blocks are commands, run one by one, `python -m spacy` in this process, which
  spares importing PyTorch for each; `make TARGET` is looked up, not made, and of
  `pip install` the extras and files are;
* `ini` blocks are laid over a complete config, whose pipeline is built;
* a `text` block is what the block before it prints: `...` stands for anything, and blanks
  and line breaks count alike;
* blocks without a language, and `bibtex`, are read by people alone.

Comments in the page's source, each for the next block:

* `<!-- skip: next "REASON" -->`: it cannot run here;
* `<!-- skip: next if(not slow, reason="REASON") -->`: it runs where `slow` tests do;
* `<!-- with: COMMAND OPTIONS -->`: `python -m spacy elmo COMMAND`, or `python -m spacy COMMAND`,
  gets these options, too: less of the same;
* `<!-- status: N -->`: the last command ends with this exit code;
* `<!-- invisible-code: python`: code up to `-->`, which readers do not see.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Optional
from unittest import SkipTest

import click
import spacy
import spacy.cli
from spacy.cli._util import app
from spacy.language import DEFAULT_CONFIG_PRETRAIN_PATH
from spacy.schemas import ConfigSchemaPretrain
from sybil import Example, Sybil
from sybil.document import Document
from sybil.parsers.markdown import CodeBlockParser, SkipParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer
from sybil.region import Region
from thinc.api import Config
from typer.testing import CliRunner

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMPLETE_CONFIG = ROOT / "configs" / "training" / "ner_elmo_alone.cfg"
READ_BY_PEOPLE = {"", "bibtex", "dockerfile"}
WITH_PLACE = {"--find-links", "--index-url"}  # options of pip, before a folder or an address
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
OUTPUT = "printed output"  # key of the namespace; None where nothing ran
OPTIONS = "options of the next block"


def run_page(path: Path, *, slow: bool = False) -> list[str]:
    """Run the blocks of a page in the working folder.

    path (Path): The page.
    slow (bool): Whether blocks that take long run, too.
    RETURNS (List[str]): The reasons of the blocks that were left out.
    """
    document = sybil.parse(path)
    document.namespace.update(slow=slow, **{OUTPUT: None, OPTIONS: {}})
    left_out = []
    for example in document.examples():
        try:
            example.evaluate()
        except SkipTest as skipped:
            left_out.append(f"{path.name}:{example.line}: {skipped}")
            document.namespace.update({OUTPUT: None, OPTIONS: {}})
    return left_out


def run_python(example: Example) -> None:
    """Run a block of Python."""
    source = "\n" * (example.line + example.parsed.line_offset) + example.parsed
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, example.path, "exec", dont_inherit=True), example.namespace)
    example.namespace[OUTPUT] = printed.getvalue()


def run_bash(example: Example) -> Optional[str]:
    """Run the commands of a block, and tell how one failed."""
    options = example.namespace[OPTIONS]
    example.namespace[OPTIONS] = {}
    lines = re.sub(r"\\\n\s*", "", example.parsed).splitlines()
    commands = [(line, words) for line in lines if (words := shlex.split(line, comments=True))]
    expected = options.pop("status", 0)
    printed = []
    for line, command in commands:
        status, output = _run(command, line, options)
        printed.append(output)
        if status != (expected if command is commands[-1][1] else 0):
            return f"{line}\nended with exit code {status}:\n{output}"
    example.namespace[OUTPUT] = "".join(printed)
    return f"the options {options} belong to no command" if options else None


def _run(command: list[str], line: str, options: dict[str, Any]) -> tuple[int, str]:
    """Run a command, and return its exit code and output."""
    if command[0] == "make":
        return _look_up_target(command)
    if command[:2] == ["pip", "install"]:
        return _look_up_extras(command[2:])
    if command[0] == "cd":
        os.chdir(command[1])
        return 0, ""
    if command[:3] == ["python", "-m", "spacy"] and not {"|", ">", "*"} & set(command):
        name = command[4] if command[3] == "elmo" else command[3]
        result = CliRunner().invoke(app, [*command[3:], *options.pop(name, [])])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, click.unstyle(result.output)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    done = subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def _look_up_target(command: list[str]) -> tuple[int, str]:
    """The target is there, and so are the variables that are given."""
    makefile = (ROOT / "Makefile").read_text("utf8")
    for word in command[1:]:
        name, _, value = word.partition("=")
        if not re.search(rf"\$\({name}\)" if value else rf"^{name}:", makefile, re.MULTILINE):
            return 2, f"Makefile knows no {name}"
    return 0, ""


def _look_up_extras(words: list[str]) -> tuple[int, str]:
    """The package has the extras, and the files and packages are known."""
    known = metadata.metadata("spacy-elmo").get_all("Provides-Extra", [])
    # The package index has no package of ours.
    models = {f"spacy-elmo-{name}" for name in ("en-small", "en-medium", "de-historical")}
    ours = {"torch", "spacy-elmo", "en-elmo-web-sm", "de-elmo-historical-sm", *models}
    packages = ours if WITH_PLACE & {*words} else set()
    packages |= {re.split(r"[^\w-]", one)[0] for one in metadata.requires("spacy-elmo") or []}
    for before, word in zip(["", *words], words):
        is_known = word.startswith("-") or word in packages or before in WITH_PLACE
        if extras := re.fullmatch(r"\.\[(.*)\]", word):
            if unknown := {*extras[1].split(",")} - {*known}:
                return 1, f"the package has no extra {sorted(unknown)}"
        elif not is_known and not (ROOT / word).exists():
            return 1, f"{word} is neither in the checkout nor a path to it"
    return 0, ""


def build_config(example: Example) -> None:
    """Lay a block over a complete config, and build what it describes."""
    block = Config().from_str(_with_parents(example.parsed), interpolate=False)
    config = Config().from_disk(COMPLETE_CONFIG, interpolate=False)
    _lay_over(config, block)
    if "pretraining" in block:
        config = spacy.util.load_config(DEFAULT_CONFIG_PRETRAIN_PATH).merge(config)
    nlp = spacy.util.load_model_from_config(config.interpolate(), auto_fill=True)
    if "pretraining" in block:
        pretraining = nlp.config.interpolate()["pretraining"]
        spacy.util.registry.resolve(pretraining, schema=ConfigSchemaPretrain)
    example.namespace["nlp"] = nlp


def _with_parents(text: str) -> str:
    """Add the sections around those of an excerpt, which it may leave out."""
    names = re.findall(r"^\[(.+)\]$", text, re.MULTILINE)
    parts = [name.split(".") for name in names]
    parents = {".".join(words[:n]) for words in parts for n in range(1, len(words))}
    return "".join(f"[{name}]\n" for name in sorted(parents - set(names), key=len)) + text


def _lay_over(config: dict[str, Any], block: dict[str, Any]) -> None:
    """Put a block into a config. A section with its own factory or function is replaced."""
    for key, value in block.items():
        if isinstance(value, dict) and "factory" not in value and "@" not in "".join(value):
            config[key] = config.get(key) or {}
            _lay_over(config[key], value)
        else:
            config[key] = value


def check_output(example: Example) -> Optional[str]:
    """Compare what a page shows with what the block before it printed."""
    printed = example.namespace[OUTPUT]
    if printed is None or doctest.OutputChecker().check_output(example.parsed, printed, FLAGS):
        return None
    return f"shown:\n{example.parsed}\nprinted:\n{printed}"


def find_options(document: Document) -> Iterator[Region]:
    """Yield the comments that change how the next block runs."""
    for name in ("with", "status"):
        for region in DirectiveInHTMLCommentLexer(name)(document):
            region.parsed = (name, region.lexemes["arguments"])
            region.evaluator = note_options
            yield region


def note_options(example: Example) -> None:
    """Keep what a comment says for the next block."""
    name, words = example.parsed
    command, *more = shlex.split(words)
    entry = {"status": int(command)} if name == "status" else {command: more}
    example.namespace[OPTIONS].update(entry)


RUN = {"python": run_python, "bash": run_bash, "ini": build_config, "text": check_output}
sybil = Sybil([*(CodeBlockParser(*block) for block in RUN.items()), SkipParser(), find_options])
