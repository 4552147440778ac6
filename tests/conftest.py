"""Shared by all tests: one thread, reproducible hypothesis, and the trained pairs where they are at hand."""

import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
import torch

from helpers.examples import TIMES
from helpers.learning import write_pairs
from helpers.random_models import random_model
from helpers.tiny import TINY
from onebasin import Checkpoint
from onebasin.cli import main, watching

watching.EVERY = float("inf")  # log lines by the clock would come and go with the load of the machine
torch.set_num_threads(1)
USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
for number, handler in USUAL.items():
    if signal.getsignal(number) is signal.SIG_IGN:  # in the background: `make test &`, `nohup make test`
        signal.signal(number, handler)
hypothesis.settings.register_profile("onebasin", derandomize=True, deadline=None, max_examples=100 * TIMES)
hypothesis.settings.load_profile("onebasin")

SHARED = Path(__file__).resolve().parents[2] / "shared"
ZOO, DATA = SHARED / "zoo", SHARED / "data"


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one Hugging Face folder for each model of the zoo."""
    if not (ZOO / "unpack").is_file():
        pytest.skip("../shared/zoo is absent: it holds the trained pairs and is not part of the repository")
    target = tmp_path_factory.mktemp("zoo")
    subprocess.run([sys.executable, ZOO / "unpack", target], check=True, stdout=subprocess.DEVNULL)
    return target


@pytest.fixture(scope="session")
def data():
    """The module that reads the data sets; they lie beside it."""
    if not (DATA / "load.py").is_file():
        pytest.skip("../shared/data is absent: it holds the data sets and is not part of the repository")
    sys.path.insert(0, str(DATA))
    try:
        import load
    finally:
        sys.path.remove(str(DATA))
    return load


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """Tiny pairs, one of every class in `helpers.learning.TINY`."""
    return write_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """(A, B) of one of the classes in `helpers.tiny.TINY`."""
    root = tmp_path_factory.mktemp("tiny")
    for name, config in TINY.items():
        for seed in (0, 1):
            random_model(name, config, seed).save_pretrained(root / f"{name}-{seed}")
    return lambda name: tuple(Checkpoint.open(root / f"{name}-{seed}") for seed in (0, 1))


@pytest.fixture
def cli(capsys):
    """Run the command line: (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return caught.value.code or 0, out, err

    return call
