#!/bin/sh
# Gives each rank of a host its own slice (MIG) of the GPUs, in the order of `nvidia-smi -L`:
#
#   mpirun -n 2 --bind-to none cluster-configs/own-slice.sh isochron mxm --size 8192
#
# A process sees one slice of a GPU instance, and with drivers before R570 one slice in all. Without this script, all
# ranks would see the same slice. A rank for which no slice is left sees no GPU. Batch systems that give each task a
# slice (Slurm: --gpus-per-task) set CUDA_VISIBLE_DEVICES themselves and do not need this script.
rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-0}}}
CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | sed -n 's/.*(UUID: \(MIG-[^)]*\)).*/\1/p' | sed -n "$((rank + 1))p")
export CUDA_VISIBLE_DEVICES
exec "$@"
