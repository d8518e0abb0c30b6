"""The tile language of kernels: what runs inside one fusion, on CPU vectors and in Triton alike."""
