"""What this machine offers a job, and how to fix what is wrong: ``python -m horovod_cpp.doctor``."""
