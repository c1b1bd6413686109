#!/bin/sh
# /etc/slurm/ongpu-healthcheck.sh: Slurm's HealthCheckProgram. Drains this node while `ongpu gate` refuses, and takes back only that.
# Slurm drains whole nodes: one sick GPU of eight stops all eight. A GPU taken out of gres.conf instead is no longer fenced in:
# any job could open its device, and the indices that jobs see may then name it. So: drain, and mend.
ONGPU=${ONGPU:-ongpu}
# slurmd runs this with SLURMD_NODENAME alone (seen on 22.05.8): no PATH. Where slurm.conf is elsewhere, add SLURM_CONF=... here.
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/opt/slurm/bin
export PATH
MARK="ongpu gate:"
NODE=${SLURMD_NODENAME:-$(hostname -s)}

# No job is meant here but the machine: what slurmd's own environment says of GPUs does not count.
unset CUDA_VISIBLE_DEVICES SLURM_JOB_GPUS
# Slurm ends this program after 60 s (slurm.conf(5)); a hung driver is told as a reason long before.
REASONS=$(timeout 40 "$ONGPU" gate --patience 15 2>/dev/null)
CODE=$?
[ $CODE -ne 1 ] || [ -n "$REASONS" ] || CODE=3 # refused, and no word why: a failure
NOW=$(timeout 10 scontrol show node "$NODE" 2>/dev/null) || exit 0
DRAINED=$(printf '%s\n' "$NOW" | sed -n 's/^ *Reason=\(.*\)$/\1/p')

case $CODE in
1)
    # A node that someone else has drained stays theirs: their reason must not be lost, nor their drain be taken back by us.
    case $DRAINED in
    "" | "$MARK"*)
        FIRST=$(printf '%s\n' "$REASONS" | head -n 1 | cut -c 1-180)
        case $DRAINED in
        "$MARK $FIRST"*) ;; # told already
        *) scontrol update NodeName="$NODE" State=DRAIN Reason="$MARK $FIRST" ;;
        esac
        ;;
    esac
    ;;
0)
    case $DRAINED in
    "$MARK"*) scontrol update NodeName="$NODE" State=UNDRAIN ;;
    esac
    ;;
esac
# Any other code: the gate itself failed (or was ended). That is no verdict about the GPUs, and changes nothing.
exit 0
