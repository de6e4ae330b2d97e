"""Perplexity against entropy over temperatures: measured once, stored, compared at the entropy of the data."""

from __future__ import annotations

from simplax.evaluate.frontier.curve import bootstrap as bootstrap
from simplax.evaluate.frontier.curve import interpolate as interpolate
from simplax.evaluate.frontier.curve import read as read
from simplax.evaluate.frontier.entrants import draw as draw
from simplax.evaluate.frontier.matches import curves as curves
from simplax.evaluate.frontier.matches import matches as matches
from simplax.evaluate.frontier.protocol import PROTOCOLS as PROTOCOLS
from simplax.evaluate.frontier.protocol import Protocol as Protocol
from simplax.evaluate.frontier.runner import Entrant as Entrant
from simplax.evaluate.frontier.runner import Runner as Runner
from simplax.evaluate.frontier.store import Store as Store
from simplax.evaluate.frontier.yardstick import Yardstick as Yardstick
