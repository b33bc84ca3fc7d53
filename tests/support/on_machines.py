"""The command line on several machines, each with a disk of its own.

torchrun --nproc-per-node 2 on_machines.py FOLDER ARGUMENTS...       process N runs `discreet` in FOLDER/N
"""

import os
import sys
from pathlib import Path

from discreet.cli import main

os.chdir(Path(sys.argv[1]) / os.environ["RANK"])
main(sys.argv[2:])
