"""Jobs run by a Kubernetes cluster, through its API over plain HTTP; no client library, no kubectl."""
