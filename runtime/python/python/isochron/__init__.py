"""Load balancing on unlike nodes, and matrix products that are balanced by it."""

try:
    from . import _isochron
except ImportError as error:
    if "libmpi" in str(error):
        error.add_note(
            "this wheel needs the MPI library that it was built for: "
            "for libmpi_abi.so.1 one with the standard ABI of MPI 5, as `pip install mpich` brings; "
            "a wheel without MPI needs none"
        )
    raise
from ._isochron import *
from ._isochron import __version__
from .batches import SharedBatches
from .groups import Group, MpiGroup, ThreadGroup, TorchGroup

__all__ = [*_isochron.__all__, "Algorithm", "Group", "MpiGroup", "SharedBatches", "ThreadGroup", "TorchGroup"]


class Algorithm:
    """A parallel algorithm as a performance model sees it, for `timeof` and `choose`: a program's algorithm is a subclass."""

    def processes(self):
        """Returns the number of processes."""
        raise NotImplementedError("processes")

    def volume(self, process):
        """Returns the work of a process, in units of the kernel that the speeds are measured with."""
        raise NotImplementedError("volume")

    def size(self, process):
        """Returns the units that a process has in its memory at once, at which its speed is taken: its volume, unless it goes over its data several times."""
        return self.volume(process)

    def bytes(self, source, to):
        """Returns the bytes from one process to another in the whole run."""
        raise NotImplementedError("bytes")

    def scheme(self, order):
        """Gives the order of the work and of the messages to `order`, a `Scheme`."""
        raise NotImplementedError("scheme")
