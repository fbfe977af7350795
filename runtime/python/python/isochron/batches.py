"""Batches that are divided among unlike ranks, for training."""

import random


class SharedBatches:
    """The batches of a data set, each divided among the ranks of a `Rebalancer` as it divides its units, which are the samples of a batch.

    Each item is the list of the indices of this rank's samples. It is empty on a rank without a share, which makes the same steps as the others.
    A step has the same samples however they are divided: their order depends on `seed` and the epoch alone. The samples of a smaller last
    batch are divided in the same proportions; `drop_last` leaves it out. A `DataLoader` of PyTorch takes it as its `batch_sampler`."""

    def __init__(self, balancer, length, *, shuffle=True, seed=0, drop_last=False):
        self._balancer, self._length, self._shuffle, self._seed = balancer, length, shuffle, seed
        self._size = sum(balancer.units)
        self._steps = length // self._size if drop_last else -(-length // self._size)
        self._epoch = 0

    def set_epoch(self, epoch):
        """Sets the number of the epoch that comes next: another order of the samples."""
        self._epoch = epoch

    def count(self, step):
        """Returns the number of samples of all ranks in a step."""
        return min(self._size, self._length - step * self._size)

    def scale(self, step):
        """Returns what the sum of this rank's losses in a step is multiplied by, so that the mean of all ranks' gradients is the gradient of
        the mean loss over the samples of all ranks."""
        return len(self._balancer.units) / self.count(step)

    def __len__(self):
        return self._steps

    def __iter__(self):
        order = list(range(self._length))
        if self._shuffle:
            random.Random(f"{self._seed} {self._epoch}").shuffle(order)
        for step in range(self._steps):
            # The division may change from step to step.
            mine, count = self._balancer.part, self.count(step)
            first, end = (step * self._size + bound * count // self._size for bound in (mine.start, mine.stop))
            yield order[first:end]
