"""Clusters of real processes for the tests of this folder: hosts are Python programs, in processes of their own."""
import atexit
import fcntl
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
HANGS_S = int(os.environ.get("HANGS_S", 120))  # only what hangs takes so long

_ports = []


def bind(number):
    """Raises OSError if somebody has one of those that hosts get, who does not know of the locks."""
    for port in range(1, 4):
        with socket.socket() as s:
            s.bind(("127.0.0.1", number * 100 + port))


def ports():
    """A hundred of them that are this test's while it runs, as in tests/proc/cluster.sh."""
    if not _ports:
        folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp"), f"tram-test-ports-{os.getuid()}")
        folder.mkdir(exist_ok=True)
        for number in range(200, 320):
            lock = open(folder / str(number), "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                bind(number)
            except OSError:
                continue
            _ports.append((number, lock))
            break
    return _ports[0][0]


def wait_for(condition, *work):
    """Until it is so; what is in `work` is called meanwhile."""
    end = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < end, f"waited for {HANGS_S} s"
        for function in work:
            function()
        if not work:
            time.sleep(0.005)


class Folder:
    """A cluster file in a folder of its own, and processes of it. All of it goes when the block ends."""

    def __init__(self, *options, edit=lambda text: text):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="tram-python."))
        self.file = str(self.path / "cluster.yaml")
        self.processes = {}
        atexit.register(self.remove)
        (self.path / "run").mkdir()
        self.tram("init", "cluster.yaml", "--name", f"python-{os.getpid()}", *options)
        text = pathlib.Path(self.file).read_text()
        if "tcp" in options:
            text = re.sub(r"127\.0\.0\.1:71", f"127.0.0.1:{ports()}", text)
        pathlib.Path(self.file).write_text(edit(text) + f"\nruntime_dir: {self.path}/run\n")

    def tram(self, *arguments):
        done = subprocess.run([os.environ["TRAM"], *arguments], cwd=self.path, capture_output=True, text=True, timeout=HANGS_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def up(self):
        """All hosts, as `tram up` starts them, and waits until they serve."""
        with open(self.path / "up.log", "w") as log:
            self.processes["up"] = subprocess.Popen([os.environ["TRAM"], "up", "-c", self.file], stdout=log, stderr=log)
        status = [os.environ["TRAM"], "status", "--wait", "60", "-c", self.file]
        wait_for(lambda: subprocess.run(status, capture_output=True).returncode == 0)

    def start(self, name, script, *arguments):
        """A Python program of this folder, which gets the cluster file first."""
        log = open(self.path / f"{name}.log", "a")
        self.processes[name] = subprocess.Popen([sys.executable, HERE / script, self.file, *arguments], stdout=log, stderr=log)

    def end(self, name, how=signal.SIGTERM):
        process = self.processes.pop(name)
        process.send_signal(how)
        return process.wait(HANGS_S)

    def log(self, name):
        return (self.path / f"{name}.log").read_text()

    def remove(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.processes.clear()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None and getattr(error, "code", 0):
            for log in sorted(self.path.glob("*.log")):
                print("".join(f"# {log.name}: {line}\n" for line in log.read_text().splitlines()), end="")
        self.remove()
