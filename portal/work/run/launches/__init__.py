"""Launches of runs: new ones, repetitions, chains and schedules."""
