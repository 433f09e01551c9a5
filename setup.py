"""Build of the compiled kernels. Everything else is in pyproject.toml.

Each instruction set is a separate, optional extension: without a compiler, the installation
succeeds and the package computes with numpy.
"""

import platform
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

FOLDER = "spacy_elmo/frozen/kernel"
AVX512 = [
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
    *("-mavx512vnni", "-mavx512bf16", "-mfma", "-mf16c"),
]
X86 = {"avx2": ["-mavx2", "-mfma", "-mf16c"], "avx512": AVX512}
if sys.platform == "linux":  # On other systems, we do not know how a process enables the tiles.
    X86["amx"] = [*AVX512, "-mamx-tile", "-mamx-bf16", "-mamx-int8"]
FLAGS = {"x86_64": X86, "amd64": X86, "arm64": {"neon": []}, "aarch64": {"neon": []}}
MSVC = {"avx2": ["/arch:AVX2"], "avx512": ["/arch:AVX512"]}


class BuildKernels(build_ext):
    """Build of the extensions with the flags of the compiler in use."""

    def build_extension(self, extension):
        name = extension.name.rpartition("._")[2]
        if self.compiler.compiler_type == "msvc":
            extension.extra_compile_args = ["/O2", "/std:c++17", *MSVC.get(name, [])]
        super().build_extension(extension)


class SourceArchive(sdist):
    """Source archive with files that setuptools does not find itself."""

    def make_distribution(self):
        self.filelist.extend(["CHANGELOG.md", "constraints.txt"])
        super().make_distribution()


setup(
    ext_modules=[
        Extension(
            f"spacy_elmo.frozen.kernel._{name}",
            [f"{FOLDER}/kernel.cpp"],
            depends=[f"{FOLDER}/simd.h", f"{FOLDER}/tiles.h"],
            extra_compile_args=["-O3", "-g0", "-std=c++17", "-fvisibility=hidden", *flags],
            language="c++",
            optional=True,
            py_limited_api=True,
        )
        for name, flags in FLAGS.get(platform.machine().lower(), {}).items()
    ],
    cmdclass={"build_ext": BuildKernels, "sdist": SourceArchive},
    # The kernels use only the stable ABI, so one wheel works for all later Python versions.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
