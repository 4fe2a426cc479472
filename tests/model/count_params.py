#!/usr/bin/env python3
"""Parameter counts of the configurations in configs/, by transformers itself on the meta device (no memory, no GPU)."""
import json
import pathlib
import sys

import torch
import transformers

here = pathlib.Path(__file__).parent / "configs"
for path in sorted(here.glob("*.json")):
    if len(sys.argv) > 1 and path.stem not in sys.argv[1:]:
        continue
    raw = json.loads(path.read_text())
    config = transformers.AutoConfig.for_model(**{k: v for k, v in raw.items() if k != "architectures"})
    name = (raw.get("architectures") or [None])[0]
    with torch.device("meta"):
        if name:
            model = getattr(transformers, name)(config)
        else:
            model = transformers.AutoModelForCausalLM.from_config(config)
    print(path.stem, sum(p.numel() for p in model.parameters()), flush=True)
