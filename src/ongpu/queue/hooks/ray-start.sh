#!/bin/sh
# ongpu-ray-start: in place of `ray start`, on every node, with the same arguments. Offers Ray only the GPUs that `ongpu gate` passes:
# CUDA_VISIBLE_DEVICES and --num-gpus name no other, the resource ongpu_fit says how many passed, and ongpu_kept:UUID:SLUG which did not.
# The queue's engine `ray` asks for ongpu_fit where a cluster has it, so its jobs go to no node that was started without the gate.
# Ray cannot take one GPU out of a node that runs: when a GPU fails later, stop the node (ray stop) and start it with this again.
# Its own resources go into ONGPU_RAY_RESOURCES, as members of a JSON table: '"disk": 2, "license": 1'.
ONGPU=${ONGPU:-ongpu}
RAY=${RAY:-ray}

FIT=""
KEPT=""
COUNT=0
# A driver that hangs, or is not there, offers nothing: the node is then one without GPUs. Where CUDA_VISIBLE_DEVICES is set (an allocation
# of Slurm), no other GPU is offered; "" names none.
LIST=$(timeout 30 nvidia-smi ${CUDA_VISIBLE_DEVICES+-i "$CUDA_VISIBLE_DEVICES"} --query-gpu=uuid --format=csv,noheader 2>/dev/null) || LIST=""
for UUID in $LIST; do
    case $UUID in GPU-*) ;; *) continue ;; esac
    REASONS=$(timeout 40 "$ONGPU" gate --patience 15 --gpus "$UUID" 2>/dev/null)
    if [ $? -eq 1 ] && [ -n "$REASONS" ]; then # anything else is no verdict about the GPU
        SLUG=$(printf '%s\n' "$REASONS" | sed -n '1s/^\([a-z0-9-]\{1,80\}\):.*/\1/p')
        KEPT="$KEPT, \"ongpu_kept:$UUID:$SLUG\": 1"
        printf 'ongpu: kept from Ray: %s: %s\n' "$UUID" "$(printf '%s\n' "$REASONS" | head -n 1)" >&2
        continue
    fi
    FIT=$FIT${FIT:+,}$UUID
    COUNT=$((COUNT + 1))
done

export CUDA_VISIBLE_DEVICES="$FIT"
export CUDA_DEVICE_ORDER=PCI_BUS_ID
# Of the head node: Ray gives a job up that has waited for so long (900 s where nobody says), as if it had failed. A queue may wait weeks.
export RAY_JOB_START_TIMEOUT_SECONDS="${RAY_JOB_START_TIMEOUT_SECONDS:-31536000}"
exec "$RAY" start --num-gpus="$COUNT" --resources="{\"ongpu_fit\": $COUNT$KEPT${ONGPU_RAY_RESOURCES:+, $ONGPU_RAY_RESOURCES}}" "$@"
