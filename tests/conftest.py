"""What all tests share: one thread, so that numbers repeat, and pictures without a screen."""

import matplotlib
import torch

matplotlib.use("Agg")
torch.set_num_threads(1)
