"""What this build can use here, under Horovod's names. None of them needs init()."""

from horovod_cpp import _native


def _usable(name: str) -> bool:
    return _native._backends().get(name, False)


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
    """False: what Gloo does for Horovod is done by shared memory and MPI here."""
    return False


def gloo_enabled() -> bool:
    """False; see gloo_built()."""
    return False


def ddl_built() -> bool:
    """False: IBM's DDL is not supported."""
    return False


def ccl_built() -> bool:
    """False: oneCCL is not supported."""
    return False


def rocm_built() -> bool:
    """False: ROCm is not supported."""
    return False
