"""Forbids products of half-precision matrices on a CPU.

Where a CPU has no such instruction torch is slow and warns; elsewhere nobody would notice.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

PRODUCTS = [
    "mm",
    "mm.out",
    "bmm",
    "bmm.out",
    "dot",
    "addmm",
    "addmm_",
    "addmm.out",
    "addmv",
    "addmv_",
    "addmv.out",
    "addbmm",
    "addbmm_",
    "addbmm.out",
    "baddbmm",
    "baddbmm_",
    "baddbmm.out",
    "_addmm_activation",
    "_scaled_dot_product_flash_attention_for_cpu",
]
"""Operators that every other product of matrices comes down to."""


def forbid_half_products() -> Callable[[], None]:
    """Make them an error in all threads of this process; returns what takes that back.

    Only a recent torch lets a kernel be wrapped; on an older one nothing is forbidden.
    """
    if not hasattr(torch.library, "get_kernel"):
        return lambda: None
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels are replaced, which is the point
        for name in PRODUCTS:
            kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
            library.impl(name, partial(_checked, name, kernel), "CPU", with_keyset=True)
    return library._destroy


def _checked(name: str, kernel: Any, keys: Any, *tensors: Any, **more: Any) -> Any:
    for given in tensors:
        if isinstance(given, torch.Tensor):
            half = given.dtype in (torch.bfloat16, torch.float16)
            assert not half, f"{name} of {given.dtype} on a CPU: compute in float32, round then"
    return kernel.call_boxed(keys, *tensors, **more)
