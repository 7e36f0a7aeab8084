"""Builds the native attention kernel, if there is a compiler; all else is in pyproject.toml.

The kernel is a plain C++17 library behind a C interface: it includes neither Python's nor
PyTorch's headers. Without a compiler, or with one that cannot build it, the installation succeeds
all the same and attention is computed in PyTorch.
"""

import glob
import os
import platform

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = "src/eigenformer/kernels/native"
FLAGS = [
    "-std=c++17",
    "-O3",
    "-fno-math-errno",  # a square root is an instruction
    "-ffp-contract=fast",
    "-Wno-psabi",
]
# The same source for several instruction sets; which one runs is decided on the user's machine.
TARGETS = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    TARGETS["x86_64_v3"] = ["-march=x86-64-v3"]
    TARGETS["x86_64_v4"] = ["-march=x86-64-v4", "-mprefer-vector-width=256"]
# For the sanitizer build of the tests: more flags for compiler and linker.
EXTRA = os.environ.get("EIGENFORMER_NATIVE_FLAGS", "").split()


class BuildNative(build_ext):
    """Compiles lanes.cpp once per instruction set."""

    def build_extension(self, extension: Extension) -> None:
        objects, macros = [], []
        for target, flags in TARGETS.items():
            try:
                objects += self._compile("lanes.cpp", target, flags)
            except Exception:
                if target == "baseline":
                    raise
                continue  # a compiler that does not know the instruction set
            macros.append(f"-DEIGENFORMER_{target.upper()}")
        objects += self._compile("library.cpp", "library", macros)
        self.compiler.link_shared_object(
            objects,
            self.get_ext_fullpath(extension.name),
            extra_postargs=EXTRA,
            target_lang="c++",
            build_temp=self.build_temp,
        )

    def _compile(self, source: str, name: str, flags: list[str]) -> list[str]:
        return self.compiler.compile(
            [f"{SOURCE}/{source}"],
            output_dir=os.path.join(self.build_temp, name),
            macros=[("EIGENFORMER_TARGET", name)],
            extra_postargs=[*FLAGS, *flags, *EXTRA],
        )


setup(
    ext_modules=[
        Extension(
            "eigenformer.kernels.native._native",
            sources=[f"{SOURCE}/lanes.cpp", f"{SOURCE}/library.cpp"],
            depends=glob.glob(f"{SOURCE}/*.h"),
            language="c++",
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildNative},
)
