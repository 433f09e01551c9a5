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
AVX2 = ["avx2", "fma", "f16c"]
AVX512 = [*AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl"]
BF16 = [*AVX512, "avx512vnni", "avx512bf16"]
# Instruction sets of each kernel: names of options of gcc and clang, without "-m".
X86 = {
    "avx2": AVX2,
    "avx2_vnni": [*AVX2, "avxvnni"],
    "avx512": AVX512,
    "avx512_vnni": [*AVX512, "avx512vnni"],
    "avx512_bf16": BF16,
}
if sys.platform == "linux":  # On other systems, we do not know how a process enables the tiles.
    X86["amx"] = [*BF16, "amx-tile", "amx-bf16", "amx-int8"]
ARM = {"neon": [], "neon_dot": ["arch=armv8.2-a+dotprod"]}
KERNELS = {"x86_64": X86, "amd64": X86, "arm64": ARM, "aarch64": ARM}


def msvc_flags(sets):
    """Return the flags of Microsoft's compiler.

    It has options only for the large sets. It knows the others, but does not define their names.
    """
    wide = "AVX512" if "avx512f" in sets else "AVX2"
    defined = [f"/D__{name.upper()}__" for name in sets if name.endswith(("vnni", "bf16"))]
    return ["/O2", "/std:c++17", f"/arch:{wide}", *defined]


class BuildKernels(build_ext):
    """Build of the extensions with the flags of the compiler in use."""

    def build_extension(self, extension):
        if self.compiler.compiler_type == "msvc":
            extension.extra_compile_args = msvc_flags(SETS[extension.name.rpartition("._")[2]])
        super().build_extension(extension)


class SourceArchive(sdist):
    """Source archive with files that setuptools does not find itself."""

    def make_distribution(self):
        self.filelist.extend(["CHANGELOG.md", "constraints.txt"])
        super().make_distribution()


SETS = KERNELS.get(platform.machine().lower(), {})

setup(
    ext_modules=[
        Extension(
            f"spacy_elmo.frozen.kernel._{name}",
            [f"{FOLDER}/kernel.cpp"],
            depends=[f"{FOLDER}/{header}.h" for header in ("processor", "simd", "tiles")],
            define_macros=[("KERNEL_INIT", f"PyInit__{name}")],
            extra_compile_args=[
                *("-O3", "-g0", "-std=c++17", "-fvisibility=hidden"),
                *(f"-m{each}" for each in sets),
            ],
            language="c++",
            optional=True,
            py_limited_api=True,
        )
        for name, sets in SETS.items()
    ],
    cmdclass={"build_ext": BuildKernels, "sdist": SourceArchive},
    # The kernels use only the stable ABI, so one wheel works for all later Python versions.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
