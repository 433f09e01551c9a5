"""Import of packages that may not be installed."""

from importlib import import_module
from typing import Any

# Name of each module's package, and the argument of `pip install`.
PACKAGES = {
    "pyarrow.parquet": ("pyarrow", '"spacy-elmo[parquet]"'),
    "ray": ("Ray", '"spacy-elmo[ray]"'),
    "sklearn": ("scikit-learn", '"spacy-elmo[analysis]"'),
    "tensorflow": ("TensorFlow", "tensorflow"),
    "torch": ("PyTorch", "torch"),
}


def import_optional(module: str, purpose: str, otherwise: str = "") -> Any:
    """Import a module of an optional package.

    module (str): The module, a key of `PACKAGES`.
    purpose (str): The subject of the error message, which needs the package.
    otherwise (str): Another remedy, for the end of the error message.
    RETURNS (ModuleType): The module.
    RAISES (ImportError): The package is not installed, or cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        name, package = PACKAGES[module]
        raise ImportError(
            f"{purpose} needs {name}, which cannot be imported ({error}). Run "
            f"pip install {package}{otherwise}."
        ) from error
