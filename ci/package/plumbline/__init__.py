"""Plumbline: conformance and benchmark suite for the building blocks of distributed training.

plumbline.adapter  makes an adapter of a dictionary of functions
plumbline.job      what a training program needs to be judged (numpy; Python 3.11)
"""
