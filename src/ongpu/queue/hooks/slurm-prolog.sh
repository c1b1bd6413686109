#!/bin/sh
# /etc/slurm/ongpu-prolog.sh: Slurm's Prolog. Refuses to start a job on GPUs that `ongpu gate` refuses; the job is queued again.
# slurm.conf also needs SchedulerParameters=nohold_on_prolog_fail, or the refused job is held until someone releases it.
ONGPU=${ONGPU:-ongpu}
# slurmd runs this without a PATH (seen on 22.05.8).
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin
export PATH
MARK="ongpu gate:"
NODE=${SLURMD_NODENAME:-$(hostname -s)}

# Only the job's own GPUs count, by their physical index. (CUDA_VISIBLE_DEVICES is renumbered from 0 where devices are constrained.)
[ -n "$SLURM_JOB_GPUS" ] || exit 0 # a job without GPUs
REASONS=$(timeout 40 "$ONGPU" gate --patience 15 --gpus "$SLURM_JOB_GPUS" 2>/dev/null)
[ $? -eq 1 ] && [ -n "$REASONS" ] || exit 0 # 0: place; anything else is no verdict about the GPUs

# Slurm drains a node whose prolog fails, for "Prolog error", and nothing takes that back. Drained first with our mark, the health
# check takes it back when the GPUs are well again.
DRAINED=$(timeout 10 scontrol show node "$NODE" 2>/dev/null | sed -n 's/^ *Reason=\(.*\)$/\1/p')
FIRST=$(printf '%s\n' "$REASONS" | head -n 1 | cut -c 1-180)
[ -n "$DRAINED" ] || scontrol update NodeName="$NODE" State=DRAIN Reason="$MARK $FIRST"
printf '%s\n' "$REASONS" >&2
exit 1
