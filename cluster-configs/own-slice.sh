#!/bin/sh
# Gives each rank of a host a slice of its GPUs (MIG) of its own, in the order in which `nvidia-smi -L` lists them:
#
#   mpirun -n 2 --bind-to none cluster-configs/own-slice.sh isochron mxm --size 8192
#
# A process sees one slice of a GPU instance, and with drivers before R570 one slice in all, so that ranks which are not
# told apart see the same one. A rank for which no slice is left sees no GPU. Batch systems that give each task a slice
# (Slurm: --gpus-per-task) set CUDA_VISIBLE_DEVICES themselves; then this script is not needed.
rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-0}}}
CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | sed -n 's/.*(UUID: \(MIG-[^)]*\)).*/\1/p' | sed -n "$((rank + 1))p")
export CUDA_VISIBLE_DEVICES
exec "$@"
