"""Generate mini ALFWorld games: `python -m envs.alfworld.mini ROOT [--variant conventions] [--seed 0] ...`."""

import argparse
import json

from envs.alfworld.mini.generate import VARIANTS, generate

parser = argparse.ArgumentParser(prog="python -m envs.alfworld.mini", description="Generate mini ALFWorld games.")
parser.add_argument("root", help="the games go to ROOT/json_2.1.1")
parser.add_argument("--variant", default="floorplans", choices=sorted(VARIANTS))
for name, default in (("seed", 0), ("train", 480), ("seen", 60), ("unseen", 60), ("check", 0)):
    parser.add_argument(f"--{name}", type=int, default=default)
print(json.dumps(generate(**vars(parser.parse_args())), indent=1))
