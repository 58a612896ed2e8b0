"""Latent attention of new tokens to a cache in pages, for Hopper."""

from kernels.latent_decode.kernel import latent_decode

__all__ = ["latent_decode"]
