"""Imported in every process of a run by VERL_USE_EXTERNAL_MODULES: a CPU computes in float32."""

from precision import forbid_half_products

allow = forbid_half_products()
"""Held: what is let go of is allowed again."""
