"""MDLM with the sampler chosen on development boards: first-hitting, cooler than trained. Run from the root."""

from __future__ import annotations

from dataclasses import replace

import torch

from simplax import from_pretrained
from simplax.config import Unconditional
from simplax.samplers import FirstHitting

model = from_pretrained("runs/sudoku-mdlm", device="cpu")
filling = replace(model.config.sampling, temperature=0.2, sampler=FirstHitting())
config = replace(model.config, sampling=filling, unconditional=Unconditional(0.3, FirstHitting()))
replace(model, config=config).save_pretrained("results/sudoku/models/mdlm", torch.float16)
