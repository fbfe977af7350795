"""Ranks without an MPI library of this package, for `Rebalancer`."""

import threading
import types


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

    def leave(self):
        """Tells the others, if the group can, that this rank takes part no longer."""


class TorchGroup(Group):
    """The ranks of `torch.distributed`, once `init_process_group` was called, or of one of its groups. The group's backend moves the bytes: where NCCL is
    the default, give `torch.distributed.new_group(backend="gloo")`."""

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
    Calls that wait for a thread fail once it has ended, dropped its own, or left a `with` block of a `Rebalancer` by an exception."""

    def __init__(self, rank, table):
        self._rank, self._table = rank, table

    @classmethod
    def make(cls, size):
        """Returns the members of a group of this size, by rank."""
        table = types.SimpleNamespace(changed=threading.Condition(), given=[None] * size, threads=[None] * size, gone=None)
        return [cls(rank, table) for rank in range(size)]

    def rank(self):
        return self._rank

    def size(self):
        return len(self._table.given)

    def all_gather(self, data):
        table = self._table
        with table.changed:
            given = table.given
            given[self._rank], table.threads[self._rank] = data, threading.current_thread()
            if None not in given:
                table.given = [None] * len(given)
                table.changed.notify_all()
            while table.given is given:
                if table.gone is not None:
                    raise RuntimeError(f"the thread of rank {table.gone} has ended")
                if not table.changed.wait(1):
                    ended = (rank for rank, thread in enumerate(table.threads) if thread and not thread.is_alive())
                    table.gone = next(ended, table.gone)
            return list(given)

    def __del__(self):
        if hasattr(self, "_table"):
            self.leave()

    def leave(self):
        with self._table.changed:
            if self._table.gone is None:
                self._table.gone = self._rank
            self._table.changed.notify_all()
