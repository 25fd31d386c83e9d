"""Attention kernels for rows with a shared prefix."""
