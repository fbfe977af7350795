"""Trains a network on ranks of unlike speeds, each with its share of every batch: `torchrun --nproc-per-node 4 training.py`."""

import torch
import torch.distributed as distributed
from torch.nn.functional import mse_loss

import isochron

distributed.init_process_group("gloo")
group = isochron.TorchGroup()
torch.manual_seed(1)
inputs = torch.randn(20_000, 64)
targets = inputs.sin().sum(1, keepdim=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

# 512 samples in each step; a share costs nothing to change, since every rank has all data. The times are looked at after each step.
balancer = isochron.Rebalancer(512, group, move_unit_s=0, check_every=1)
batches = isochron.SharedBatches(balancer, len(inputs), drop_last=True)
for epoch in range(5):
    batches.set_epoch(epoch)
    for step, chosen in enumerate(batches):
        balancer.begin()
        optimizer.zero_grad()
        loss = mse_loss(model(inputs[chosen]), targets[chosen], reduction="sum") * batches.scale(step)
        loss.backward()
        balancer.end()
        # Here the ranks wait for each other, which is no work of theirs.
        for parameter in model.parameters():
            distributed.all_reduce(parameter.grad)
            parameter.grad /= group.size()
        optimizer.step()
        balancer.balance()
    if group.rank() == 0:
        print(f"epoch {epoch}: samples of each rank {balancer.units}")
distributed.destroy_process_group()
