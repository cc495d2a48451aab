"""Event-driven, serverless recovery of training jobs on Cloud TPU VMs."""
