"""A ReFrame test of Isochron: `reframe -c isochron_reframe.py -r --performance-report`.

`isochron` is to be on the PATH of the jobs. ReFrame's launcher of the partition starts the ranks.
"""

import reframe as rfm
import reframe.utility.sanity as sn

RESULT = (
    r"^isochron\.result gflops=(?P<gflops>\S+) wall_s=(?P<wall_s>\S+) "
    r"verified=(?P<verified>\S+)$"
)


@rfm.simple_test
class IsochronMultiplication(rfm.RunOnlyRegressionTest):
    descr = "matrix multiplication, balanced between unlike nodes"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "isochron"

    size = parameter([2048, 4096])
    ranks = variable(int, value=1)

    @run_before("run")
    def prepare(self):
        self.num_tasks = self.ranks
        self.executable_opts = ["mxm", "--size", str(self.size), "--verify", "probe"]

    @sanity_function
    def is_verified(self):
        verified = sn.extractsingle(RESULT, self.stdout, "verified")
        return sn.assert_eq(verified, "true")

    @performance_function("GFLOP/s")
    def gflops(self):
        return sn.extractsingle(RESULT, self.stdout, "gflops", float)

    @performance_function("s")
    def wall(self):
        return sn.extractsingle(RESULT, self.stdout, "wall_s", float)
