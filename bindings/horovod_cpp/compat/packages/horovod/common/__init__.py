"""horovod.common"""
