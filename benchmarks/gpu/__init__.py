"""What the gpu engine takes, measured on a machine with a CUDA device: see `__main__.py`."""
