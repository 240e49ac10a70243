# The recipe of Spack. It builds the checkout that it lies in, at its branch main:
#   spack repo add ci/package/spack/spack_repo/plumbline && spack install plumbline +mpi
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Plumbline(CMakePackage):
    """Conformance and benchmark suite for the building blocks of distributed training."""

    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 7))

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="Backend mpi, for the MPI of the spec")
    variant("torch", default=False, description="Training, and backends of torch.distributed")
    variant("cuda", default=False, description="Kernels for GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("fmt+pic")
    depends_on("nlohmann-json")
    depends_on("tomlplusplus")
    depends_on("cli11")
    depends_on("googletest+gmock")
    depends_on("benchmark")
    depends_on("prometheus-cpp")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("mpi", when="+mpi", type=("build", "link", "run"))
    depends_on("py-torch@2.1:", when="+torch", type=("build", "link", "run"))
    depends_on("cuda@12.1:", when="+cuda")

    conflicts("%gcc@:11", msg="C++20 as of GCC 12 is needed")

    sanity_check_is_file = [join_path("bin", "plumbline"), join_path("lib", "plumbline", "libplumbline_worker.so")]

    def cmake_args(self):
        # LibTorch is found by what py-torch puts into CMAKE_PREFIX_PATH.
        return [
            self.define("PLUMBLINE_TESTS", self.run_tests),
            self.define("PLUMBLINE_MPICC_ALSO", ""),  # no MPI of the machine, which the spec does not name
            self.define_from_variant("PLUMBLINE_MPI", "mpi"),
            self.define_from_variant("PLUMBLINE_TORCH", "torch"),
            self.define_from_variant("PLUMBLINE_CUDA", "cuda"),
        ]

    def test_check(self):
        """the reference passes its checks of barriers"""
        plumbline = which(self.prefix.bin.plumbline)
        plumbline("check", "--backend", "local", "--filter", "collectives.barrier*", "--out", "out")
