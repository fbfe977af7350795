"""A Ramble application: a folder `applications/isochron` of a repository has it as `application.py`."""

from ramble.appkit import *

RESULT = (
    r"isochron\.result gflops=(?P<gflops>\S+) wall_s=(?P<wall_s>\S+) "
    r"verified=(?P<verified>\S+)"
)


class Isochron(ExecutableApplication):
    """Matrix multiplication, balanced between unlike nodes."""

    name = "isochron"

    tags("matrix-multiplication", "mpi")

    executable("multiply", "isochron mxm --size {size} --verify probe", use_mpi=True)

    workload("multiplication", executables=["multiply"])

    workload_variable(
        "size",
        default="8192",
        description="Rows and columns of the matrices",
        workloads=["multiplication"],
    )

    log_file = "{experiment_run_dir}/{experiment_name}.out"

    figure_of_merit(
        "speed",
        log_file=log_file,
        fom_regex=RESULT,
        group_name="gflops",
        units="GFLOP/s",
    )

    figure_of_merit(
        "time",
        log_file=log_file,
        fom_regex=RESULT,
        group_name="wall_s",
        units="s",
    )

    success_criteria(
        "verified",
        mode="string",
        match=r"isochron\.result .* verified=true",
        file=log_file,
    )
