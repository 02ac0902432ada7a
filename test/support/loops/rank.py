"""One rank of a job: runs programs one after the other, and writes what they gave.

    python rank.py FOLDER FRONT       reads FOLDER/programs.json, writes FOLDER/rank.N

Ranks wait for each other between programs. After an error of any rank the job ends, because what
it left behind would be taken for the next program's.
"""

import json
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))


def front_of(name):
    """The class of programs, and the package that connects the ranks."""
    if name.startswith("torch"):
        import torch

        import horovod_cpp.torch as hvd
        from loops import torch_front

        torch.set_num_threads(1)
        if name == "torch_ddp":
            torch.distributed.init_process_group("horovod_cpp", init_method="hvd://")
        hvd.init()
        return {"torch": torch_front.TorchFront, "torch_ddp": torch_front.TorchDdpFront}[name], hvd
    import horovod_cpp as hvd
    from loops import own_front

    hvd.init()
    return {"own": own_front.OwnFront, "own_ddp": own_front.OwnDdpFront}[name], hvd


def run(front_class, program, rank, hvd):
    """What each operation reported, and the error that ended the program."""
    trace = []
    try:
        front = front_class(program, rank)
        for op in program["ops"]:
            trace.append(front.play(op))
    except Exception as error:
        over = isinstance(error, hvd.HorovodInternalError)
        return {"trace": trace, "at": len(trace), "error": type(error).__name__,
                "text": str(error), "refusal": not over and _refuses(error, hvd), "over": over}
    return {"trace": trace, "error": None}


def _refuses(error, hvd):
    return isinstance(error, (ValueError, RuntimeError, TypeError)) and not isinstance(
        error, hvd.MismatchError)


def main(folder, name):
    folder = pathlib.Path(folder)
    programs = json.loads((folder / "programs.json").read_text())
    warnings.simplefilter("ignore")
    front_class, hvd = front_of(name)
    rank = hvd.rank()
    with open(folder / f"rank.{rank}", "w") as file:
        for program in programs:
            done = run(front_class, program, rank, hvd)
            file.write(json.dumps(done) + "\n")
            file.flush()
            if done["error"] and done["over"]:
                break
            if any(hvd.allgather_object(done["error"] is not None)):
                break


if __name__ == "__main__":
    main(*sys.argv[1:])
