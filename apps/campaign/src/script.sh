#!/bin/bash
# A job of the campaign "{{ name }}". It measures until shortly before its time limit, and then goes back into the queue.
{%- if nodes %}
# `bash FILE [option of sbatch...]` submits a job for each number of nodes: {{ nodes }}.
# `sbatch --nodes=N FILE` submits one of them.
{%- endif %}
#SBATCH --job-name={{ job }}
{%- if nodes %}
#SBATCH --nodes={{ fewest }}
{%- endif %}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@60
{%- if options %}
#SBATCH {{ options }}
{%- endif %}

file={{ file }}
folder={{ folder }}
isochron={{ program }}
{% if nodes %}
if [ -z "$SLURM_JOB_ID" ]; then
    case " $* " in *' : '*) echo "a job of several parts has no number of nodes: give them to sbatch" >&2; exit 2 ;; esac
    for nodes in {{ nodes }}; do
        sbatch --nodes="$nodes" "$@" "$0" || exit
    done
    exit
fi

# A heterogeneous job has the nodes of all its parts.
nodes=0
for part in "${!SLURM_JOB_NUM_NODES_HET_GROUP_@}"; do nodes=$((nodes + ${!part})); done
[ "$nodes" -gt 0 ] || nodes=$SLURM_JOB_NUM_NODES
{% endif %}
points=$folder/{% if nodes %}nodes-$nodes/{% endif %}points.jsonl
count_points() { cat "$points" 2> /dev/null | wc -l; }
before=$(count_points)

# A minute before the time limit Slurm sends USR1 to this script alone.
trap 'is_late=1; kill -TERM "$!"' USR1
"$isochron" campaign run "$file" --dir "$folder"{% if nodes %} --nodes "$nodes"{% endif %} &
engine=$!
wait "$engine"
status=$?
if [ -n "$is_late" ]; then
    # The signal has ended the wait.
    wait "$engine"
    status=$?
    if [ "$status" -ne 0 ] && [ "$(count_points)" -gt "$before" ]; then
        exec scontrol requeue "$SLURM_JOB_ID"
    fi
    [ "$status" -eq 0 ] || echo "no repetition has ended within the time limit of this job: give it more time" >&2
fi
exit "$status"
