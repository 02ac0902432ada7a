"""What this machine offers to a job, and how to fix problems: ``python -m horovod_cpp.doctor``."""
