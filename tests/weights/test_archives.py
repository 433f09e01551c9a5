"""Archives and special files that would never end, or fill the memory."""

import os
import zipfile

import pytest

from spacy_elmo.weights import read_weights
from spacy_elmo.weights.archives import MAX_ENTRIES, opened_path, read_bytes

from helpers.commands import run_python


def archive_of(path, names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


NAMES = [
    *("//a", "/a", "a//b", "../a", "a/../b", "./a"),
    "a/" * 40 + "b",
    "x/" * 30_000 + "y",
]
# In a process of its own, which can be ended: some of these were read without end.
SCRIPT = """
import sys
from spacy_elmo.weights import read_weights
for path in sys.argv[1:]:
    try:
        read_weights(path)
    except ValueError as error:
        print(error)
"""


def errors_of(paths):
    """What reading each of them says, a line each."""
    found = run_python("-c", SCRIPT, *paths).splitlines()
    assert len(found) == len(paths)
    return found


def test_names_that_no_model_has(tmp_path):
    paths = [
        archive_of(tmp_path / f"{i}.zip", ["options.json", name]) for i, name in enumerate(NAMES)
    ]
    for path, message in zip(paths, errors_of(paths)):
        assert message.startswith(f"{path}: the entry ")
        assert len(message) < len(str(path)) + 200


def test_too_many_entries(tmp_path):
    path = archive_of(tmp_path / "a.zip", [str(i) for i in range(MAX_ENTRIES + 1)])
    with pytest.raises(ValueError, match=r"a\.zip: 10,001 entries"):
        read_weights(path)


def test_folders_are_no_empty_names(tmp_path):
    path = archive_of(tmp_path / "a.zip", ["model/", "model/a/", "model/a/b.txt"])
    with opened_path(path) as folder:
        assert [item.name for item in folder.iterdir()] == ["a"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_special_files(tmp_path):
    paths = []
    for name in ("pipe.safetensors", "weights.hdf5", "options.json", "char.dic"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        os.mkfifo(folder / name)
        os.symlink("/dev/zero", folder / "vocab.txt")
        if name == "options.json":
            (folder / "weights.hdf5").write_bytes(b"")
        for file in (folder / name, folder / "vocab.txt"):
            with pytest.raises(ValueError, match="not a regular file"):
                read_bytes(file, 1)
        paths += [folder, folder / name]
    assert all(str(path) in message for path, message in zip(paths, errors_of(paths)))
