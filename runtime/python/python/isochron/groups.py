"""Ranks without an MPI library of this package, for `Rebalancer`."""

import threading


class Group:
    """Ranks that a program has anyway: a program's own group is a subclass."""

    def rank(self):
        """Returns the number of this rank, from 0."""
        raise NotImplementedError("rank")

    def size(self):
        """Returns the number of ranks."""
        raise NotImplementedError("size")

    def all_gather(self, data):
        """Returns the bytes that every rank gives, by rank; lengths may differ. All ranks call it together."""
        raise NotImplementedError("all_gather")


class TorchGroup(Group):
    """The ranks of `torch.distributed`, once `init_process_group` was called, or of one of its groups."""

    def __init__(self, group=None):
        import torch.distributed

        self._distributed, self._group = torch.distributed, group

    def rank(self):
        return self._distributed.get_rank(self._group)

    def size(self):
        return self._distributed.get_world_size(self._group)

    def all_gather(self, data):
        gathered = [None] * self.size()
        self._distributed.all_gather_object(gathered, data, group=self._group)
        return gathered


class MpiGroup(Group):
    """The ranks of a communicator of mpi4py, with any MPI library."""

    def __init__(self, comm):
        self._comm = comm

    def rank(self):
        return self._comm.Get_rank()

    def size(self):
        return self._comm.Get_size()

    def all_gather(self, data):
        return self._comm.allgather(data)


class ThreadGroup(Group):
    """A rank for each of some threads of this process, such as one for each of its devices: `make` makes all, and each thread takes one.
    If a thread drops its own, the next call of the others fails."""

    def __init__(self, rank, table):
        self._rank, self._table = rank, table

    @classmethod
    def make(cls, size):
        """Returns the members of a group of this size, by rank."""
        table = [None] * size, threading.Barrier(size)
        return [cls(rank, table) for rank in range(size)]

    def rank(self):
        return self._rank

    def size(self):
        return len(self._table[0])

    def all_gather(self, data):
        given, barrier = self._table
        given[self._rank] = data
        try:
            barrier.wait()
            gathered = list(given)
            barrier.wait()
        except threading.BrokenBarrierError:
            raise RuntimeError("a thread of the group has ended") from None
        return gathered

    def __del__(self):
        self._table[1].abort()
