"""The command line on several machines, each with a disk of its own.

torchrun --nproc-per-node 2 on_machines.py FOLDER ARGUMENTS...       process N runs `discreet` in FOLDER/N

torchrun of each machine counts restarts for itself: that of the second has counted one that the first did not.
"""

import os
import sys
from pathlib import Path

from discreet.cli import main

os.environ |= {"TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_RESTART_COUNT": os.environ["RANK"], "LOCAL_RANK": "0"}
os.chdir(Path(sys.argv[1]) / os.environ["RANK"])
main(sys.argv[2:])
