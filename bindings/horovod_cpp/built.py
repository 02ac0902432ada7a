"""What this build can use here, under Horovod's names. None of them needs init()."""

from horovod_cpp import _native


def _usable(name: str) -> bool:
    return _native._backends()[name][0]


def mpi_built() -> bool:
    """Whether MPI can be used: its module was built and the library opens."""
    return _usable("mpi")


def nccl_built() -> int:
    """NCCL's version as a number (2.28.3 is 22803); 0 where NCCL cannot be used."""
    return int(_usable("nccl"))


def cuda_built() -> bool:
    """Whether CUDA can be used."""
    return _usable("cuda")


def gloo_built() -> bool:
    """True: ranks find each other and train without MPI, which is what programs ask this for.

    ``hvdrun --gloo``, ``HOROVOD_CONTROLLER=gloo`` and ``use_gloo=True`` work in every build. Gloo
    itself is not used: ranks of one machine share memory, those of several use TCP.
    """
    return True


def gloo_enabled() -> bool:
    """Whether this job does without MPI; False before init()."""
    return _native.is_initialized() and not _native.mpi_enabled()


def ddl_built() -> bool:
    """False: IBM's DDL is not supported."""
    return False


def ccl_built() -> bool:
    """False: oneCCL is not supported."""
    return False


def rocm_built() -> bool:
    """False: ROCm is not supported."""
    return False
