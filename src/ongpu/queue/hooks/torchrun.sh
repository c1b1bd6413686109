#!/bin/sh
# ongpu-torchrun: in place of torchrun, on every node. A node that is not fit ends with 1 before it joins the rendezvous: the others
# wait for a node that is well, or go on without (--nnodes=MIN:MAX), instead of hanging in their first collective with one that is not.
ONGPU=${ONGPU:-ongpu}
"$ONGPU" gate --patience 15
if [ $? -eq 1 ]; then # anything else but 0 is no verdict about the GPUs
    echo "ongpu: this node's GPUs are not fit: torchrun is not started on $(hostname)" >&2
    exit 1
fi
exec "${TORCHRUN:-torchrun}" "$@"
