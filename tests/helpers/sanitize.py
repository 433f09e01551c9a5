"""Kernels with AddressSanitizer and UndefinedBehaviorSanitizer: `make sanitize`.

The kernels are compiled again, into a temporary folder, and pytest gets them instead of the usual
ones: `-p helpers.sanitized`. At the first fault, a sanitizer prints where it is, and the process
ends. Python itself has no sanitizer, so the library of AddressSanitizer is loaded first.
"""

import os
import subprocess
import sys
import tempfile
from distutils.core import run_setup
from pathlib import Path

from spacy_elmo.frozen.kernel import NUMPY, available_kernels

from helpers.profiles import LONG

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "SANITIZED_KERNELS"  # The environment variable that names the folder.
FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
RUNTIME = "libasan.so"


def runtime() -> Path | None:
    """Find the library of AddressSanitizer. Only gcc on Linux has it where it can be preloaded."""
    try:
        asked = ["g++", f"-print-file-name={RUNTIME}"]
        found = Path(subprocess.run(asked, capture_output=True, text=True).stdout.strip())
    except FileNotFoundError:
        return None
    return found if sys.platform == "linux" and found.is_absolute() else None


def build(folder: Path, kernels: list[str]) -> None:
    """Compile kernels with sanitizers, without optimization, which would take three times as long.

    folder (Path): Where to write them.
    kernels (List[str]): The names of the kernels.
    """
    command = run_setup(str(ROOT / "setup.py"), stop_after="init").get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(folder), str(folder / "temporary")
    extensions = command.distribution.ext_modules
    command.distribution.ext_modules = [e for e in extensions if e.name.split("._")[-1] in kernels]
    for extension in command.distribution.ext_modules:
        extension.optional = False
        extension.extra_compile_args += ["-O0", "-g", *FLAGS]
        extension.extra_link_args += FLAGS
        for name in ("sources", "depends"):
            setattr(extension, name, [str(ROOT / path) for path in getattr(extension, name)])
    command.ensure_finalized()
    command.run()


def run_sanitized(
    folder: Path, *arguments: str, is_shown: bool = False
) -> subprocess.CompletedProcess:
    """Run `python ARGUMENTS` with the kernels in a folder.

    is_shown (bool): Whether to print what it prints, instead of returning it.
    RETURNS (subprocess.CompletedProcess): The ended process, with what it printed.
    """
    environment = {
        **os.environ,
        FOLDER: str(folder),
        "LD_PRELOAD": str(runtime()),
        # Python keeps memory until it ends, so leaks are not reported.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=not is_shown, text=True
    )


def main() -> None:
    """Run all tests of frozen models with each kernel of this machine, and many odd shapes."""
    if runtime() is None:
        sys.exit("This needs Linux and g++ with its sanitizers.")
    kernels = [name for name in available_kernels() if name != NUMPY]
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), kernels)
        pytest = ["-m", "pytest", "-p", "helpers.sanitized", "-p", "no:cacheprovider"]
        for kernel in kernels:
            os.environ["SPACY_ELMO_KERNEL"] = kernel
            print(f"tests/frozen with {kernel} and sanitizers", flush=True)
            # This test would build the kernels once more.
            options = [
                "--ignore",
                "tests/frozen/test_sanitizers.py",
                f"--hypothesis-profile={LONG}",
            ]
            tests = [*pytest, "tests/frozen", *options]
            ended = run_sanitized(Path(folder), *tests, is_shown=True)
            if ended.returncode:
                sys.exit(f"The kernel {kernel} has a fault, or a test fails with it.")


if __name__ == "__main__":
    main()
