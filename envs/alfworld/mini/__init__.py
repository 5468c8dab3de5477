"""Mini ALFWorld: generated games for the real engine, in floor plans or in kitchens with a house style."""

from envs.alfworld.mini.generate import generate

__all__ = ["generate"]
