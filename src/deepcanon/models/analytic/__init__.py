"""Densities fitted in closed form or by exact steps: the baselines that every comparison needs."""
