"""Balances a loop over three devices of one process, without MPI: each has a thread, and the first device has a quarter of the others' speed."""

import threading
import time

import isochron


def work(group):
    seconds = 4e-5 if group.rank() == 0 else 1e-5
    with isochron.Rebalancer(600, group, move_unit_s=0) as balancer:
        for sweep in range(30):
            with balancer.step():
                time.sleep(seconds * len(balancer.part))  # stands for the work on these units
        if group.rank() == 0:
            print("units of the devices:", balancer.units)


threads = [threading.Thread(target=work, args=(group,)) for group in isochron.ThreadGroup.make(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
