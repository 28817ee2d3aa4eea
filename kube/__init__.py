"""The API server as Sexton sees it. The only importer of the Kubernetes client."""
