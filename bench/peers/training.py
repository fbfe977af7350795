"""Trains a network on ranks of unlike speeds, with even batches and with shares by speed: torchrun --nproc-per-node RANKS training.py SPEEDS STEPS [SLOWED].

SPEEDS are relative, one for each rank, such as 1,1,2,4: after its work a rank waits in proportion to the CPU time of its thread, so that all ranks can share
the cores of one machine. With SLOWED, this rank has half its speed from the middle on. Prints as JSON the samples a second of both, the largest
relative difference between their losses, the shares at the end, and the steps after which the slowed rank had at most 0.8 of its share.
"""

import json
import sys
import time

import torch
import torch.distributed as distributed
from torch.nn.functional import cross_entropy

import isochron

TURN = 10
SAMPLES, BATCH, FEATURES, HIDDEN, CLASSES = 65536, 8192, 64, 256, 10


def train(group, speeds, steps, slowed, is_even):
    """Pauses before the first step and after every TURN steps. Returns the losses, and the samples of each rank in every step."""
    torch.manual_seed(7)
    inputs = torch.randn(SAMPLES, FEATURES, dtype=torch.float64)
    classes = torch.randint(CLASSES, (SAMPLES,))
    layers = [torch.nn.Linear(FEATURES, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)]
    model = torch.nn.Sequential(*layers).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    rank, largest = group.rank(), max(speeds)
    balancer = isochron.Rebalancer(BATCH, group, move_unit_s=0, check_every=1)
    batches = isochron.SharedBatches(balancer, SAMPLES)
    losses, shares, done = [], [], 0
    yield
    while done < steps:
        batches.set_epoch(done // len(batches))
        for step, chosen in enumerate(batches):
            speed = speeds[rank] / (2 if rank == slowed and done >= steps // 2 else 1)
            balancer.begin()
            before = time.thread_time()
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs[chosen]), classes[chosen], reduction="sum") * batches.scale(step)
            loss.backward()
            time.sleep((time.thread_time() - before) * (4 * largest / speed - 1))
            balancer.end()
            # One exchange for all gradients, and the loss.
            mine = torch.cat([parameter.grad.flatten() for parameter in model.parameters()] + [loss.detach().reshape(1)])
            distributed.all_reduce(mine)
            mine /= group.size()
            sizes = [parameter.numel() for parameter in model.parameters()]
            for parameter, grad in zip(model.parameters(), mine[:-1].split(sizes)):
                parameter.grad.copy_(grad.view_as(parameter))
            optimizer.step()
            losses.append(mine[-1].item())
            shares.append(list(balancer.units))
            if not is_even:
                balancer.balance()
            done += 1
            if done == steps:
                break
            if done % TURN == 0:
                yield
    return losses, shares


def main():
    speeds, steps = [float(speed) for speed in sys.argv[1].split(",")], int(sys.argv[2])
    slowed = int(sys.argv[3]) if len(sys.argv) > 3 else None
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    group = isochron.TorchGroup()
    # They take turns, since the machine has other work now and then.
    runs = [train(group, speeds, steps, slowed, is_even) for is_even in (True, False)]
    seconds, ends = [0.0, 0.0], [None, None]
    for run in runs:
        next(run)
    while None in ends:
        for place, run in enumerate(runs):
            distributed.barrier()
            start = time.perf_counter()
            try:
                next(run)
            except StopIteration as end:
                ends[place] = end.value
            distributed.barrier()
            seconds[place] += time.perf_counter() - start
    (even_s, uneven_s), ((even, _), (uneven, shares)) = seconds, ends
    middle = steps // 2
    answers = (step for step in range(steps - middle) if shares[middle + step][slowed] <= 0.8 * shares[middle - 1][slowed])
    answered = None if slowed is None else next(answers, None)
    if group.rank() == 0:
        different = max(abs(a - b) / abs(a) for a, b in zip(even, uneven))
        print(json.dumps({
            "even_per_s": steps * BATCH / even_s,
            "uneven_per_s": steps * BATCH / uneven_s,
            "gain": even_s / uneven_s,
            "largest_difference": different,
            "shares": shares[-1],
            "answered_after": answered,
        }))
    distributed.destroy_process_group()


main()
