"""What programs of ranks say to make one thing happen after another: text to put before theirs."""

ORDER = '''
import os, pathlib, signal, threading, time

def wait_for(*names):
    "Until other ranks have made files of these names, in the folder that they share."
    end = time.monotonic() + 60
    while not all(os.path.exists(name) for name in names):
        assert time.monotonic() < end, f"none of the other ranks made {names}"
        time.sleep(0.005)

def state_of(task):
    "Of a thread, a folder in /proc: R (or waits for a CPU), S (sleeps), T (is stopped)."
    return pathlib.Path(task, "stat").read_text().rpartition(")")[2].split()[0]

def is_stopped(task):
    try:
        return state_of(task) == "T"
    except (FileNotFoundError, ProcessLookupError):
        return True  # the thread has ended

def wait_until_stopped(pid):
    "SIGSTOP reaches the threads of a process one after another."
    while not all(map(is_stopped, pathlib.Path(f"/proc/{pid}/task").iterdir())):
        time.sleep(0.005)

def once_asleep(act):
    "Returns at once. Acts when the main thread has slept: in a wait, not before it."
    def watch():
        asleep = 0
        while asleep < 10:  # what only lacks a CPU is R
            time.sleep(0.02)
            asleep += state_of(f"/proc/self/task/{os.getpid()}") == "S"
        act()
    threading.Thread(target=watch, daemon=True).start()

def signal_once_asleep(number):
    once_asleep(lambda: os.kill(os.getpid(), number))
'''
