# SPDX-License-Identifier: (MIT OR Apache-2.0)

import os
import re

from spack_repo.builtin.build_systems.cargo import CargoPackage

from spack.package import *

BUILD = (
    "build --release --offline --frozen -p isochron-cli -p isochron-c "
    "--features isochron-cli/schemars"
)


class Isochron(CargoPackage):
    """Matrix products and loops over MPI, balanced between unlike nodes.

    The archive is made by ``cargo xtask vendor`` and has all crates: nothing is fetched. Spack
    looks for it in the current folder and in mirrors.
    """

    url = f"file://{os.getcwd()}/isochron-0.1.0-vendored.tar.gz"
    manual_download = True

    license("MIT OR Apache-2.0")

    # The archive holds this file, which therefore cannot name its checksum.
    version("0.1.0")

    depends_on("c", type="build")
    depends_on("rust@1.90:", type="build")
    depends_on("pkgconfig", type="build")
    # The bindings of MPI are generated.
    depends_on("llvm+clang", type="build")
    depends_on("mpi")
    depends_on("hwloc@2.8:2")
    # Opened at run time: for a library to link, the compiler adds its folder to the search path.
    depends_on("openblas threads=pthreads", type=("link", "run"))

    def setup_build_environment(self, env):
        env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)
        env.set("MPICC", self.spec["mpi"].mpicc)

    def build(self, spec, prefix):
        with working_dir(self.build_directory):
            self.module.cargo(*BUILD.split(), "-j", str(self.module.make_jobs))

    def install(self, spec, prefix):
        mkdirp(prefix.bin, prefix.include, prefix.lib.pkgconfig, prefix.share)
        with working_dir(self.build_directory):
            install("target/release/isochron", prefix.bin)
            Executable(prefix.bin.isochron)("write-manuals", prefix.share)
            install("runtime/c/include/isochron.h", prefix.include)
            install("devices/kernel/include/isochron_kernel.h", prefix.include)
            install("runtime/c/fortran/isochron.f90", prefix.include)
            # The soname has the MPI library: libisochron-openmpi.so.0, libisochron-mpich.so.0.
            library = "target/release/libisochron_c.so"
            told = Executable("readelf")("-d", library, output=str)
            soname = re.search(r"SONAME.*\[(.+)\]", told).group(1)
            install(library, join_path(prefix.lib, soname))
        name = re.match(r"lib([^.]+)", soname).group(1)
        os.symlink(soname, join_path(prefix.lib, f"lib{name}.so"))
        with open(join_path(prefix.lib.pkgconfig, f"{name}.pc"), "w") as package:
            package.write(
                f"fortran={prefix.include}/isochron.f90\n"
                f"Name: Isochron\nDescription: Balanced products and loops\n"
                f"Version: {self.version}\n"
                f"Cflags: -I{prefix.include}\nLibs: -L{prefix.lib} -l{name}\n"
            )
