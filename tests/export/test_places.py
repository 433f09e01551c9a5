"""What cannot be written elsewhere is named, with the reason."""

import fsspec
import pytest

from spacy_elmo.export.places import RemoteFolder


@pytest.mark.parametrize(
    ("error", "reason"), [(OSError("full"), "full"), (TimeoutError(), "TimeoutError")]
)
def test_error_of_any_library(monkeypatch, error, reason):
    def fail(*args):
        raise error

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "put_file", fail)
    with pytest.raises(ValueError, match=f"^memory://a/x cannot be written: {reason}$"):
        RemoteFolder("memory://a/").write("x", "content")
