"""An in-memory Kubernetes API: an API server in small, for demos, tests and the simulator.

`store` holds the objects and the rules of writing them, `direct` speaks `kube.cluster.Cluster` on it without
any I/O, `server` speaks HTTP around it. A real kube-apiserver is the reference for every answer.
"""
